"""A node that follows files, killed again and again while they are written and rotated."""

import os
import signal
import threading
import time
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from headwater.capture.definition import Definition, Definitions
from headwater.clock import SystemClock
from headwater.log.log import Log
from tests.capture.followed_files.kit import Program
from tests.crash.capture.killing import RANDOM, Process, Round
from tests.crash.capture.node_process import NODE, NOTHING
from tests.waiting import patience, wait_until

ROUNDS = int(os.environ.get("HEADWATER_FILES_ROUNDS", "4"))
POINTS = ("before append", "after append", "after sync", "after notes", RANDOM)
PATIENCE_SECONDS, LINES_MIN = 60, 1_000


class Writer(threading.Thread):
    """Numbered lines, in pieces that end anywhere, with a rotation now and then."""

    def __init__(self, logs: Path) -> None:
        super().__init__(daemon=True)
        self._program, self._ending, self._dice = Program(logs), threading.Event(), Random(1)
        self.count = 0

    def run(self) -> None:
        while not self._ending.is_set():
            lines = "".join(f"line {self.count + index}\n" for index in range(self._dice.choice((1, 5, 100))))
            self.count += lines.count("\n")
            middle = self._dice.randint(0, len(lines))
            self._program.write(lines[:middle])
            self._ending.wait(self._dice.uniform(0, 0.02))
            self._program.write(lines[middle:])
            kind = self._dice.random()
            if kind < 0.03:
                self._program.rename()
                self._program.reopen()
            elif kind < 0.06:
                self._program.copy_and_cut()

    def stop(self) -> None:
        self._ending.set()
        self.join()
        self._program.close()


def catch_up(data: Path, *, since_ms: int) -> None:
    """A status that an earlier node has left says nothing."""
    deadline, status = patience() + PATIENCE_SECONDS, dict[str, object]()
    while int(str(status.get("at_ms", 0))) < since_ms or status.get("lag_bytes") != 0:
        assert patience() < deadline, f"it does not catch up: {status}"
        time.sleep(0.1)
        status = Definitions(data).status("app") or {}


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_each_line_is_emitted_once_whenever_the_node_is_killed(tmp_path: Path) -> None:
    logs, data, dice = tmp_path / "logs", tmp_path / "data", Random(2)
    logs.mkdir()
    Definitions(data).add(Definition(name="app", url=f"file://{logs}/app.log*"))
    writer = Writer(logs)
    writer.start()
    struck = 0
    for _, point in zip(range(ROUNDS), cycle(dice.sample(POINTS, len(POINTS))), strict=False):
        node = Process(tmp_path, data, Round(NODE, point, dice.choice((1, 2, 6))), 0)
        node.line()
        if point == RANDOM:
            time.sleep(dice.uniform(0.3, 1.5))
            node.process.send_signal(signal.SIGKILL)
        else:
            struck += bool(node.line())
        node.wait_ended()
    wait_until(lambda: writer.count > LINES_MIN, "lines are written")
    writer.stop()
    node = Process(tmp_path, data, Round(NOTHING, RANDOM), 0)
    node.line()
    catch_up(data, since_ms=SystemClock().now_ms())
    assert node.end(signal.SIGTERM) == 0
    assert struck >= ROUNDS - 1 - ROUNDS // len(POINTS)
    with Log.open(data) as log:
        found = [int((record.value or b"").removeprefix(b"line ")) for record in log.read("app", 0)]
    assert sorted(found) == list(range(writer.count))
