"""A run: rows of one shard, sorted by the hash of their key, in a file that never changes.

An Arrow IPC file, uncompressed, so that it can be mapped and read where it is touched:

    _hash      int64    ascending; keys whose hashes collide lie side by side, in one record batch
    ...                 the columns of the key, then those of the values
    _deleted   bool     the key is deleted; its values are null

Its record batches have a bounded number of rows and bytes. A key occurs once. The checksum (crc32c of the whole file)
stands in the manifest.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from headwater.errors import StateDamaged
from headwater.flow.state.files import StateFiles, StateWriter, located
from headwater.flow.state.manifest import HASH, RunInfo
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.runs.hash_search import expanded, first_at_or_above, first_in_time, matching
from headwater.log.storage import Buffer

BATCH_ROWS_MAX = 1 << 20
BATCH_BYTES_MAX = 16 * 1024**2
"""A merge holds about five times as much at a time."""
PIECE_BYTES = 4 * 1024**2


class Hits(NamedTuple):
    """Where some of the wanted hashes are: `wanted` are their places among those asked for."""

    batch: pa.RecordBatch
    hashes: Integers
    wanted: Integers
    rows: Integers


class Within(NamedTuple):
    """Rows of a batch, and for each the place of its hash among those asked for."""

    batch: pa.RecordBatch
    among: Integers
    rows: Integers


class Times(NamedTuple):
    """The column by which rows of the same hash are sorted, and its wanted values."""

    column: str
    wanted: Integers


class Leading(NamedTuple):
    """First rows of some hashes; those that have more, and where in the order they go on."""

    batch: pa.RecordBatch
    among: Integers
    rows: Integers
    goes_on: Integers
    edges: Integers


class Run:
    def __init__(self, info: RunInfo, buffer: pa.Buffer, schema: pa.Schema) -> None:
        self.info = info
        # The mapping, not only what Arrow made of it: a reader may outlive the file's name.
        reader = pa.ipc.open_file(buffer)
        if not reader.schema.equals(schema):
            raise StateDamaged(info.name, f"its columns are {reader.schema.names}, and not those of its manifest")
        self.batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        self.hashes: list[Integers] = [batch.column(HASH).to_numpy() for batch in self.batches]
        self.starts = np.cumsum([0, *(batch.num_rows for batch in self.batches)])
        self._firsts = np.array([hashes[0] for hashes in self.hashes], np.int64)
        self._lasts = np.array([hashes[-1] for hashes in self.hashes], np.int64)

    def find(self, wanted: Integers, times: Times | None = None) -> Iterator[Hits]:
        """The first row of each hash that is here, or of each hash and time; `wanted` is ascending."""
        begins = np.searchsorted(wanted, self._firsts, side="left")
        ends = np.searchsorted(wanted, self._lasts, side="right")
        for number in np.flatnonzero(begins < ends):
            begin, end, hashes = begins[number], ends[number], self.hashes[number]
            rows = first_at_or_above(hashes, wanted[begin:end])
            if times is None:
                hit = np.flatnonzero(hashes[rows] == wanted[begin:end])
            else:
                held = self.batches[number].column(times.column).to_numpy()
                rows = first_in_time(hashes, held, rows, wanted[begin:end], times.wanted[begin:end])
                hit = np.flatnonzero(matching(hashes, held, rows, wanted[begin:end], times.wanted[begin:end]))
            if len(hit):
                yield Hits(self.batches[number], hashes, begin + hit, rows[hit])

    def within(self, wanted: Integers, low: Integers, high: Integers, column: str) -> Iterator[Within]:
        """All rows of each hash whose time lies in [low, high); `wanted` is ascending."""
        begins = np.searchsorted(wanted, self._firsts, side="left")
        ends = np.searchsorted(wanted, self._lasts, side="right")
        for number in np.flatnonzero(begins < ends):
            part, hashes = slice(begins[number], ends[number]), self.hashes[number]
            held = self.batches[number].column(column).to_numpy()
            rows = first_at_or_above(hashes, wanted[part])
            first = first_in_time(hashes, held, rows, wanted[part], low[part])
            behind = first_in_time(hashes, held, rows, wanted[part], high[part])
            lengths = np.maximum(behind - first, 0)
            if lengths.any():
                among = np.repeat(np.arange(begins[number], ends[number]), lengths)
                yield Within(self.batches[number], among, expanded(first, lengths))

    def counts(self, wanted: Integers) -> Integers:
        """How many rows each hash has; `wanted` is ascending."""
        found = np.zeros(len(wanted), np.int64)
        begins = np.searchsorted(wanted, self._firsts, side="left")
        ends = np.searchsorted(wanted, self._lasts, side="right")
        for number in np.flatnonzero(begins < ends):
            part, hashes = slice(begins[number], ends[number]), self.hashes[number]
            first = first_at_or_above(hashes, wanted[part])
            found[part] += np.searchsorted(hashes, wanted[part], side="right") - first
        return found

    def leading(self, wanted: Integers, limits: Integers, column: str) -> Iterator["Leading"]:
        """The first rows of each hash, up to a limit, and what those of which there are more go on with."""
        begins = np.searchsorted(wanted, self._firsts, side="left")
        ends = np.searchsorted(wanted, self._lasts, side="right")
        for number in np.flatnonzero(begins < ends):
            part, hashes = slice(begins[number], ends[number]), self.hashes[number]
            first = first_at_or_above(hashes, wanted[part])
            behind = np.searchsorted(hashes, wanted[part], side="right")
            lengths = np.minimum(behind - first, limits[part])
            more = np.flatnonzero(lengths < behind - first)
            edges = self.batches[number].column(column).to_numpy()[(first + lengths)[more]]
            if lengths.any():
                among = np.repeat(np.arange(begins[number], ends[number]), lengths)
                yield Leading(self.batches[number], among, expanded(first, lengths), begins[number] + more, edges)

    def place(self, hash_: int) -> int:
        """The row of the first hash that is not below this one, counted over all batches."""
        number = int(np.searchsorted(self._lasts, hash_, side="left"))
        if number == len(self.batches):
            return int(self.starts[-1])
        return int(self.starts[number] + np.searchsorted(self.hashes[number], hash_, side="left"))

    def hash_at(self, row: int) -> int:
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return int(self.hashes[number][row - self.starts[number]])

    def between(self, first: int, end: int) -> list[pa.RecordBatch]:
        """Rows [first, end), as they lie in the file."""
        pieces = []
        for batch, start in zip(self.batches, self.starts[:-1], strict=True):
            begin, stop = max(first - start, 0), min(end - start, batch.num_rows)
            if begin < stop:
                pieces.append(batch.slice(begin, stop - begin))
        return pieces


def open_run(files: StateFiles, info: RunInfo, schema: pa.Schema) -> Run:
    """Map a run after its checksum was found right; StateDamaged if it is not what was written."""
    why = ""
    for _ in range(2):
        try:
            buffer = files.map(info.name)
        except FileNotFoundError:
            why = "it is missing"
        else:
            why = damage_of(buffer, info)
            if not why:
                return Run(info, buffer, schema)
        # A local copy may be bad where the original is good: fetch it once more.
        if not files.forget(info.name):
            break
    raise StateDamaged(located(files, info.name), why)


def damage_of(buffer: pa.Buffer, info: RunInfo) -> str:
    """What is wrong with the bytes of a run; "" if nothing is."""
    if len(buffer) != info.bytes:
        return f"it has {len(buffer)} bytes, and {info.bytes} were written"
    if checksum_of(buffer) != info.checksum:
        return "its checksum does not fit"
    return ""


def checksum_of(buffer: pa.Buffer) -> int:
    view = memoryview(buffer)
    checksum = 0
    for position in range(0, len(view), PIECE_BYTES):
        checksum = crc32c(view[position : position + PIECE_BYTES], checksum)
    return checksum


class ChecksummedFile:
    """What Arrow writes to: small pieces are gathered, and all that passes is summed up."""

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self.checksum = 0
        self.bytes = 0
        self.closed = False

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        self.checksum = crc32c(view, self.checksum)
        self.bytes += len(view)
        self._pending.append(view)
        self._pending_bytes += len(view)
        if self._pending_bytes >= PIECE_BYTES:
            self.flush()
        return len(view)

    def flush(self) -> None:
        if self._pending:
            self._writer.write(self._pending)
        self._pending, self._pending_bytes = [], 0

    def tell(self) -> int:
        return self.bytes

    def close(self) -> None:
        self.flush()
        self.closed = True


def write_run(
    files: StateFiles, shard: int, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> RunInfo | None:
    """Write sorted batches as a run that survives a power cut; None, and no file, if they hold no rows."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    writer = files.create(name)
    try:
        file = ChecksummedFile(writer)
        rows, last = 0, first
        with pa.ipc.new_file(pa.PythonFile(file, mode="w"), schema) as sink:
            for batch in _chained(first, filled):
                sink.write_batch(batch)
                rows, last = rows + batch.num_rows, batch
        file.flush()
        writer.finish()
    except BaseException:
        # Also when a task is cancelled: no manifest will ever name this file.
        _abandon(writer)
        raise
    bounds = first.column(HASH)[0].as_py(), last.column(HASH)[-1].as_py()
    return RunInfo(shard, name, rows, file.bytes, file.checksum, *bounds)


def _abandon(writer: StateWriter) -> None:
    try:
        writer.abandon()
    except Exception:  # noqa: BLE001  the failure that led here is the one to raise; leftovers are cleaned later
        return


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def rows_per_batch(rows: int, bytes_: int) -> int:
    """How many rows of this average size may go into one record batch."""
    return max(1, min(BATCH_ROWS_MAX, rows * BATCH_BYTES_MAX // max(bytes_, 1)))


def in_batches(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Sorted rows in batches of bounded size, cut where the hash changes."""
    hashes = rows.column(HASH).to_numpy()
    limit = rows_per_batch(rows.num_rows, rows.nbytes)
    begin = 0
    while begin < rows.num_rows:
        end = min(begin + limit, rows.num_rows)
        end = int(np.searchsorted(hashes, hashes[end - 1], side="right"))
        yield rows.slice(begin, end - begin)
        begin = end


def total_rows(runs: Sequence[Run]) -> int:
    return sum(run.info.rows for run in runs)
