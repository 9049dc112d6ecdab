"""Commit points of captures as a job sees them: read by Fetch from the topic that captures write them to. Thin.

Where there is no such topic (Apache Kafka, a node without captures) there are none, and batches are cut without them.
"""

from collections.abc import Collection
from functools import cache

from headwater.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic, UsageError
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.source.batch_plan.commit_cuts import CommitHistory
from headwater.log.batch_format import decode_batch, first_batch_bytes
from headwater.log.commit_points import TOPIC, CommitPoint
from headwater.record import TopicPartition

POINT_BYTES = 16 * 1024
POINT_BYTES_MAX = 128 * 1024**2


class CommitHistories:
    """Looks at the newest commit point of every capture; at older ones only when a plan asks for them."""

    def __init__(self) -> None:
        self._newest: dict[int, tuple[int, CommitPoint | None]] = {}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where the partitions with commit points ended at the last look."""
        return {TopicPartition(TOPIC, number): end for number, (end, _) in self._newest.items()}

    def of(self, client: Client, places: Collection[TopicPartition]) -> list[CommitHistory]:
        """Of the captures that write to any of these partitions.

        Ask after the ends of partitions are known: a capture names a topic here before its first records are visible.
        """
        try:
            partitions = client.partitions([TOPIC])[TOPIC]
            ends = client.offsets({TopicPartition(TOPIC, number): LATEST for number in range(partitions)})
        except (UnknownTopic, UnknownPartition, UsageError):
            return []  # there is none, or a broker that is not ours does not let us look
        found = (self._history(client, place.partition, end, places) for place, end in ends.items() if end > 0)
        return [history for history in found if history is not None]

    def _history(
        self, client: Client, partition: int, end: int, places: Collection[TopicPartition]
    ) -> CommitHistory | None:
        known_end, newest = self._newest.get(partition, (0, None))
        if known_end != end:
            newest = _read(client, partition, end - 1)
            self._newest[partition] = end, newest
        if newest is None or newest.removed:
            return None
        own = frozenset(place for place in places if place in newest.ends)
        if not own:
            return None
        place = TopicPartition(TOPIC, partition)
        at = cache(lambda number: _read(client, partition, number))
        return CommitHistory(newest, own, client.offsets({place: EARLIEST})[place], end - 1, at)


def _read(client: Client, partition: int, offset: int) -> CommitPoint | None:
    """One commit point; None if it was deleted, or is none. Each is a batch of its own."""
    try:
        fetched = client.fetch(TopicPartition(TOPIC, partition), offset, bytes_max=POINT_BYTES)
    except OffsetOutOfRange:
        return None
    size = first_batch_bytes(fetched.records)
    if size == 0:
        return None
    records = decode_batch(fetched.records[:size], bytes_max=POINT_BYTES_MAX)
    return next((CommitPoint.from_value(record.value) for record in records if record.offset == offset), None)
