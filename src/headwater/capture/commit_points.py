"""Where the topics of a capture are at the end of a transaction, written beside them for consumers that cut batches.

A commit point is appended after the records it speaks of are durable, and is not synced itself: a power cut that takes
it back breaks no promise, and the capture writes another one when it comes to the next boundary. One append of
records writes at most one, however many transactions it has.
"""

import threading
from collections.abc import Iterable, Mapping

from headwater.capture.appender import Appender, last_records
from headwater.log.commit_points import TOPIC, CommitPoint
from headwater.record import Record, TopicPartition

CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",  # a capture may be idle for a year, and its last commit point still counts
    "retention.bytes": str(256 * 1024**2),
    "segment.bytes": str(16 * 1024**2),
    "max.message.bytes": str(128 * 1024**2),
}

_claiming = threading.Lock()
"""Captures are threads of one process: two must not take the same partition."""


class CommitPoints:
    """Writes the commit points of one capture. Not thread-safe."""

    def __init__(self, appender: Appender, capture: str) -> None:
        self._appender, self._capture = appender, capture.encode()
        self._partition: int | None = None
        self._written = CommitPoint()
        self._ends: dict[TopicPartition, int] = {}
        self._marked: dict[TopicPartition, int] | None = None
        self._history_ends = False
        self.count = 0
        for partition, (owner, point) in self._newest().items():
            if owner == self._capture and not point.removed:
                self._partition, self._written = partition, point

    def _newest(self) -> dict[int, tuple[bytes, CommitPoint]]:
        """The last commit point of each partition, and whose it is."""
        found: dict[int, tuple[bytes, CommitPoint]] = {}
        for partition in range(self._appender.partition_count(TOPIC)):
            tail = last_records(self._appender, TOPIC, partition, 1)
            point = CommitPoint.from_value(tail[-1].value) if tail else None
            found[partition] = (tail[-1].key or b"" if tail else b"", point or CommitPoint(removed=True))
        return found

    # -- what the topics have ----------------------------------------------------------------------------------------

    def land(self, topic: str, partitions: int) -> bool:
        """Look at a topic before anything is written to it. Whether it is where the last commit point says."""
        ends = {TopicPartition(topic, number): self._appender.bounds(topic, number)[1] for number in range(partitions)}
        known = [self._written.ends.get(partition, 0) for partition in ends]
        if any(end < before for end, before in zip(ends.values(), known, strict=True)):
            self._history_ends = True  # it was deleted and made again
        if any(ends.values()) and not any(partition in self._written.ends for partition in ends):
            self._history_ends = True  # it has records that no commit point covers
        self._ends |= ends
        return list(ends.values()) == known

    def mark(self, waiting: Mapping[tuple[str, int], int]) -> None:
        """Notes a boundary: after the appended records, and so many records for each partition that are going to be.

        A topic that no record has come for since the start keeps the end of the last commit point: left out, it would
        be read as empty.
        """
        marked = {**self._written.ends, **self._ends}
        for where, count in waiting.items():
            marked[TopicPartition(*where)] += count
        self._marked = marked

    def appended(self, where: TopicPartition, end: int, count: int) -> None:
        """Notes that `count` records were appended to a partition."""
        if not count:
            return
        moved = end - count - self._ends[where]
        if moved < 0:
            self._history_ends = True  # it was deleted and made again
        if moved and self._marked is not None:
            self._marked[where] = max(0, self._marked[where] + moved)
        self._ends[where] = end

    # -- commit points -----------------------------------------------------------------------------------------------

    def announce(self, topics: Iterable[str]) -> None:
        """Before the first records of a topic are appended, a commit point names it, at its beginning: from then on
        readers know that it has commit points. This one is synced: a power cut must not leave records without it."""
        named = {partition.topic for partition in self._written.ends}
        if named.issuperset(topics):
            return
        begun = {partition.topic for partition, end in self._ends.items() if end}
        fresh = {partition: 0 for partition in self._ends if partition.topic not in named | begun}
        if fresh:
            self._write(CommitPoint(max(1, self._written.epoch), {**self._written.ends, **fresh}), durable=True)

    @property
    def due(self) -> bool:
        """Whether there is a boundary after the last commit point."""
        return self._marked is not None and (self._history_ends or self._marked != self._written.ends)

    def write(self) -> None:
        """Writes the last boundary once its records are durable; one that was written already is not written again."""
        if self._marked is not None and self.due:
            self._write(CommitPoint(max(1, self._written.epoch + self._history_ends), self._marked))
            self._history_ends = False
        self._marked = None

    def remove(self) -> None:
        """The capture is removed. Its topics stay, and their readers wait for no boundary any more."""
        if self._partition is not None:
            self._write(CommitPoint(self._written.epoch + 1, removed=True), durable=True)

    def _write(self, point: CommitPoint, *, durable: bool = False) -> None:
        if self._partition is None:
            point = self._claim(point)
        else:
            self._append(point, durable=durable)
        self._written = point
        self.count += 1

    def _append(self, point: CommitPoint, *, durable: bool) -> None:
        assert self._partition is not None
        record = Record(point.to_value(), self._capture, timestamp_ms=-1)
        self._appender.append(TOPIC, self._partition, [record], durable=durable)
        if durable:
            self._appender.sync()

    def _claim(self, point: CommitPoint) -> CommitPoint:
        """Reuses the partition of a removed capture, or adds one.

        Epochs continue, so that commit points are not mixed up.
        """
        with _claiming:
            self._appender.ensure_topic(TOPIC, partitions=1, configs=CONFIGS)
            newest = self._newest()
            free = [number for number, (_, found) in newest.items() if found.removed]
            self._partition = free[0] if free else len(newest)
            if not free:
                self._appender.add_partitions(TOPIC, self._partition + 1)
            epoch = newest[self._partition][1].epoch if free else 0
            point = CommitPoint(epoch + 1, point.ends)
            self._append(point, durable=True)
            return point
