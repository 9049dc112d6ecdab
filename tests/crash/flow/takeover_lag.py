"""How far a view is behind its topic while a changed one is built beside it.

python -m tests.crash.flow.takeover_lag [--rows N] [--seconds S] [--without-spark]

A topic of N rows is read by a run, and a few rows come every 100 ms. The lag of such rows, from their append until a
reader finds them in the view, is measured for S seconds with that run alone, then while another run rebuilds the view
beside it, up to the hand-over. Prints the figures; the exit code is 1 if the median, or the 99th percentile, has more
than doubled. For a machine that does nothing else.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headwater.record import Record
from headwater.testing import running_node
from headwater.views.store import open_store
from tests.crash.flow.takeover_process import APP, ORDERS
from tests.crash.flow.taking_over import FIRST_MS, PATIENCE_S, Shop, answer
from tests.waiting import LONG, wait_until

ROWS_AT_ONCE, EVERY_S, LOOK_S = 10, 0.1, 0.005
AT_ONCE_MAX = 10_000
TIMES_MAX = 2.0
OLD, NEW = 50, 10


@dataclass
class Lags:
    """Appends rows and looks for them in the view."""

    shop: Shop
    rows: int
    seconds: list[float] = field(default_factory=list)
    _waiting: deque[tuple[int, float]] = field(default_factory=deque)

    def feed(self, count: int) -> None:
        rows = [{"id": self.rows + one, "amount": one % 100, "currency": "EUR"} for one in range(count)]
        records = [Record(json.dumps(row).encode(), timestamp_ms=FIRST_MS) for row in rows]
        self.shop.node.log.append(ORDERS, records)
        self.rows += count
        self._waiting.append((self.rows, time.monotonic()))

    def work(self, ended: threading.Event) -> list[float]:
        """Lags of what is fed until the end."""
        store, measured, due = open_store(self.shop.where, APP, read_only=True), list[float](), time.monotonic()
        try:
            while not ended.is_set():
                if time.monotonic() >= due:
                    self.feed(ROWS_AT_ONCE)
                    due += EVERY_S
                offset = answer(store).offset
                while self._waiting and self._waiting[0][0] <= offset:
                    measured.append(time.monotonic() - self._waiting.popleft()[1])
                ended.wait(LOOK_S)
        finally:
            store.close()
        return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-lag-") as folder, running_node(Path(folder) / "data") as node:
        node.log.create_topic(ORDERS)
        flags = () if given.without_spark else ("--spark",)
        alone, beside = measured(Shop(node, Path(folder), [OLD, NEW], "", flags), given.rows, given.seconds)
    return verdict(alone, beside)


def measured(shop: Shop, rows: int, seconds: float) -> tuple[list[float], list[float]]:
    lags = Lags(shop, 0)
    while lags.rows < rows:
        lags.feed(min(AT_ONCE_MAX, rows - lags.rows))
    live = shop.run(OLD)
    try:
        live.wait_until_it_runs()
        wait_until(lambda: shop.offset() == rows, "the view holds all rows", seconds=LONG)
        lags._waiting.clear()
        ended = threading.Event()
        threading.Timer(seconds, ended.set).start()
        alone = lags.work(ended)
        taker = shop.run(NEW, "--take-over", "--rows", "1000000")
        asked = threading.Event()

        def is_asked() -> bool:
            return any("handed over" in one.get("report", "") for one in [*taker.said, *live.said])

        def watch() -> None:
            wait_until(is_asked, "the jobs are asked for", seconds=PATIENCE_S)
            asked.set()

        threading.Thread(target=watch).start()
        beside = lags.work(asked)
        taker.wait_until_it_runs()
    finally:
        for one in shop.runs:
            one.close()
    return alone, beside


def verdict(alone: list[float], beside: list[float]) -> int:
    figures = {name: np.percentile(found, [50, 99, 100]) for name, found in (("alone", alone), ("beside", beside))}
    for name, found in (("alone", alone), ("beside", beside)):
        median, most, worst = 1000 * figures[name]
        print(f"{name:7} {len(found):6,} looks   median {median:7.0f} ms   99% {most:7.0f} ms   worst {worst:7.0f} ms")
    times = figures["beside"][:2] / figures["alone"][:2]
    print(f"median {times[0]:.2f} times, 99% {times[1]:.2f} times")
    return int((times > TIMES_MAX).any())


if __name__ == "__main__":
    sys.exit(main())
