"""An app that copies a topic, row by row, into one sink; and the process that runs it, which says what it needs.

python -m tests.flow.large_outputs.copying KIND DATA ADDRESS TARGET [STRIKE]

Prints a line when it begins to copy the rows that are there, and one when they are copied, with the memory of the idle
driver. Each line that it reads makes it copy what has come since, and print how long that took, and how far its memory
rose. STRIKE says which of its processes is killed while it copies, and when (strikes.py).
"""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.flow.run.running_app import NO_RETRIES, RunningApp, RunSettings
from headwater.flow.session import start_session, stop_session
from tests.crash.flow import deadly_workers
from tests.crash.flow.moments import Blackboard
from tests.flow.large_outputs.strikes import PARQUET, POSTGRES, TOPIC, Strike

ORDERS, COPIED, PARTITIONS = "orders", "copied", 4
SAMPLE_SECONDS = 0.02


def declare(kind: str, target: str) -> hw.App:
    app = hw.App("copies", shards=2)
    orders = app.stream(ORDERS, "id long, user_id long, amount double, note string")
    whole = orders.where("amount >= 0").select("id", "user_id", "amount", "note")
    if kind == PARQUET:
        app.sink(hw.sinks.Parquet(target), name=COPIED)(lambda: whole)
    elif kind == TOPIC:
        app.topic(COPIED, key="user_id", partitions=PARTITIONS)(lambda: whole)
    elif kind == POSTGRES:
        app.sink(hw.sinks.Database(target, COPIED), name=COPIED)(lambda: whole)
    else:
        app.view(key="id", store=target, name=COPIED)(lambda: whole.latest("id"))
    return app


class Peak:
    """The most memory that this process has had since it was made, in bytes."""

    def __init__(self) -> None:
        self.size = resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self.size = max(self.size, resident())

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self.size


def resident() -> int:
    """Without mapped pages of files, such as state that is merged: the kernel takes those back when it likes."""
    status = Path("/proc/self/status").read_text()
    return sum(int(found) * 1024 for found in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+) kB", status))


def board_of(data: Path) -> Blackboard:
    return Blackboard(data.parent / "board")


def main() -> int:
    kind, data, address, target, *strike = sys.argv[1:]
    board = board_of(Path(data))
    os.environ[deadly_workers.BOARD] = str(board.folder)
    settings = {"spark.python.daemon.module": deadly_workers.__name__} if strike else {}
    session = start_session("large outputs", Path(data).parent / "spark", master="local[*,4]", settings=settings)
    for one in strike:
        Strike(**json.loads(one)).prepare(board)

    def copy() -> int:
        batches: list[Any] = []
        settings = RunSettings(Path(data), address, once=True, retries=NO_RETRIES)
        running = RunningApp(
            declare(kind, target), session, settings, watch=lambda job, progress: batches.append(progress)
        )
        try:
            running.start()
            running.wait()
        finally:
            running.stop()
        return len(batches)

    print(json.dumps({"begins": kind}), flush=True)
    copy()
    copy()
    idle = resident()
    print(json.dumps({"idle": idle}), flush=True)
    while sys.stdin.readline():
        peak, began = Peak(), time.monotonic()
        batches = copy()
        said = {"batches": batches, "seconds": time.monotonic() - began, "above_idle": peak.stop() - idle}
        print(json.dumps(said), flush=True)
    stop_session(session)
    return 0


if __name__ == "__main__":
    sys.exit(main())
