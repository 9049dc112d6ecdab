"""Records but for what a batch adds to them: many at once, in columns. Pure.

A record in a batch (batch_format.py) begins with its length, the distance of its time and of its offset from the
batch's own. The fields after these do not depend on the batch: key, value and headers, each with its length. That
is a record's content, and it can be written before the record's batch is known.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.log.batch_format import content_of
from headwater.record import Record

Int64Array = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]


class Contents(NamedTuple):
    data: ByteArray
    starts: Int64Array
    ends: Int64Array
    """Where the content of each record lies in `data`; between two of them there may be anything."""

    times: Int64Array
    """Timestamps in milliseconds."""

    sizes: Int64Array
    """Bytes of key and value together."""

    keyed: bool
    """Whether each record has a key."""

    def part(self, first: int, end_row: int) -> "Contents":
        rows = slice(first, end_row)
        return self._replace(
            starts=self.starts[rows], ends=self.ends[rows], times=self.times[rows], sizes=self.sizes[rows]
        )


def contents_of(records: Sequence[Record]) -> Contents:
    written = [content_of(record) for record in records]
    ends = np.cumsum(np.fromiter(map(len, written), dtype=np.int64, count=len(written)))
    return Contents(
        data=np.frombuffer(b"".join(written), dtype=np.uint8).copy(),
        starts=np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1])),
        ends=ends,
        times=np.array([record.timestamp_ms for record in records], dtype=np.int64),
        sizes=np.array([len(record.key or b"") + len(record.value or b"") for record in records], dtype=np.int64),
        keyed=all(record.key is not None for record in records),
    )


def parts_of(pieces: Sequence[Contents], first: int, end_row: int) -> list[Contents]:
    """Of all records of the pieces, one piece after the other, those from `first` to below `end_row`."""
    found, start = [], 0
    for piece in pieces:
        end = start + len(piece.starts)
        if start < end_row and first < end:
            found.append(piece.part(max(first - start, 0), min(end_row, end) - start))
        start = end
    return found
