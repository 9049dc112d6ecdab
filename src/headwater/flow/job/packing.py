"""Many rows as one value: what only Python looks at passes through Spark in pieces, in Arrow's own form.

Spark handles rows one by one, also those it only hands on: from Arrow to its own form, into a shuffle, to Arrow again.
A piece is a value of bytes to it.

    to shards      _shard, _which, _piece, _packed    rows of a task, of one input, that belong to a shard; pieces have
                                                      the order of the source
    to the driver  _packed                            changes, and what a task reports, as it told them
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed, shard_of

SHARD, INPUT, PIECE, PACKED = "_shard", "_which", "_piece", "_packed"
PIECES = pa.schema([(SHARD, pa.int32()), (INPUT, pa.int32()), (PIECE, pa.int64()), (PACKED, pa.binary())])
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
            yield dealt(conformed(batch, self.schema), self.shards, first + number)


def dealt(rows: pa.RecordBatch, shards: int, number: int, which: int = 0) -> pa.RecordBatch:
    """Rows as pieces, one for each shard that has any; in a shard they have the order in which they came."""
    owners = shard_of(rows.column(HASH).to_numpy(), shards).astype(np.uint16)
    sorted_rows = rows.take(np.argsort(owners, kind="stable"))
    counts = np.bincount(owners, minlength=shards)
    ends = np.cumsum(counts)
    found = np.flatnonzero(counts)
    pieces = [packed(sorted_rows.slice(ends[shard] - counts[shard], counts[shard])) for shard in found]
    return _pieces(pieces, found.tolist(), number, which)


def piece_of(rows: pa.RecordBatch, shard: int, number: int, which: int) -> pa.RecordBatch:
    """Rows for a shard, whatever they are."""
    return _pieces([packed(rows)], [shard], number, which)


def _pieces(values: list[bytes], shards: list[int], number: int, which: int) -> pa.RecordBatch:
    columns = [
        pa.array(shards, pa.int32()),
        pa.array([which] * len(values), pa.int32()),
        pa.array([number] * len(values), pa.int64()),
        pa.array(values, pa.binary()),
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


def in_shards(pieces: DataFrame, shards: int) -> DataFrame:
    """Each in the partition of its shard."""
    return pieces.repartitionById(shards, f.col(SHARD))


Sides = list[pa.RecordBatch | None]


def dealt_sides(batches: Iterator[pa.RecordBatch], schemas: Sequence[pa.Schema]) -> dict[int, Sides]:
    """By shard, the rows of each of some inputs, in the order of the source; None where there are none."""
    pieces: dict[int, list[tuple[int, int, pa.BinaryScalar]]] = {}
    for batch in batches:
        names = (batch.column(name).to_pylist() for name in (SHARD, INPUT, PIECE))
        for shard, which, number, value in zip(*names, batch.column(PACKED), strict=True):
            pieces.setdefault(shard, []).append((which, number, value))
    found: dict[int, Sides] = {}
    for shard, several in pieces.items():
        given: list[list[pa.RecordBatch]] = [[] for _ in schemas]
        for which, _, value in sorted(several, key=itemgetter(0, 1)):
            given[which].append(unpacked(value, schemas[which]))
        found[shard] = [pa.concat_batches(parts) if parts else None for parts in given]
    return found


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
