"""Rows that operators of an earlier level emitted: decode their blocks, evaluate the user's steps, prepare for shards.

They never were Spark's rows. Results that are rows of a stream are facts again for the operator that is given them; of
a table both sides of every change are given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import (
    BLOCKS,
    DATA,
    OPERATOR,
    Address,
    Exchange,
    decoded,
    first_sequence,
    report_block,
)
from headwater.flow.expressions.steps import Steps
from headwater.flow.operators.changes import BEFORE, OPERATION
from headwater.flow.operators.joins.emission import AFTER_SIDE, BEFORE_SIDE, SIDE, with_side
from headwater.flow.operators.joins.events import MISSING
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.prepared_blocks import Preparation, Prepare
from headwater.flow.rows.row_batch import AT, POSITION


class ResultInput(NamedTuple):
    """One input of an operator that is made of the results of another by translated steps."""

    operator: str
    schema: pa.Schema
    """Of the blocks of results."""
    key: tuple[str, ...]
    """Of a table whose changes are emitted."""
    steps: Steps
    prepare: Prepare
    to: Address

    def batches(self, results: pa.RecordBatch, into: Preparation) -> Iterator[pa.RecordBatch]:
        """Rows after the user's steps; what becomes of facts is added to the counts."""
        names = results.schema.names
        if MISSING in names:
            missing = results.column(MISSING)
            results = results.filter(pc.invert(missing)) if missing.true_count else results
            into.expanded += results.num_rows
            yield self._rows(results, into)
        elif SIDE in names:
            yield self._rows(results, None)
        else:
            for side in both_sides(results, self.key):
                yield self._rows(side, None)

    def _rows(self, rows: pa.RecordBatch, counts: Preparation | None) -> pa.RecordBatch:
        columns = {name: rows.column(name) for name in rows.schema.names}
        position = {name: columns.pop(name) for name in POSITION if name in columns}
        found = self.steps.apply({**columns, AT: pa.array(np.arange(rows.num_rows))}, rows.num_rows)
        if found.failed:
            raise FlowError(f"a step before {self.operator} fails for a row: {found.failed[0].reasons[0]}")
        if counts is not None:
            counts.filtered += found.filtered
            counts.expanded += found.expanded
        made = found.columns
        if position:
            left = made.pop(AT)
            made = made | {name: column.take(left) for name, column in position.items()}
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def both_sides(changes: pa.RecordBatch, key: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows that are no longer, and rows that are, with `_side`."""
    operation = changes.column(OPERATION)
    keys = {name: changes.column(name) for name in key}
    names = [name for name in changes.schema.names if name not in (*key, OPERATION, BEFORE)]
    was = dict(zip(names, changes.column(BEFORE).flatten(), strict=True))
    is_ = {name: changes.column(name) for name in names}
    for values, other, side in ((was, "c", BEFORE_SIDE), (is_, "d", AFTER_SIDE)):
        columns = keys | values
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        there = pc.not_equal(operation, other)
        yield with_side(rows if pc.all(there).as_py() else rows.filter(there), side)


@dataclass(frozen=True)
class ResultTask:
    """Prepares what operators emitted for the inputs of others. `inputs` are by the number of the operator in the
    exchange that emitted it."""

    inputs: Mapping[int, tuple[ResultInput, ...]]
    exchange: Exchange

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sequence = first_sequence()
        preparations = {
            one.to: Preparation(one.operator, one.prepare, one.to, self.exchange)
            for several in self.inputs.values()
            for one in several
        }
        for number, value in self._blocks(batches):
            for one in self.inputs[number]:
                preparation = preparations[one.to]
                for rows in one.batches(decoded(value, one.schema), preparation):
                    for block in preparation.add(rows, sequence):
                        yield block
                        sequence += 1
        context = TaskContext.get()
        shard = (context.partitionId() if context else 0) % self.exchange.shards
        for to, preparation in preparations.items():
            yield from preparation.flush(sequence)
            sequence += 1
            if report := preparation.report():
                yield report_block(report, shard, sequence, to.operator)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.BinaryScalar]]:
        for batch in batches:
            for number, value in zip(batch.column(OPERATOR).to_pylist(), batch.column(DATA), strict=True):
                if value.is_valid and number in self.inputs:
                    yield number, value


def earlier_blocks(results: DataFrame, task: ResultTask) -> DataFrame:
    own = results.where(f.col(OPERATOR).isin(list(task.inputs)) & f.col(DATA).isNotNull())
    return own.mapInArrow(task, spark_schema(BLOCKS))
