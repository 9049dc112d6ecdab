"""headwater run as a process, with Spark: what a person sees of it where not all is well, and how it ends."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.log import Log
from headwater.record import Record
from headwater.testing import running_node
from headwater.views.view import View
from tests.cli.conftest import Terminal
from tests.webhooks.target import webhook_target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FAILING_APP = """\
import headwater as hw
from pyspark.sql import functions as f


def share(id):
    return 100 // (id - 1)


app = hw.App("shop", shards=1, notify=[hw.notify.webhook({url!r}, allow_private=True)])
orders = app.stream("orders", "id long")
visits = app.stream("visits", "id long")
clicks = app.stream("clicks", "id long")
app.topic("shares")(lambda: orders.with_columns(share=f.udf(share, "long")("id")))
app.view(key="id", name="visited")(lambda: visits.latest("id"))
app.view(key="id", name="clicked")(lambda: clicks.latest("id"))
"""

MISSPELT_APP = """\
import headwater as hw
app = hw.App("shop", shards=1)
orders = app.stream("ordres", "id long")
app.view(key="id", name="latest")(lambda: orders.latest("id"))
"""


@contextmanager
def running(folder: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """The command, ended with the block whatever becomes of the test."""
    command = [sys.executable, "-m", "headwater", "run", "shop.py", "--data", str(folder / "data"), *words]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def write(data: Path, *topics: str) -> None:
    with Log.open(data) as log:
        for topic in topics:
            log.create_topic(topic)
            log.append(topic, [Record(b'{"id": 1}'), Record(b'{"id": 2}')])


def until(process: "subprocess.Popen[str]", holds: Callable[[], bool]) -> None:
    """A hang is noticed by the watchdog of the tests."""
    while not holds():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)


def rows(data: Path, view: str) -> int:
    try:
        with View.open(data, "shop", view) as opened:
            return len(opened.rows())
    except HeadwaterError:
        return 0


def test_one_failing_job_of_three_is_shown_with_its_line_notified_and_is_the_exit_code(
    tmp_path: Path,
) -> None:
    write(tmp_path / "data", "orders", "visits", "clicks")
    with webhook_target(200) as target, ExitStack() as stack:
        (tmp_path / "shop.py").write_text(FAILING_APP.format(url=target.url))
        process = stack.enter_context(running(tmp_path))
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        failed = next(line for line in lines if "job orders failed" in line)
        assert "shop.py:6, in share(): ZeroDivisionError: " in failed
        assert "The other jobs continue." in failed
        assert "Traceback" not in failed
        until(process, lambda: {rows(tmp_path / "data", view) for view in ("visited", "clicked")} == {2})
        until(process, lambda: bool(target.taken))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 1, errors
    assert "job orders was failing when the run ended: " in errors
    assert "shop.py:6, in share(): ZeroDivisionError: " in errors
    assert "Traceback" not in errors
    notified = json.loads(target.taken[0].body)
    assert (notified["state"], notified["key"]) == ("raised", {"flow": "shop.orders"})
    assert "shop.py:6, in share(): ZeroDivisionError: " in notified["text"]


def test_warnings_of_a_run_that_is_done_once_are_said_and_are_the_exit_code(terminal: Terminal) -> None:
    """A name that is probably misspelt, and a node of its own where the real one could not start."""
    write(terminal.data, "orders")
    with running_node() as other:
        assert terminal.type("start", "--kafka", other.kafka_address).code == 1
    (terminal.folder / "shop.py").write_text(MISSPELT_APP)
    with running(terminal.folder, "--once") as process:
        _, errors = process.communicate()
    assert process.returncode == 3, errors
    started, misspelt = [line for line in errors.splitlines() if "warning: " in line]
    assert 'the last "headwater start" on this data directory failed: the Kafka port cannot be opened' in started
    assert "topic ordres did not exist and was made, empty." in misspelt
    assert "did you mean orders?" in misspelt
    assert "Traceback" not in errors


CHANGING_APP = """\
import headwater as hw
app = hw.App("shop", shards=1)
visits = app.stream("visits", "id long")
app.view(key="id", name="visited")(lambda: visits.where("id >= {least}").latest("id"))
"""


def test_a_run_takes_an_app_over_and_the_other_process_ends_well(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_node(data) as node, ExitStack() as stack:
        node.log.create_topic("visits")
        node.log.append("visits", [Record(b'{"id": 1}'), Record(b'{"id": 2}')])
        (tmp_path / "shop.py").write_text(CHANGING_APP.format(least=2))
        old = stack.enter_context(running(tmp_path))
        until(old, lambda: rows(data, "visited") == 1)
        (tmp_path / "shop.py").write_text(CHANGING_APP.format(least=1))
        new = stack.enter_context(running(tmp_path, "--take-over", "--rebuild", "visited"))
        until(new, lambda: rows(data, "visited") == 2)
        _, said = old.communicate()
        assert (old.returncode, "is handed over to the run" in said) == (0, True), said
        node.log.append("visits", [Record(b'{"id": 3}')])
        until(new, lambda: rows(data, "visited") == 3)


def test_a_run_whose_node_would_end_with_it_is_not_taken_over(tmp_path: Path) -> None:
    write(tmp_path / "data", "visits")
    with ExitStack() as stack:
        (tmp_path / "shop.py").write_text(CHANGING_APP.format(least=1))
        old = stack.enter_context(running(tmp_path))
        until(old, lambda: rows(tmp_path / "data", "visited") == 2)
        new = stack.enter_context(running(tmp_path, "--take-over"))
        _, said = new.communicate()
        assert new.returncode == 1
        assert "lives in the run that would be taken over" in said
        assert "Traceback" not in said
        assert old.poll() is None
