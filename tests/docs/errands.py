"""Commands that start Spark, run by the process of the test: a page would start one JVM after the other.

A `headwater` that stands first in the PATH of a page's shell hands such a command over by a socket, and all others to
the real one. The process of the test runs it by the function that the real one calls, with the session that it has.
"""

import json
import select
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import Terminal
from tests.docs import errand_client
from tests.flow.spark_session import shared_session

HANDED_OVER = "run|verify"
HEADWATER = """\
#!/bin/sh
case "$1" in
    {handed_over}) exec {client} "$@" ;;
    *) exec {real} "$@" ;;
esac
"""


@dataclass(frozen=True)
class SharedSession:
    """A session that does not end with its command (headwater.flow.session.Starting)."""

    session: SparkSession

    def finish(self) -> SparkSession:
        return self.session

    def end(self) -> None:
        pass


class Errands:
    """Ends with the page."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._terminal, self._monkeypatch = Terminal(folder, monkeypatch), monkeypatch
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.path = folder / "bin"
        self.path.mkdir()
        script = self.path / "headwater"
        port, real = self._listening.getsockname()[1], Path(sys.executable).with_name("headwater")
        client = f"{sys.executable} {errand_client.__file__} {port}"
        script.write_text(HEADWATER.format(handed_over=HANDED_OVER, client=client, real=real))
        script.chmod(0o755)

    def run_next(self, seconds: float) -> None:
        """If one comes within the time."""
        if not select.select([self._listening], [], [], seconds)[0]:
            return
        with self._listening.accept()[0] as asking, asking.makefile("rw") as lines:
            asked, shared = json.loads(lines.readline()), SharedSession(shared_session())
            with self._monkeypatch.context() as patch:
                patch.chdir(asked["folder"])
                patch.setattr("headwater.flow.session.begin_session", lambda *given, **named: shared)
                lines.write(json.dumps(self._terminal.type(*asked["words"])._asdict()))

    def close(self) -> None:
        self._listening.close()
