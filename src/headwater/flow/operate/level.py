"""One exchange of a batch: operators whose inputs are known, their blocks in one shuffle, their results in one frame.

A batch has as many levels as operators follow one another. The tasks of a level run all of its operators; what the next
level, or a step of Spark's, needs of the results is kept in memory as blocks. Of a small batch the driver runs the same
tasks itself (operate/level_blocks.py), and the results are a table of its own.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Node
from headwater.flow.exchange.blocks import IS_REPORT, OPERATOR, Exchange, Task, visits
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import (
    PART,
    ShardTask,
    ShardWork,
    operated,
    reports_in,
    result_frame,
    result_rows,
    result_schema,
)
from headwater.flow.rows.arrow_types import spark_schema

Emit = Callable[[Task, Mapping[Node, int], Mapping[Node, pa.Schema]], Task]
"""A task that does something else with the results of another; called with the operators' numbers and schemas."""
Emitting = Callable[[Task], Task]
"""The same, of a level whose operators are known."""
Results: TypeAlias = "DataFrame | pa.Table"
"""What tasks yield: in Spark, or of a small batch in the driver."""
RunTask = Callable[[ShardTask, Emitting], Results]
"""Gives the tasks of a level their rows; what they yield is what `Emitting` makes of it."""


@dataclass
class Level:
    """`numbers` are those of the operators in the exchange; `schemas` what is wanted of their results."""

    session: SparkSession
    results: Results
    numbers: Mapping[Node, int]
    schemas: Mapping[Node, pa.Schema]
    co_partitioned: frozenset[str] = frozenset()
    """The names of its operators if their inputs are not shuffled."""
    collected: pa.Table | None = None

    @classmethod
    def of(
        cls, session: SparkSession, works: Mapping[Node, ShardWork], run: RunTask, *, wanted: Mapping[Node, pa.Schema],
        exchange: Exchange, kept: bool, emit: Emit | None = None,
    ) -> "Level":  # fmt: skip
        """`run` gives the tasks their rows; `kept`: more than the driver reads the results."""
        schemas = {node: result_schema(wanted[node]) for node in works}
        task = ShardTask(tuple(works.values()), tuple(schemas.values()), exchange)
        numbers = {node: number for number, node in enumerate(works)}
        results = run(task, lambda one: one if emit is None else emit(one, numbers, schemas))
        is_frame = not isinstance(results, pa.Table)
        return cls(session, results.persist() if kept and is_frame else results, numbers, schemas)

    @property
    def table(self) -> pa.Table | None:
        """The results, if the driver has run the tasks."""
        return self.results if isinstance(self.results, pa.Table) else None

    @property
    def blocks(self) -> DataFrame:
        """All results, for tasks of Spark's."""
        return self._as_frame(self.results) if isinstance(self.results, pa.Table) else self.results

    def _as_frame(self, rows: pa.Table) -> DataFrame:
        # Spark cannot make a frame of a table without chunks.
        return self.session.createDataFrame(rows if rows.num_rows else [], spark_schema(rows.schema))

    def frame(self, node: Node) -> DataFrame:
        """What an operator emitted, for Spark."""
        number, schema = self.numbers[node], self.schemas[node]
        if not isinstance(self.results, pa.Table):
            return result_frame(self.results, number, schema)
        return self._as_frame(result_rows(self.results, number, schema))

    def collect(self, nodes: Collection[Node]) -> None:
        """Run the exchange; bring reports, and the results of some operators, to the driver."""
        if isinstance(self.results, pa.Table):
            self.collected = self.results
            return
        numbers = [self.numbers[node] for node in nodes]
        wanted = f.col(IS_REPORT).isNotNull()
        if numbers:
            wanted = wanted | f.col(OPERATOR).isin(numbers)
        own = self.results if len(numbers) == len(self.numbers) else self.results.where(wanted)
        self.collected = own.toArrow()

    def rows(self, node: Node) -> pa.Table:
        assert self.collected is not None
        return result_rows(self.collected, self.numbers[node], self.schemas[node])

    def parts(self, node: Node) -> list[str]:
        """What tasks staged of an operator's results."""
        assert self.collected is not None
        own = self.collected.filter(pc.equal(self.collected[OPERATOR], self.numbers[node]))
        return [str(one) for one in own[PART].drop_null().to_pylist()]

    @property
    def reports(self) -> list[ShardReport]:
        assert self.collected is not None
        return reports_in(self.collected)

    def release(self) -> None:
        if not isinstance(self.results, pa.Table):
            self.results.unpersist()


def shuffled(blocks: Collection[DataFrame], task: ShardTask, emitting: Emitting, *, visits_all: bool) -> DataFrame:
    """The results of tasks that are given blocks through an exchange; `visits_all`: those of every shard have to run,
    and the blocks do not see to it."""
    frames = list(blocks)
    if visits_all:
        frames.append(visits(frames[0].sparkSession, task.exchange.shards))
    return operated(reduce(lambda one, other: one.union(other), frames), emitting(task), task.exchange.shards)
