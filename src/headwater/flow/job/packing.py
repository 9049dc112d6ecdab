"""Many rows as one value: what only Python looks at passes through Spark in pieces, in Arrow's own form.

Spark handles rows one by one, also those it only hands on: from Arrow to its own form, into a shuffle, to Arrow again.
A piece is a value of bytes to it.

    to shards      _shard, _piece, _packed    rows of a task that belong to a shard; pieces have the order of the source
    to the driver  _packed                    changes, and what a task reports, as it told them
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed, shard_of

SHARD, PIECE, PACKED = "_shard", "_piece", "_packed"
PIECES = pa.schema([pa.field(SHARD, pa.int32()), pa.field(PIECE, pa.int64()), pa.field(PACKED, pa.binary())])
RESULTS = pa.schema([pa.field(PACKED, pa.binary())])
ROWS_A_PIECE, BYTES_A_PIECE = 50_000, 64 * 1024**2
"""About so much: a value of Spark's has to lie in memory as a whole, and can have 2 GiB."""

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class DealingTask:
    """What a task does with rows that are to go to their shards; `schema` is what they are given on with."""

    schema: pa.Schema
    shards: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        first = (context.partitionId() if context else 0) << 32
        for number, batch in enumerate(one for one in batches if one.num_rows):
            yield self._dealt(conformed(batch, self.schema), first + number)

    def _dealt(self, rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        owners = shard_of(rows.column(HASH).to_numpy(), self.shards).astype(np.uint16)
        # The order of rows in a shard is that in which they came.
        dealt = rows.take(np.argsort(owners, kind="stable"))
        counts = np.bincount(owners, minlength=self.shards)
        ends = np.cumsum(counts)
        shards = np.flatnonzero(counts)
        pieces = [packed(dealt.slice(ends[shard] - counts[shard], counts[shard])) for shard in shards]
        columns = [
            pa.array(shards, pa.int32()),
            pa.array([number] * len(pieces), pa.int64()),
            pa.array(pieces, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=PIECES)


def dealt_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of pieces, in the order of the source, in whatever order the pieces come."""
    pieces = [
        (number, value)
        for batch in batches
        for number, value in zip(batch.column(PIECE).to_pylist(), batch.column(PACKED), strict=True)
    ]
    for _, value in sorted(pieces, key=itemgetter(0)):
        yield unpacked(value, schema)


@dataclass(frozen=True)
class PackingTask:
    """Another task, whose results are for the driver alone; `schema` is what of them is wanted."""

    task: Task
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in self.task(batches):
            rows = conformed(result, self.schema)
            size = max(1, min(ROWS_A_PIECE, rows.num_rows * BYTES_A_PIECE // max(rows.nbytes, 1)))
            for begin in range(0, rows.num_rows, size):
                piece = pa.array([packed(rows.slice(begin, size))], pa.binary())
                yield pa.RecordBatch.from_arrays([piece], schema=RESULTS)


def opened(results: pa.Table, schema: pa.Schema) -> pa.Table:
    """What tasks have packed for the driver."""
    pieces = [unpacked(value, schema) for chunk in results[PACKED].chunks for value in chunk]
    return pa.Table.from_batches(pieces, schema)


def packed(rows: pa.RecordBatch) -> bytes:
    return bytes(rows.serialize().to_pybytes())


def unpacked(value: pa.BinaryScalar, schema: pa.Schema) -> pa.RecordBatch:
    """Nothing is copied."""
    return pa.ipc.read_record_batch(value.as_buffer(), schema)
