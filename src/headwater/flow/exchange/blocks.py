"""Blocks: many rows as one value of bytes, in Arrow's IPC form, so that Spark's shuffle moves values and not rows.

Spark converts rows one by one, also those it only passes on: from Arrow to its own form, into a shuffle, and back.

    to shards      _shard, _operator, _input, _sequence, _data
    to the driver  _operator, _report, _data

`_operator` numbers the operators of one exchange, `_input` the inputs of an operator. Blocks of an input have the order
of their sequence numbers, which is the order of the log: it does not depend on which task is done first.

Where all tasks run on one machine, the rows of a large block lie in a file of their own, as an Arrow stream, and the
value is a reference to it: Spark copies each value about six times on its way. The files live as long as the batch.
"""

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.exchange.partition_number import partition_number
from headwater.flow.operate.reports import ShardReport
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import shard_of

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark runs on the rows of a partition."""

SHARD, OPERATOR, INPUT, SEQUENCE, DATA, IS_REPORT = "_shard", "_operator", "_input", "_sequence", "_data", "_report"
BLOCKS = pa.schema(
    [(SHARD, pa.int32()), (OPERATOR, pa.int32()), (INPUT, pa.int32()), (SEQUENCE, pa.int64()), (DATA, pa.binary())]
)
BLOCK_ROWS, BLOCK_BYTES = 50_000, 64 * 1024**2
"""About the size of a block of results: Spark holds a value in memory as a whole, and a value has 2 GiB at most."""
FILE_BYTES = 64 * 1024
"""The size from which a block lies in a file: for less, making one costs more than the copies."""
REFERENCE = b"file:"
"""What a value begins with that names a file; one that holds rows begins with Arrow's 0xFFFFFFFF."""
REPORTS = -1
"""The input number of blocks that hold reports of earlier tasks, and no rows."""
REPORT = pa.schema([("_commit", pa.string())])
VISIT = -1
"""The operator number of blocks that only make a shard's task run."""


@dataclass(frozen=True)
class Address:
    """Where blocks go: an operator of the exchange, and which of its inputs they are."""

    operator: int = 0
    input: int = 0


FIRST = Address()


