"""The task of a shard: it receives the blocks of its shards, for every operator of an exchange, and runs each on them.

Results leave as blocks too, tagged with the number of their operator; the driver reads reports, and the results that go
to a sink as they are. Frames for Spark are decoded from them where a step needs one.

    _operator, _report, _data, _part     a report (JSON), a block of results, or what was staged in place of some (JSON)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.exchange.blocks import (
    DATA,
    IS_REPORT,
    OPERATOR,
    SHARD,
    Exchange,
    Inputs,
    Task,
    decoded,
    received,
    result_blocks,
)
from headwater.flow.operate.reports import ShardReport
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.state.shard import conformed

PART = "_part"
RESULTS = pa.schema([(OPERATOR, pa.int32()), (IS_REPORT, pa.string()), (DATA, pa.binary()), (PART, pa.string())])


class Emitted(NamedTuple):
    """What an operator emits of a shard, and what it reports to the driver."""

    rows: pa.RecordBatch | None
    report: ShardReport | None


class ShardWork(Protocol):
    """What one operator does with the rows of one shard. Sent to tasks, so it holds nothing but data."""

    @property
    def inputs(self) -> Sequence[pa.Schema]:
        """What the blocks of each input hold."""

    @property
    def results(self) -> pa.Schema:
        """The columns of what it emits."""

    @property
    def visits_all(self) -> bool:
        """Whether every shard is worked on, also one without rows: because time alone emits or drops something."""

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]: ...


@dataclass(frozen=True)
class ShardTask:
    """`wanted` are the columns that are wanted of each operator's results."""

    works: tuple[ShardWork, ...]
    wanted: tuple[pa.Schema, ...]
    exchange: Exchange

    @property
    def visits_all(self) -> bool:
        return any(work.visits_all for work in self.works)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        visited: set[int] = set()
        found = received(batches, [work.inputs for work in self.works], visited)
        for number, (work, given) in enumerate(zip(self.works, found, strict=True)):
            for report in given.reports:
                yield result_row(number, report, None)
            nothing: Inputs = [None] * len(work.inputs)
            for shard in sorted(visited if work.visits_all else given.inputs):
                for emitted in work.run(shard, given.inputs.pop(shard, nothing)):
                    yield from self._emitted(number, emitted)

    def _emitted(self, number: int, emitted: Emitted) -> Iterator[pa.RecordBatch]:
        if emitted.rows is not None and emitted.rows.num_rows:
            for block in result_blocks(conformed(emitted.rows, self.wanted[number]), self.exchange):
                yield result_row(number, None, block)
        if emitted.report is not None:
            yield result_row(number, emitted.report.to_json(), None)


def result_row(operator: int, report: str | None, block: bytes | None, part: str | None = None) -> pa.RecordBatch:
    values = zip((operator, report, block, part), RESULTS.types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array([value], type) for value, type in values], schema=RESULTS)


@dataclass(frozen=True)
class DecodeTask:
    """Result blocks of one operator as rows for Spark."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column(DATA):
                yield decoded(value, self.schema)


def operated(blocks: DataFrame, task: Task, shards: int) -> DataFrame:
    """The results of an exchange."""
    return blocks.repartitionById(shards, f.col(SHARD)).mapInArrow(task, spark_schema(RESULTS))


def result_schema(schema: pa.Schema) -> pa.Schema:
    """A schema in the types that Spark gives back: what blocks are written and read with."""
    return arrow_schema(spark_schema(pa.schema([pa.field(one.name, one.type) for one in schema])))


def result_frame(results: DataFrame, operator: int, schema: pa.Schema) -> DataFrame:
    """What one operator emitted, as rows for Spark."""
    own = results.where((f.col(OPERATOR) == operator) & f.col(DATA).isNotNull()).select(DATA)
    return own.mapInArrow(DecodeTask(schema), spark_schema(schema))


def result_rows(results: pa.Table, operator: int, schema: pa.Schema) -> pa.Table:
    """What one operator emitted, at the driver."""
    own = results.filter(pc.equal(results[OPERATOR], operator))
    blocks = [decoded(value, schema) for chunk in own[DATA].chunks for value in chunk if value.is_valid]
    return pa.Table.from_batches(blocks, schema)


def reports_in(results: pa.Table) -> list[ShardReport]:
    return [ShardReport.from_json(text) for text in results[IS_REPORT].drop_null().to_pylist()]
