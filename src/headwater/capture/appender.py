"""Where records of captures go: a small contract, and the embedded log as the first that keeps it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from headwater.errors import UnknownTopic
from headwater.log.batch_format import encode_batch
from headwater.log.log import Log
from headwater.log.own_topics import ensure_own_topic
from headwater.log.partitioner import partition_of
from headwater.log.record_contents import Contents, Int64Array, parts_of
from headwater.record import Record, TopicPartition

BATCH_BYTES = 512 * 1024
RECORD_OVERHEAD_BYTES = 64


class Appender(Protocol):
    """The operations of a log that a capture needs, embedded or not. One capture is the only writer of its topics.

    Records of one partition are kept in the order they were given; none is kept if one before it was lost.
    """

    def ensure_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> int:
        """Make the topic if it is missing, and let it take all that is written; how many partitions it has."""

    def partition_count(self, topic: str) -> int:
        """How many a topic has; 0 if there is no such topic."""

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to so many."""

    def append(self, topic: str, partition: int, records: Sequence[Record], *, durable: bool = True) -> int:
        """Write records; they may still be lost until `sync` returns. Returns the offset after the last one.

        Readers see them after `sync`; at once if they are not `durable`, and then a power cut may take them back.
        """

    def append_contents(self, topic: str, partition: int, pieces: Sequence[Contents]) -> int:
        """The same, with records whose contents are written already."""

    def sync(self) -> None:
        """Return when all that was appended survives a power cut."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the first offset and the end offset, written and synced. A topic that does not exist is empty."""

    def read(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        """Records from an offset up to the end as it is now."""

    def partition_of(self, key: bytes | None, partitions: int) -> int:
        """Where Kafka's clients would put this key; 0 without one, so that order is kept."""


OWN = "__headwater_"
"""Name prefix of the internal topics of captures; other topics are tables, for consumers."""


class LogAppender:
    """The embedded log, in the process that owns it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._unsynced: dict[TopicPartition, int] = {}

    def ensure_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> int:
        kept = topic.startswith(OWN)
        return ensure_own_topic(self._log, topic, configs, partitions=partitions, kept=kept).partitions

    def partition_count(self, topic: str) -> int:
        try:
            return self._log.topic(topic).partitions
        except UnknownTopic:
            return 0

    def add_partitions(self, topic: str, total: int) -> None:
        self._log.add_partitions(topic, total)

    def append(self, topic: str, partition: int, records: Sequence[Record], *, durable: bool = True) -> int:
        target, end = self._log.partition(topic, partition), 0
        for group in batches(records):
            # Marked durable: no reader sees it before `sync`, and no reader has seen what a power cut loses.
            end = target.append(encode_batch(group), durable=durable).last_offset + 1
            if durable:
                self._unsynced[TopicPartition(topic, partition)] = end
        return end

    def append_contents(self, topic: str, partition: int, pieces: Sequence[Contents]) -> int:
        from headwater.log.record_framing import encode_contents  # loads the compiler, which takes a second

        target, end = self._log.partition(topic, partition), 0
        keyed = all(piece.keyed for piece in pieces)
        for first, end_row in groups(np.concatenate([piece.sizes for piece in pieces])):
            batch = encode_contents(parts_of(pieces, first, end_row))
            end = target.append(batch, durable=True, keyed=keyed).last_offset + 1
            self._unsynced[TopicPartition(topic, partition)] = end
        return end

    def sync(self) -> None:
        unsynced, self._unsynced = self._unsynced, {}
        for (topic, partition), end in unsynced.items():
            self._log.partition(topic, partition).make_durable(end)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        try:
            found = self._log.partition(topic, partition)
        except UnknownTopic:
            return 0, 0
        found.make_durable(found.end_offset)  # what an interrupted attempt has written counts too
        return found.start_offset, found.high_watermark

    def read(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        return self._log.read(topic, partition, offset=offset)

    def partition_of(self, key: bytes | None, partitions: int) -> int:
        return 0 if key is None or partitions == 1 else partition_of(key, partitions)


def last_records(appender: Appender, topic: str, partition: int, count: int) -> list[Record]:
    """The last records of a partition, at least `count` of them if there are so many.

    Offsets have holes where compaction took records, so it looks back further and further.
    """
    first, end = appender.bounds(topic, partition)
    back = count
    while first < end:
        found = list(appender.read(topic, partition, max(first, end - back)))
        if len(found) >= count or back >= end - first:
            return found
        back *= 4
    return []


def batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Records in groups of moderate size; a record that is larger has a group of its own."""
    sizes = (len(record.key or b"") + len(record.value or b"") for record in records)
    for first, end in groups(np.fromiter(sizes, dtype=np.int64, count=len(records))):
        yield records[first:end]


def groups(sizes: Int64Array) -> Iterator[tuple[int, int]]:
    """Where each group of records begins and ends; sizes are those of key and value together."""
    ends = np.cumsum(sizes + RECORD_OVERHEAD_BYTES)
    start = before = 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES, side="right")))
        yield start, end
        start, before = end, int(ends[end - 1])