@dataclass(frozen=True)
class Exchange:
    """How rows pass from task to task: over how many shards, and through which folder if all are on one machine."""

    shards: int
    folder: str | None = None

    def encoded(self, rows: pa.RecordBatch) -> bytes:
        """A block that `decoded` reads."""
        if self.folder is None or rows.nbytes < FILE_BYTES:
            return bytes(rows.serialize().to_pybytes())
        path = f"{self.folder}/{uuid.uuid4().hex}"
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_batch(rows)
        return REFERENCE + path.encode()

    def clear(self) -> None:
        """Make the folder, without what an earlier attempt left in it."""
        self.remove()
        if self.folder is not None:
            Path(self.folder).mkdir(parents=True)

    def remove(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def first_sequence() -> int:
    """The sequence number of a task's first block: tasks are numbered as Spark numbers their partitions."""
    return partition_number() << 32


def partitioned(
    rows: pa.RecordBatch, exchange: Exchange, sequence: int, to: Address = FIRST, wanted: Integers | None = None
) -> pa.RecordBatch:
    """One block for each shard that has rows; rows of a shard keep their order. `wanted` are the shards of rows that do
    not go to the one of their hash."""
    shards = exchange.shards
    if shards == 1:
        return _blocks([exchange.encoded(rows)], [0], sequence, to)
    owners = (shard_of(rows.column(HASH).to_numpy(), shards) if wanted is None else wanted).astype(np.uint16)
    sorted_rows = rows.take(np.argsort(owners, kind="stable"))
    counts = np.bincount(owners, minlength=shards)
    ends = np.cumsum(counts)
    found = np.flatnonzero(counts)
    values = [exchange.encoded(sorted_rows.slice(ends[shard] - counts[shard], counts[shard])) for shard in found]
    return _blocks(values, found.tolist(), sequence, to)


def report_block(report: ShardReport, shard: int, sequence: int, operator: int = 0) -> pa.RecordBatch:
    """A report of a task that works on no shard; the task that receives the block passes it on to the driver."""
    row = pa.RecordBatch.from_arrays([pa.array([report.to_json()])], schema=REPORT)
    return _blocks([INLINE.encoded(row)], [shard], sequence, Address(operator, REPORTS))


INLINE = Exchange(1)
"""Blocks that are values."""


def _blocks(values: list[bytes], shards: list[int], sequence: int, to: Address) -> pa.RecordBatch:
    columns = [
        pa.array(shards, pa.int32()),
        pa.array([to.operator] * len(values), pa.int32()),
        pa.array([to.input] * len(values), pa.int32()),
        pa.array([sequence] * len(values), pa.int64()),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BLOCKS)


Inputs = list[pa.RecordBatch | None]


@dataclass
class Received:
    """The blocks of one operator that came to a task: rows by shard and input, and reports of earlier tasks."""

    inputs: dict[int, Inputs]
    reports: list[str]


def visits(session: SparkSession, shards: int) -> DataFrame:
    """A block without rows for each shard, for exchanges that have to visit all of them."""
    shard = f.col("id").cast("int").alias(SHARD)
    nothing = f.lit(VISIT).alias(OPERATOR), f.lit(0).alias(INPUT), f.lit(0).cast("long").alias(SEQUENCE)
    return session.range(0, shards, 1, 1).select(shard, *nothing, f.lit(b"").alias(DATA))


def visit(shard: int) -> pa.RecordBatch:
    """The same of one shard, for a task that receives nothing through an exchange."""
    return _blocks([b""], [shard], 0, Address(VISIT))


def received(
    batches: Iterable[pa.RecordBatch], operators: Sequence[Sequence[pa.Schema]], visited: set[int] | None = None
) -> list[Received]:
    """By operator, rows in the order of the log. `operators` says what the inputs of each look like; shards that have
    blocks, also without rows, are added to `visited`."""
    blocks: list[tuple[int, int, int, int, pa.BinaryScalar]] = []
    for batch in batches:
        numbers = (batch.column(name).to_pylist() for name in (OPERATOR, SHARD, INPUT, SEQUENCE))
        blocks += zip(*numbers, batch.column(DATA), strict=True)
    blocks.sort(key=itemgetter(0, 1, 2, 3))
    found = [Received({}, []) for _ in operators]
    parts: dict[tuple[int, int, int], list[pa.RecordBatch]] = {}
    for operator, shard, number, _, value in blocks:
        if visited is not None:
            visited.add(shard)
        if operator == VISIT:
            continue
        if number == REPORTS:
            found[operator].reports += decoded(value, REPORT).column(0).to_pylist()
        else:
            schema = operators[operator][number]
            parts.setdefault((operator, shard, number), []).append(decoded(value, schema))
    for (operator, shard, number), several in parts.items():
        inputs = found[operator].inputs.setdefault(shard, [None] * len(operators[operator]))
        inputs[number] = joined(several)
    return found


def joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Rows of several blocks as one batch."""
    if len(parts) == 1:
        return parts[0]
    try:
        return pa.concat_batches(parts)
    except pa.ArrowInvalid:  # a column holds 2 GiB of text at most
        raise FlowError(
            "the rows of one task have a column of more than 2 GiB",
            "Divide the job among more shards with: headwater state reshard APP.JOB --shards N.",
        ) from None


def result_blocks(rows: pa.RecordBatch, exchange: Exchange) -> Iterator[bytes]:
    """Rows as values of a size that Spark can handle."""
    size = max(1, min(BLOCK_ROWS, rows.num_rows * BLOCK_BYTES // max(rows.nbytes, 1)))
    for begin in range(0, rows.num_rows, size):
        yield exchange.encoded(rows.slice(begin, size))


def bytes_of(blocks: pa.RecordBatch) -> int:
    """How large the rows of blocks are, also where they lie in files."""
    values = (value.as_buffer() for value in blocks.column(DATA))
    return sum(Path(found).stat().st_size if (found := _path(value)) else value.size for value in values)


def decoded(value: pa.BinaryScalar, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a block; nothing is copied."""
    data = value.as_buffer()
    path = _path(data)
    if path is None:
        return pa.ipc.read_record_batch(data, schema)
    with pa.memory_map(path) as file:
        return pa.ipc.open_stream(file).read_next_batch()


def _path(value: pa.Buffer) -> str | None:
    """The file that a value names; None if it holds the rows."""
    if not value[: len(REFERENCE)].equals(pa.py_buffer(REFERENCE)):
        return None
    return str(value[len(REFERENCE) :].to_pybytes().decode())
