"""The demo as a process of its own, until it is ended."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import LONG


class Ended(NamedTuple):
    code: int
    summary: dict[str, Any]
    errors: str


class Demo:
    """`headwater demo --json`, from its start until it is asked to end."""

    def __init__(self, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "headwater", "demo", "--no-browser", "--json", *words]
        self._errors = folder / "errors"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors)
        self._said: list[dict[str, Any]] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._said.append(json.loads(line))
                self._ready.set()
        self._ready.set()

    @property
    def url(self) -> str:
        """Where its dashboard is; waits until it is there."""
        self._ready.wait(LONG)
        assert self._said, self.errors
        return str(self._said[0]["http"])

    @property
    def errors(self) -> str:
        return self._errors.read_text(errors="replace")

    def end(self) -> Ended:
        """Ctrl-C, and what it says then."""
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(LONG)
        self._reader.join(LONG)
        return Ended(code, self._said[-1] if self._said else {}, self.errors)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(LONG)
        self._reader.join(LONG)
