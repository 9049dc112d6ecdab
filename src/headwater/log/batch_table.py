"""Which record batches lie in a buffer: one row of numbers for each. Compiled; checksums are not looked at here.

The layout of a batch is drawn in batch_format.py, which reads one header at a time.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptBatch, UnsupportedFormat
from headwater.log.batch_format import HEADER_BYTES, MAGIC, Buffer
from headwater.log.compiling import compiled
from headwater.log.record_columns import ByteArray, Int64Array

(
    POSITION,
    SIZE,
    BASE_OFFSET,
    LAST_OFFSET,
    CRC,
    ATTRIBUTES,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    RECORD_COUNT,
) = range(10)
COLUMNS = 10

_WHOLE, _NOT_A_BATCH, _OLD_FORMAT = 0, 1, 2


class BatchTable(NamedTuple):
    rows: Int64Array
    """Batches × columns as named above."""
    length: int
    """Bytes that the whole batches take; what follows is the start of one that is cut off."""

    def column(self, which: int) -> Int64Array:
        return self.rows[:, which]

    @property
    def next_offset(self) -> int:
        """Behind the last batch; -1 if there is none."""
        return int(self.rows[-1, LAST_OFFSET]) + 1 if len(self.rows) else -1


def find_batches(buffer: Buffer | npt.NDArray[np.uint8]) -> BatchTable:
    """The whole batches of a buffer that begins with one. CorruptBatch where something else begins."""
    table, problem = batches_before_damage(buffer)
    if problem == _OLD_FORMAT:
        found = int(np.frombuffer(buffer, dtype=np.uint8)[table.length + 16])
        raise UnsupportedFormat(f"a batch has format {found}; only format {MAGIC} can be read")
    if problem == _NOT_A_BATCH:
        raise CorruptBatch(f"byte {table.length} of {len(buffer)} is not the start of a batch")
    return table


def batches_before_damage(buffer: Buffer | npt.NDArray[np.uint8]) -> tuple[BatchTable, int]:
    """The whole batches up to what is not a batch, and a number other than 0 if there is such a thing."""
    data: ByteArray = np.frombuffer(buffer, dtype=np.uint8)
    data.flags.writeable = False  # always, so that the compiler makes one version of each loop
    # Memory that is never written to costs nothing: this is room for batches of the smallest size there can be.
    rows = np.empty((len(data) // HEADER_BYTES + 1, COLUMNS), dtype=np.int64)
    count, length, problem = _find(data, rows)
    return BatchTable(rows[:count], length), problem


@compiled
def _big_endian(data, place, size):  # type: ignore[no-untyped-def]
    number = np.int64(0)
    for step in range(size):
        number = (number << np.int64(8)) | np.int64(data[place + step])
    return number


@compiled
def _signed32(data, place):  # type: ignore[no-untyped-def]
    number = _big_endian(data, place, 4)
    return number - np.int64(0x1_0000_0000) if number >= np.int64(0x8000_0000) else number


@compiled
def _find(data, rows):  # type: ignore[no-untyped-def]
    place = 0
    count = 0
    while len(data) - place >= 61:
        size = _signed32(data, place + 8) + 12
        if data[place + 16] != 2:
            return count, place, 2
        base = _big_endian(data, place, 8)
        last_delta = _signed32(data, place + 23)
        if size < 61 or base < 0 or last_delta < 0:
            return count, place, 1
        if size > len(data) - place:
            break
        rows[count, 0] = place
        rows[count, 1] = size
        rows[count, 2] = base
        rows[count, 3] = base + last_delta
        rows[count, 4] = _big_endian(data, place + 17, 4)
        rows[count, 5] = _big_endian(data, place + 21, 2)
        rows[count, 6] = _big_endian(data, place + 27, 8)
        rows[count, 7] = _big_endian(data, place + 35, 8)
        rows[count, 8] = _big_endian(data, place + 43, 8)
        rows[count, 9] = _signed32(data, place + 57)
        place += size
        count += 1
    return count, place, 0
