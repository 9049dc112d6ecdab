"""One run: PostgreSQL is filled, its tables are captured, and after each refresh every view is compared."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from examples.tpch.generator import Generator, Scale
from examples.tpch.main import TABLES, app_of
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.capture.kit import Captured
from tests.flow.job.steps import SteppedJob, stepped_job
from tests.flow.tpch.database import change_others, delete, difference, fill, insert

PATIENCE_SECONDS = 3600
"""A large table is copied for minutes."""
_numbers = itertools.count()


@dataclass
class Found:
    compared: int = 0
    """Answers of PostgreSQL that were compared."""
    different: list[tuple[int, str, str]] = field(default_factory=list)
    """Position, query, and what is wrong."""
    rows: dict[str, int] = field(default_factory=dict)
    """Of each query, in all answers."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of this process's CPU, by step."""


def no_spark() -> Any:
    raise AssertionError("a query needs Spark")


class Run:
    """Tables that are captured into a node's log, and the views over them."""

    def __init__(self, tester: AppTester, database: "psycopg.Connection[Any]", captured: Captured) -> None:
        self.tester, self.database, self.captured = tester, database, captured
        self._batch = 0
        self._ends = {name: {0: 0} for name in TABLES}

    def step(self, job: SteppedJob) -> None:
        """All that is committed in the database comes to the views."""
        self.captured.caught_up(self.database)
        starts, self._ends = self._ends, {name: {0: self._end(name)} for name in TABLES}
        job.run(PlannedBatch(self._batch, starts, self._ends, self._batch))
        self._batch += 1

    def _end(self, topic: str) -> int:
        partition = self.tester.node.log.partition(topic, 0)
        partition.make_durable(partition.end_offset)
        return partition.high_watermark


@contextmanager
def running(queries: Sequence[str], generator: Generator, url: str, folder: Path) -> Iterator[tuple[Run, SteppedJob]]:
    """With the rows that there are at first in the views."""
    with (
        psycopg.connect(url, autocommit=True) as database,
        running_node(folder / "node") as node,
    ):
        fill(database, generator)
        app = app_of(queries, f"tpch{next(_numbers)}", url)
        tester = AppTester(app, node, no_spark)
        for name in TABLES:
            node.log.create_topic(name, partitions=1)
        tables = [f"public.{name}" for name in TABLES]
        captured = Captured(url, folder / "capture", tables, log=node.log, patience_seconds=PATIENCE_SECONDS).start()
        try:
            with stepped_job(tester) as job:
                yield Run(tester, database, captured), job
        finally:
            captured.stop()


def compare(
    queries: Sequence[str], factor: float, positions: int, url: str, folder: Path, *, seed: int = 1,
    others: bool = True, say: Callable[[str], None] = lambda text: None,
) -> Found:  # fmt: skip
    """A position is after one pair of refresh functions; a batch ends between the two as well."""
    generator, found = Generator(Scale(factor), seed), Found()
    with running(queries, generator, url, folder) as (run, job):
        for position in range(positions):
            begun = time.process_time()
            if position:
                orders, lines, deleted = generator.refresh()
                insert(run.database, orders, lines)
                if position % 2:
                    run.step(job)
                delete(run.database, deleted)
                if others:
                    change_others(run.database, position)
            run.step(job)
            found.seconds[f"position {position}"] = time.process_time() - begun
            for query in queries:
                many, wrong = difference(run.database, query, run.tester.rows(query))
                found.compared += 1
                found.rows[query] = found.rows.get(query, 0) + many
                if wrong:
                    found.different.append((position, query, wrong))
                    say(f"position {position}, {query}: {wrong}")
            say(f"position {position}: {found.seconds[f'position {position}']:.1f} CPU s, {found.compared} compared")
    return found
