"""Which record batches of a producer a topic holds already, by reading it from where the producer was last known to be.

A log knows repetitions by the producer's last sequences, and forgets them when the producer has been silent for long
(producer.id.expiration.ms, a day). The headers of record batches name producer, epoch and sequence for ever.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from headwater.errors import OffsetOutOfRange
from headwater.flow.kafka.client import End, FetchedRecords
from headwater.log.batch_format import Buffer
from headwater.log.batch_table import POSITION, PRODUCER_ID, find_batches
from headwater.record import TopicPartition

FETCH_BYTES = 4 * 1024**2
_EPOCH_AND_SEQUENCE = struct.Struct(">hi")
_EPOCH_AT = 51


class Topics(Protocol):
    """What is needed of a Kafka client."""

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, End]: ...

    def fetch(self, place: TopicPartition, offset: int, *, bytes_max: int) -> FetchedRecords: ...


def without_stored(
    client: Topics, batches: Mapping[TopicPartition, Sequence[Buffer]], first: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Sequence[Buffer]]:
    """The batches that are not in the topic at or after these offsets.

    They go in by order of their sequence, so that none is missing before one that is there. Compaction may have removed
    such a one: to send it again would put an old value of its keys behind the new one.
    """
    ends = client.ends(batches)
    left: dict[TopicPartition, Sequence[Buffer]] = {}
    for place, several in batches.items():
        known = {_identity(batch): number for number, batch in enumerate(several)}
        there = _identities(client, place, first.get(place, 0), ends[place].offset, several)
        rest = several[max((known.get(one, -1) for one in there), default=-1) + 1 :]
        if rest:
            left[place] = rest
    return left


def _identities(
    client: Topics, place: TopicPartition, offset: int, end: int, several: Sequence[Buffer]
) -> "Iterable[tuple[int, int, int]]":
    """Of the batches in the log that the producer of these has written."""
    producer = _identity(several[0])[0]
    while offset < end:
        try:
            records = client.fetch(place, offset, bytes_max=FETCH_BYTES).records
        except OffsetOutOfRange as error:
            if error.first <= offset:
                return  # it ends earlier than it did: planner and sink of the next batch say so
            offset = error.first
            continue
        table = find_batches(records)
        if not len(table.rows):
            return
        for position, found in table.rows[:, (POSITION, PRODUCER_ID)].tolist():
            if found == producer:
                yield _identity(records[position:])
        offset = table.next_offset


def _identity(batch: Buffer) -> tuple[int, int, int]:
    """Producer, epoch and first sequence, as they stand in the header of a record batch (log/batch_format.py)."""
    producer = int.from_bytes(batch[_EPOCH_AT - 8 : _EPOCH_AT], "big", signed=True)
    epoch, sequence = _EPOCH_AND_SEQUENCE.unpack_from(batch, _EPOCH_AT)
    return producer, epoch, sequence
