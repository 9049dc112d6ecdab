"""A capture of files under a test's hand, and a program that writes and rotates them."""

import os
import shutil
from pathlib import Path

from headwater.capture.appender import LogAppender
from headwater.capture.followed_files.source import LINGER_MS, FilesSettings, FilesSource
from headwater.capture.notes import Notes
from headwater.capture.runner import Runner
from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.record import Record

QUIET_STEPS = 4


class Killed(Exception):
    """The process ends here."""


class Captured:
    def __init__(
        self, folder: Path, pattern: str = "app.log", *, encoding: str = "utf-8", from_start: bool = True
    ) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.logs.mkdir(exist_ok=True)
        self.log, self.clock = Log.open(folder / "data"), ManualClock()
        self.settings = FilesSettings(
            capture="app", pattern=str(self.logs / pattern), topic="app", encoding=encoding, from_start=from_start
        )
        self.kill_at = ""

    def start(self) -> "Captured":
        appender = LogAppender(self.log)
        self.source = FilesSource(self.settings, self.clock)
        self.runner = Runner(
            self.source, appender, Notes(appender, "app"),
            folder=self.folder / "capture", clock=self.clock, point=self._point,
        )  # fmt: skip
        self.runner.open()
        return self

    def _point(self, name: str) -> None:
        if name == self.kill_at:
            self.kill_at = ""
            raise Killed

    def step(self, kill_at: str = "") -> bool:
        """One turn; a turn that is killed leaves everything as it is, and another process resumes."""
        self.kill_at = kill_at
        try:
            emitted = self.runner.step(0)
        except Killed:
            self.crash()
            emitted = True
        self.kill_at = ""
        return emitted

    def crash(self) -> "Captured":
        self.runner.abandon()
        return self.start()

    def caught_up(self) -> "Captured":
        quiet = 0
        while quiet < QUIET_STEPS:
            quiet = 0 if self.step() else quiet + 1
        return self

    def seen(self) -> None:
        """Look at the files once, whatever is still to be emitted."""
        self.step()
        self.step()

    def linger(self) -> "Captured":
        self.clock.advance(LINGER_MS + 1)
        return self.caught_up()

    def close(self) -> None:
        self.source.close()
        self.log.close()

    def records(self) -> list[Record]:
        return list(self.log.read("app", 0))

    def lines(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.records()]


class Program:
    """Writes to app.log, and is rotated as logrotate does it."""

    def __init__(self, logs: Path) -> None:
        self.path = logs / "app.log"
        self._file = self.path.open("ab", buffering=0)
        self._rotations = 0

    def write(self, text: str) -> "Program":
        self._file.write(text.encode())
        return self

    def _shift(self) -> Path:
        self._rotations += 1
        return self.path.with_name(f"app.log.{self._rotations}")

    def rename(self) -> None:
        self.path.rename(self._shift())

    def reopen(self) -> None:
        self._file.close()
        self._file = self.path.open("ab", buffering=0)

    def copy_and_cut(self) -> None:
        shutil.copyfile(self.path, self._shift())
        os.truncate(self.path, 0)

    def close(self) -> None:
        self._file.close()
