"""headwater run: what is said before Spark is started."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from headwater.cli.run import Board
from headwater.flow.job.accounts import Account
from headwater.flow.job.folder import BatchRecord, JobFolder
from headwater.flow.job.identity import identify
from headwater.flow.job.processing import Progress
from headwater.flow.job.watermarks import Clocks
from headwater.record import TopicPartition
from tests.cli.conftest import Terminal

APP = """\
import headwater as hw
app = hw.App("shop")
orders = app.stream("orders", "id long")
app.view(key="id", name="latest")(lambda: orders.latest("id"))
"""


def write_app(folder: Path, text: str = APP) -> None:
    (folder / "shop.py").write_text(text)


def test_a_file_that_is_not_there_is_one_sentence(terminal: Terminal) -> None:
    ran = terminal.type("run", "nowhere.py")
    assert (ran.code, ran.output) == (1, "")
    assert ran.errors == "headwater: there is no file nowhere.py. Give the Python file that declares your app.\n"


def test_a_mistake_in_the_file_names_its_line(terminal: Terminal) -> None:
    write_app(terminal.folder, APP.replace('"id long"', '"id lnog"'))
    ran = terminal.type("run", "shop.py")
    assert ran.code == 1
    assert "shop.py:3" in ran.errors
    assert "lnog" in ran.errors
    assert "Traceback" not in ran.errors


def test_an_app_that_runs_already_is_refused_at_once(terminal: Terminal) -> None:
    write_app(terminal.folder)
    job = JobFolder(terminal.data / "flows" / "shop" / "orders")
    identify(job, app="shop", job="orders", cluster="one", shards=2)
    job.lock()
    try:
        ran = terminal.type("run", "shop.py", "--once")
    finally:
        job.unlock()
    assert ran.code == 1
    assert "job orders is being run by process" in ran.errors
    assert not (terminal.data / "flows" / "spark.log").exists(), "Spark was not started for that"


def test_a_view_that_no_app_has_made_cannot_be_verified(terminal: Terminal) -> None:
    terminal.data.mkdir()
    ran = terminal.type("verify", "latest")
    assert ran.code == 1
    assert 'Run one with "headwater run APP.py"' in ran.errors


def test_the_line_of_a_job_tells_how_far_it_is_in_time_and_whom_it_does_not_wait_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clocks = Clocks({"orders": {0: 90_000_000}})
    idle = frozenset({TopicPartition("orders", 1)})
    record = BatchRecord(7, {}, {}, {"counts": Account(rows_in=5, late=2)}, clocks, 25_000_000, idle)
    board = Board(as_json=True)
    board.tell("orders", Progress(record, 0.5, 1_000_000))
    said = json.loads(capsys.readouterr().out)
    assert (said["watermark"], said["newest"]) == ("1970-01-01T00:00:25Z", "1970-01-01T00:01:30Z")
    assert said["idle"] == ["orders/1"]
    console = Console(file=io.StringIO(), width=200)
    console.print(board._table())
    assert isinstance(console.file, io.StringIO)
    line = console.file.getvalue().splitlines()[1].split()
    assert line == ["orders", "7", "5", "10", "1.0", "MB", "1970-01-01", "00:00:25", "1m", "5s", "1", "2", "0"]
