"""The task that stages the rows of an output, and what comes back from it to the driver.

_part      what the task has staged (JSON)
_data      the rows of a task that has few, in Arrow's IPC form with their schema
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.declare.topology.nodes import Node
from headwater.flow.exchange.blocks import DATA, INLINE, IS_REPORT, OPERATOR, Task, decoded, result_blocks
from headwater.flow.exchange.partition_number import partition_number
from headwater.flow.operate.shard_task import PART, result_row
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.sinks.staged import Part, Stager

ITEM = "_item"
STAGED = pa.schema([(PART, pa.string()), (DATA, pa.binary())])
ANSWERS = pa.schema([(ITEM, pa.int64()), (PART, pa.string())])
FEW_ROWS, FEW_BYTES = 5_000, 1024**2
"""A task that has no more hands its rows to the driver: a connection or a file of its own would cost more."""


@dataclass(frozen=True)
class StageTask:
    """Stages the rows of a task."""

    stager: Stager
    few_rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, few = staged_or_few(self.stager, (one for one in batches if one.num_rows), self.few_rows)
        if part is not None:
            yield _row(part=part.to_json())
        if few:
            yield _row(data=_encoded(few))


@dataclass(frozen=True)
class StagedResults:
    """A task of operators, some of whose results are staged in place of going to the driver; by operator number."""

    task: Task
    stagers: Mapping[int, Stager]
    schemas: Mapping[int, pa.Schema]
    few_rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, results in groupby(self.task(batches), lambda one: one.column(OPERATOR)[0].as_py()):
            if number in self.stagers:
                yield from self._staged(number, results)
            else:
                yield from results

    def _staged(self, number: int, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        others: list[pa.RecordBatch] = []

        def rows() -> Iterator[pa.RecordBatch]:
            for result in results:
                if result.column(IS_REPORT)[0].is_valid:
                    others.append(result)
                else:
                    yield decoded(result.column(DATA)[0], self.schemas[number])

        part, few = staged_or_few(self.stagers[number], rows(), self.few_rows)
        if part is not None:
            yield result_row(number, None, None, part.to_json())
        for batch in few:
            for block in result_blocks(batch, INLINE):
                yield result_row(number, None, block)
        yield from others


def staged_results(
    stagers: Mapping[Node, Stager], task: Task, numbers: Mapping[Node, int], schemas: Mapping[Node, pa.Schema]
) -> Task:
    """The task of a level, staging the results of some of its operators."""
    own = {numbers[node]: stager for node, stager in stagers.items() if node in numbers}
    if not own:
        return task
    return StagedResults(task, own, {numbers[node]: schema for node, schema in schemas.items()}, FEW_ROWS)


def staged_or_few(
    stager: Stager, rows: Iterator[pa.RecordBatch], few_rows: int
) -> tuple[Part | None, list[pa.RecordBatch]]:
    """The part that holds a task's rows; or the rows, if they are few."""
    first: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows:
        first.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count > few_rows or size > FEW_BYTES:
            return stager.stage(partition_number(), chain(first, rows)), []
    return None, first


def stage(frame: DataFrame, stager: Stager) -> pa.Table:
    """Run what an output's frame says, staging its rows."""
    return frame.mapInArrow(StageTask(stager, FEW_ROWS), spark_schema(STAGED)).toArrow()


def parts_in(table: pa.Table) -> tuple[Part, ...]:
    return tuple(map(Part.from_json, table[PART].drop_null().to_pylist()))


def few_in(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows that tasks did not stage."""
    values = [value for chunk in table[DATA].chunks for value in chunk if value.is_valid]
    found = [pa.ipc.open_stream(value.as_buffer()).read_all() for value in values]
    return pa.concat_tables(found) if found else schema.empty_table()


@dataclass(frozen=True)
class _AnswerTask:
    """Calls a function with the items whose numbers a task is given."""

    function: Callable[[str], str]
    items: Sequence[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = self.function(self.items[number])
                yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([answer])], schema=ANSWERS)


def run_tasks(session: SparkSession, function: Callable[[str], str], items: Sequence[str]) -> list[str]:
    """The function's answer for each item, one task an item."""
    numbers = session.range(0, len(items), 1, len(items))
    answers = numbers.mapInArrow(_AnswerTask(function, items), spark_schema(ANSWERS)).toArrow()
    return [str(answer) for answer in answers.sort_by(ITEM)[PART].to_pylist()]


def _encoded(batches: Sequence[pa.RecordBatch]) -> bytes:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(target.getvalue().to_pybytes())


def _row(part: str | None = None, data: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([part], pa.string()), pa.array([data], pa.binary())], schema=STAGED)
