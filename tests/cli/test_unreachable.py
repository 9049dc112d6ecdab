"""headwater run --once, where the database of a capture cannot be reached."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.capture import supervisor
from headwater.cli import run
from tests.cli.conftest import Terminal
from tests.webhooks.target import closed_port

APP = """\
import headwater as hw
app = hw.App("shop")
users = app.table("users", {schema}key="id", capture=hw.capture.postgres({url!r}, table="public.users"))
app.view(key="id", name="people")(lambda: users)
"""


class NoSpark:
    """In place of a session on its way up: nothing here comes so far as to use one."""

    def finish(self) -> None:
        return None


@pytest.mark.parametrize("schema", ["", '"id long", '], ids=["columns of the registry", "columns of the app"])
def test_it_ends_by_itself_with_the_reason(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    @contextmanager
    def beginning_spark(*_: object) -> Iterator[NoSpark]:
        yield NoSpark()

    monkeypatch.setattr(run, "beginning_spark", beginning_spark)
    monkeypatch.setattr(supervisor, "PAUSE_MIN_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "PAUSE_MAX_SECONDS", 0.01)
    url = f"postgresql://ada:s3cret@127.0.0.1:{closed_port()}/shop"
    (terminal.folder / "shop.py").write_text(APP.format(url=url, schema=schema))
    ran = terminal.type("run", "shop.py", "--once")
    assert ran.code == 1
    last = ran.errors.splitlines()[-1]
    assert last.startswith(f"headwater: capture users has not begun after {run.CAPTURE_ATTEMPTS} attempts: ")
    assert "127.0.0.1" in last
    assert "refused" in last.lower()
    assert "s3cret" not in ran.errors
    assert "Traceback" not in ran.errors
