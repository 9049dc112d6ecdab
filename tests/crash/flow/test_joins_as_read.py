"""Joins that read the log themselves, with and without a shuffle, killed at their steps: every pair is emitted once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.flow.run.app_tester import AppTester
from headwater.log.partitioner import partition_of
from headwater.node import Node
from headwater.testing import running_node
from tests.crash.flow.driver import SHORT_LIVED
from tests.crash.flow.joining import CLICKED, CLICKS, FILE, ITEMS, OFFERED, SEARCHES, SHOPS, declare
from tests.crash.flow.moments import FINISH, Moment
from tests.flow.engines import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOMENTS = {
    "state committed": (Moment("headwater.flow.operate.job_operators:Operators.commit", after=True), 1),
    "all sinks written": (Moment(FINISH), 1),
}
PARTITIONS, SESSIONS, ITEMS_MANY = 4, 24, 30
ROOT = Path(__file__).parents[3]
Rows = list[dict[str, Any]]


class Mall:
    def __init__(self, engine: Engine, node: Node) -> None:
        self.tester = AppTester(declare(), node, engine)
        self._data, self._round = node.data, 0
        self._pairs: Counter[tuple[int, str | None]] = Counter()
        self._items: dict[str, dict[str, Any]] = {}
        self._shops: dict[str, str] = {}
        for topic in (SEARCHES, CLICKS, ITEMS, SHOPS):
            node.log.create_topic(topic, partitions=PARTITIONS)

    def feed(self, *, astray: bool = False) -> None:
        """A round of searches and clicks, where producers put them or elsewhere; items that go to another shop."""
        number, self._round = self._round, self._round + 1
        at = [f"2026-01-01T{number:02}:0{minute}:00Z" for minute in range(2)]
        searches: Rows = [{"id": 100 * number + one, "session": f"s{one}", "at": at[0]} for one in range(SESSIONS)]
        clicks: Rows = [{"session": f"s{one}", "url": f"/{number}/{one}", "at": at[1]} for one in range(0, SESSIONS, 3)]
        urls = {click["session"]: click["url"] for click in clicks}
        self._pairs.update((search["id"], urls.get(search["session"])) for search in searches)
        self._deal(SEARCHES, searches, "session", astray=astray)
        self._deal(CLICKS, clicks, "session")
        items: Rows = [
            {"item": f"i{one}", "shop": f"h{(one + number) % 5}", "price": number}
            for one in range(ITEMS_MANY) if one % 3 != number % 3 or not number
        ]  # fmt: skip
        shops: Rows = [{"shop": f"h{one}", "town": f"t{one}{number}"} for one in range(number % 2, 5, 2)]
        self._items |= {row["item"]: row for row in items}
        self._shops |= {row["shop"]: row["town"] for row in shops}
        self._deal(ITEMS, items, "item")
        self._deal(SHOPS, shops, "shop")

    def _deal(self, topic: str, rows: Rows, key: str, *, astray: bool = False) -> None:
        for partition in range(PARTITIONS):
            own = [
                row for row in rows if (partition_of(row[key].encode(), PARTITIONS) + astray) % PARTITIONS == partition
            ]
            if own:
                self.tester.feed(topic, own, partition=partition, key=key)

    def kill(self, moment: str) -> None:
        """The job, at a step of its first batch."""
        (place, after, _), nth = MOMENTS[moment]
        settings = {**SHORT_LIVED, "spark.local.dir": str(self._data.parent / "spark")}
        said = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = ["run", str(FILE), "--once", "--data", str(self._data), "--master", "local[2,4]", *said]
        with (self._data.parent / "headwater.log").open("ab") as log:  # a pipe would be held by the JVM
            armed = [place, "after" if after else "before", str(nth)]
            killed = subprocess.run(
                [sys.executable, "-m", "tests.crash.flow.joining", *armed, *command],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, stdout=log, stderr=log,
            )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, Path(log.name).read_text()

    def end(self) -> None:
        """Rows behind which nothing of the others is waited for."""
        last = [{"id": -1, "session": f"s{one}", "url": "/end", "at": "2026-01-02T00:00:00Z"} for one in range(40)]
        self._deal(SEARCHES, last, "session")
        self._deal(CLICKS, last, "session")
        self.tester.run()

    def wrong(self) -> list[str]:
        emitted = Counter((row["id"], row["click_url"]) for row in self.tester.values(CLICKED) if row["id"] >= 0)
        found = []
        if emitted != self._pairs:
            found.append(f"{emitted - self._pairs} are too many, {self._pairs - emitted} are missing")
        wanted = {
            item: (row["shop"], row["price"], self._shops[row["shop"]])
            for item, row in self._items.items() if row["shop"] in self._shops
        }  # fmt: skip
        held = {row["item"]: (row["shop"], row["price"], row["town"]) for row in self.tester.rows(OFFERED)}
        found += [] if held == wanted else [f"the view holds {held} and should hold {wanted}"]
        found += ["the proof fails"] if self.tester.prove(OFFERED).different else []
        unbalanced = [name for name in (CLICKED, OFFERED) if not self.tester.account(name).balanced]
        accounts = Counter((row["output"], row["batch"]) for row in self.tester.values("mall.accounts"))
        return [*found, *unbalanced, *(f"two accounts of {which}" for which, count in accounts.items() if count > 1)]


@pytest.fixture
def mall(engine: Engine, tmp_path: Path) -> Iterator[Mall]:
    with running_node(tmp_path / "data") as node:
        mall = Mall(engine, node)
        mall.feed()
        mall.tester.run()
        yield mall


def test_a_job_that_is_killed_with_rows_at_home_and_with_rows_astray_tells_every_pair_once(mall: Mall) -> None:
    mall.feed()
    mall.kill("state committed")
    mall.feed(astray=True)
    mall.kill("all sinks written")
    mall.end()
    assert mall.wrong() == []
