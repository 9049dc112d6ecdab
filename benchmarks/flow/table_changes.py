"""What a batch of so many changed rows costs, the more rows the table has: grouped, joined, ranked, least and greatest.

A whole batch of one job in this process, from the log to the view. Beside its milliseconds stand numbers that no other
load of the machine changes: seconds of CPU, rows of state that were read and written, and bytes written. All sizes take
turns, so that a slow moment of the machine meets them alike.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

import headwater as hw
from benchmarks.flow.apart import Bench
from benchmarks.process_clock import now_seconds
from benchmarks.results import Case
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.run.app_tester import AppTester
from headwater.flow.state.shard import ShardState
from headwater.record import Record
from headwater.testing import running_node
from tests.flow.job.steps import SteppedJob, stepped_job

SECTION = "table-changes"
WARM_UP_BATCHES = 3
OF_GROUP = 100
"""Rows of a group; a group of the large ones has one in `LARGE_GROUPS` of all rows."""
LARGE_GROUPS = 8
FED_AT_ONCE = 500_000
TABLES = (
    "CREATE TABLE items (id BIGINT PRIMARY KEY, shop BIGINT, area BIGINT, price BIGINT) FROM TOPIC items; "
    "CREATE TABLE shops (shop BIGINT PRIMARY KEY, town BIGINT) FROM TOPIC shops;"
)
QUERIES = {
    "grouped": "SELECT shop, count(*) AS items, sum(price) AS total FROM items GROUP BY shop",
    "joined": "SELECT town, count(*) AS items, sum(price) AS total FROM items JOIN shops USING (shop) GROUP BY town",
    "first three of a group": "SELECT id, shop, price FROM (SELECT id, shop, price, row_number() OVER "
    "(PARTITION BY shop ORDER BY price DESC, id) AS place FROM items) WHERE place <= 3",
    "first ten of all": "SELECT id, price FROM items ORDER BY price DESC, id LIMIT 10",
    "min, max": "SELECT shop, min(price) AS least, max(price) AS most FROM items GROUP BY shop",
    "min, max of large groups": "SELECT area, min(price) AS least, max(price) AS most FROM items GROUP BY area",
}
SEEN = ("lookup", "matches", "leading", "fetch", "write")
"""How operators look at their state."""


def measure(bench: Bench) -> None:
    plan = bench.plan
    for name, query in QUERIES.items():
        with ExitStack() as ending:
            kept = []
            for rows in plan.table_rows:
                bench.progress.say(f"table changes: {name}, filling {rows:,} rows")
                kept.append(ending.enter_context(table_of(query, rows, bench)))
            for number in range(WARM_UP_BATCHES + plan.table_batches):
                bench.progress.say(f"table changes: {name}, batch {number}")
                for table in kept:
                    found = table.change(plan.table_changes)
                    if number >= WARM_UP_BATCHES:
                        bench.results.add(Case(SECTION, (name, f"{table.rows:,}")), "headwater", **found)


@contextmanager
def table_of(query: str, rows: int, bench: Bench) -> Iterator["KeptTable"]:
    app = hw.App("changes", one_job=True)
    app.sql(f"{TABLES} CREATE MATERIALIZED VIEW kept AS {query};")
    with running_node(bench.folder / f"changes-{len(list(bench.folder.iterdir()))}") as node:
        tester = AppTester(app, node, no_spark)
        for topic in ("items", "shops"):
            node.log.create_topic(topic)
        with stepped_job(tester) as job:
            yield KeptTable(tester, job, rows)


def no_spark() -> Any:
    raise AssertionError("a query needs Spark")


class KeptTable:
    def __init__(self, tester: AppTester, job: SteppedJob, rows: int) -> None:
        self.rows, self._log, self._job = rows, tester.node.log, job
        self._dice, self._batch, self._next = np.random.default_rng(7), 0, rows
        self._topics: tuple[str, ...] = tuple(topic for topic in ("items", "shops") if topic in job.job.topics)
        self._ends = dict.fromkeys(self._topics, 0)
        shops = max(rows // OF_GROUP, 1)
        if "shops" in self._topics:
            self._feed("shops", [_record("shop", shop, f'"shop":{shop},"town":{shop % 1000}') for shop in range(shops)])
        for begin in range(0, rows, FED_AT_ONCE):
            ids = range(begin, min(begin + FED_AT_ONCE, rows))
            self._feed(
                "items",
                [self._item(number, int(price)) for number, price in zip(ids, self._prices(len(ids)), strict=True)],
            )
            self._run()

    def change(self, count: int) -> dict[str, float]:
        """Half of them updates, a quarter new rows, a quarter deletions, which greatest and least prices are among."""
        chosen = self._dice.integers(0, self.rows, 3 * count // 4)
        updated, deleted = chosen[: count // 2], chosen[count // 2 :]
        new = range(self._next, self._next + count // 4)
        self._next += len(new)
        records = [
            self._item(int(number), int(price))
            for number, price in zip(updated, self._prices(len(updated)), strict=True)
        ]
        records += [self._item(number, int(price)) for number, price in zip(new, self._prices(len(new)), strict=True)]
        records += [Record(None, key=b'{"id":%d}' % number, timestamp_ms=1) for number in deleted.tolist()]
        self._feed("items", records)
        with counted() as counts:
            begun, cpu = now_seconds(), process_time()
            self._run()
            seconds, cpu = now_seconds() - begun, process_time() - cpu
        return {"milliseconds": 1000 * seconds, "cpu": 1000 * cpu, **counts}

    def _prices(self, count: int) -> Any:
        return self._dice.integers(0, 10**9, count)

    def _item(self, number: int, price: int) -> Record:
        shops = max(self.rows // OF_GROUP, 1)
        said = f'"id":{number},"shop":{number % shops},"area":{number % LARGE_GROUPS},"price":{price}'
        return _record("id", number, said)

    def _feed(self, topic: str, records: list[Record]) -> None:
        self._log.append(topic, records)

    def _run(self) -> None:
        starts = {topic: {0: end} for topic, end in self._ends.items()}
        self._ends = {topic: self._log.partition(topic, 0).high_watermark for topic in self._topics}
        ends = {topic: {0: end} for topic, end in self._ends.items()}
        self._job.run(PlannedBatch(self._batch, starts, ends, self._batch))
        self._batch += 1


def _record(key: str, value: int, said: str) -> Record:
    return Record(f"{{{said}}}".encode(), key=f'{{"{key}":{value}}}'.encode(), timestamp_ms=1)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Rows of state that are read and written, and bytes written."""
    found: Counter[str] = Counter({"read": 0, "written": 0, "bytes": 0})

    def watched(name: str) -> Any:
        own = getattr(ShardState, name)

        @wraps(own)
        def seen(*given: Any, **named: Any) -> Any:
            result = own(*given, **named)
            if name == "lookup":
                found["read"] += int(result.mask.sum())
            elif name != "write":
                found["read"] += result.rows.num_rows
            elif result is not None:
                found["written"] += result.rows
                found["bytes"] += result.bytes
            return result

        return seen

    with ExitStack() as patches:
        for name in SEEN:
            patches.enter_context(patch.object(ShardState, name, watched(name)))
        yield found
