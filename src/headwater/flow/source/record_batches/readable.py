"""Chunks around the batches that cannot be read. Pure.

Reading a piece is tried as a whole, since nearly all are sound. Where a batch is in the way, what lies before it, the
batch, and what follows are given one after the other; where the batches together unpack to too much, the piece is cut.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from headwater.flow.source.record_batches.files import Chunk
from headwater.flow.source.record_batches.records import TooMuchTogether, UnreadableBatch
from headwater.log.batch_format import read_header

Result = TypeVar("Result")


def read_around(piece: Chunk, read: Callable[[Chunk], Result]) -> Iterator[Result | UnreadableBatch]:
    """What `read` makes of the piece, in order, with each batch that it cannot read in its place."""
    waiting: list[Chunk | UnreadableBatch] = [piece]
    while waiting:
        part = waiting.pop()
        if isinstance(part, UnreadableBatch):
            yield part
            continue
        try:
            result = read(part)
        except UnreadableBatch as batch:
            waiting += reversed(_around(part, batch))
        except TooMuchTogether as much:
            waiting += reversed(_cut(part, much.position))
        else:
            yield result


def _around(part: Chunk, batch: UnreadableBatch) -> list[Chunk | UnreadableBatch]:
    data, found = memoryview(part.data), list[Chunk | UnreadableBatch]()
    if batch.position:
        found.append(Chunk(part.first, batch.base_offset, data[: batch.position]))
    found.append(batch)
    following = batch.position + batch.size
    if following < len(data):
        found.append(Chunk(batch.last_offset + 1, part.next_offset, data[following:]))
    return found


def _cut(part: Chunk, position: int) -> list[Chunk]:
    """The first batch of the second half says where the halves meet: offsets only grow."""
    data = memoryview(part.data)
    meeting = read_header(data, position).base_offset
    return [Chunk(part.first, meeting, data[:position]), Chunk(meeting, part.next_offset, data[position:])]
