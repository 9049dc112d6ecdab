"""Rows that the tasks read from the log themselves: decode, evaluate the user's steps on Arrow, prepare for shards.

One task reads a range once, however many operators want its rows. Counts of records and those that do not decode are
left in the stage, as for every reader (source/ranges.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import BLOCKS, Address, Exchange, report_block, visit
from headwater.flow.expressions.steps import Steps
from headwater.flow.operators.joins.events import OFFSET, PARTITION, SOURCE, TIME
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.deletion_keys import with_keys
from headwater.flow.rows.prepared_blocks import Preparation, Prepare
from headwater.flow.rows.row_batch import AT, AT_TYPE, DELETED, FIELDS
from headwater.flow.source.options import SourceOptions
from headwater.flow.source.ranges import Columns, read_ranges
from headwater.flow.source.splitting import Range

ROW_NUMBER = "row"


class TooManyBytes(Exception):
    """The rows of a batch are larger than the reading process can hold."""


@dataclass(frozen=True)
class SourceRows:
    """How the columns that are read of a source become rows."""

    number: int
    """Of the source in its job."""
    topic: str
    schema: pa.Schema
    """The columns in the types that Spark has them in."""
    time: str | None = None
    """The column of the event time; the record's timestamp stands in where it is null, or there is none."""
    key: tuple[str, ...] = ()
    """Of a changelog: a deletion has it in the key of its record."""
    version_id: str = ""
    """Of a changelog: the column that names the record."""

    def typed(self, columns: Columns) -> Columns:
        wanted = {field.name: field.type for field in self.schema}
        made = {name: column.cast(wanted.get(name, column.type)) for name, column in columns.items()}
        if self.key:
            made = with_keys(made, self.key) | {DELETED: columns["_tombstone"]}
        if self.version_id:
            partitions, offsets = (columns[name].cast(pa.string()) for name in (PARTITION, OFFSET))
            places = pc.binary_join_element_wise(
                pc.binary_join_element_wise(f"{self.topic}/", partitions, ""), offsets, "@"
            )
            made[self.version_id] = places
        return made

    def times(self, columns: Columns) -> pa.Array:
        record = columns["_timestamp"]
        return record if self.time is None else pc.coalesce(columns[self.time], record)


@dataclass(frozen=True)
class LogInput:
    """One input of an operator that is made of the rows of one source by translated steps."""

    operator: str
    steps: Steps
    prepare: Prepare
    to: Address

    def rows(self, source: SourceRows, columns: Columns, times: pa.Array, into: Preparation) -> pa.RecordBatch:
        """Rows after the user's steps; what leaves there is added to the counts."""
        count = len(times)
        # Steps carry the number of each row, by which its position is found after them.
        carried: pa.Array = pa.array(np.arange(count))
        if self.steps.reads_fields(FIELDS):
            carried = _with_number(carried, source, columns, times)
        found = self.steps.apply({**columns, AT: carried}, count)
        if found.failed:
            raise FlowError(f"a step fails for a row of topic {source.topic}: {found.failed[0].reasons[0]}")
        into.filtered += found.filtered
        into.expanded += found.expanded
        left = found.columns.pop(AT)
        left = left.field(ROW_NUMBER) if pa.types.is_struct(left.type) else left
        position = {TIME: times.cast(pa.int64()), PARTITION: columns[PARTITION], OFFSET: columns[OFFSET]}
        if self.steps.steps and (found.rows < count or found.expanded):
            position = {name: column.take(left) for name, column in position.items()}
        position[SOURCE] = pa.array(np.full(found.rows, source.number, np.int32))
        made = {**found.columns, **position}
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def _with_number(numbers: pa.Array, source: SourceRows, columns: Columns, times: pa.Array) -> pa.Array:
    """Positions of rows as steps that look at them have them, each with the number of its row."""
    sources = pa.array(np.full(len(numbers), source.number, np.int32))
    own = [times.cast(AT_TYPE.field(0).type), sources, columns[PARTITION], columns[OFFSET]]
    cast = [one.cast(field.type) for one, field in zip(own, AT_TYPE, strict=True)]
    return pa.StructArray.from_arrays([*cast, numbers], names=[*FIELDS, ROW_NUMBER])


@dataclass(frozen=True)
class ReadTask:
    """Reads ranges of the log for all operators that want their rows; the numbers of `tasks` come to it as rows."""

    options: SourceOptions
    tasks: Sequence[Sequence[Range]]
    sources: Mapping[int, SourceRows]
    inputs: Mapping[int, tuple[LogInput, ...]]
    """By the number of the source."""
    exchange: Exchange
    visits_all: bool = False
    """Whether the first task makes those of all shards run, also where there are no rows for them."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.blocks(number)
                if self.visits_all and number == 0:
                    yield from map(visit, range(self.exchange.shards))

    def blocks(self, number: int, bytes_max: int | None = None) -> Iterator[pa.RecordBatch]:
        """What a task reads, for the shards of its operators; TooManyBytes once it has read more than a bound."""
        sequence, size = number << 32, 0
        preparations = {
            one.to: Preparation(one.operator, one.prepare, one.to, self.exchange)
            for several in self.inputs.values()
            for one in several
        }
        for stream, read in read_ranges(self.options, self.tasks[number]):
            size += sum(column.nbytes for column in read.values())
            if bytes_max is not None and size > bytes_max:
                raise TooManyBytes
            wanted = self.inputs.get(stream)
            if not wanted or not len(read[OFFSET]):
                continue
            source = self.sources[stream]
            columns = source.typed(read)
            times = source.times(columns)
            for one in wanted:
                preparation = preparations[one.to]
                for block in preparation.add(one.rows(source, columns, times, preparation), sequence):
                    yield block
                    sequence += 1
        for to, preparation in preparations.items():
            yield from preparation.flush(sequence)
            sequence += 1
            if report := preparation.report():
                yield report_block(report, number % self.exchange.shards, sequence, to.operator)


def log_blocks(session: SparkSession, task: ReadTask) -> DataFrame:
    count = len(task.tasks)
    return session.range(0, count, 1, count).mapInArrow(task, spark_schema(BLOCKS))
