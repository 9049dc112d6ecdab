"""headwater run: what is said before Spark is started."""

from pathlib import Path

from headwater.flow.job.folder import JobFolder
from headwater.flow.job.identity import identify
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
