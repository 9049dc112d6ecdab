"""Read everything and compare: checksums, order of offsets, both indexes, and what is in quarantine already.

Works on the files of a log that nobody has open. It changes nothing, but for one thing if asked: damage it found is put
on the quarantine list, so that readers step over it from the next start on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.log.checkpoint import Checkpoint, DurableWitness, read_checkpoint
from headwater.log.offset_index import OffsetIndex
from headwater.log.recovery import read_quarantine, write_quarantine
from headwater.log.scan import Expectation, damage_at, whole_batches
from headwater.log.segment import BatchAt, Damage, Segment
from headwater.log.storage import Storage, read_whole
from headwater.log.time_index import TimeIndex
from headwater.log.topic import Topic, load_topics, partition_directory

Progress = Callable[[int], None]  # told the bytes read since the last call


@dataclass
class PartitionReport:
    topic: str
    partition: int
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    start_offset: int = 0
    end_offset: int = 0
    unacknowledged_bytes: int = 0
    """A torn end that nobody was promised: the next start cuts it off."""
    quarantined: list[Damage] = field(default_factory=list)
    """Damage that was known before."""
    damage: list[Damage] = field(default_factory=list)
    """Damage found now."""
    index_errors: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.damage and not self.index_errors


@dataclass
class Report:
    partitions: list[PartitionReport] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    """Folders that look like partitions of a topic that does not exist: never touched."""

    @property
    def sound(self) -> bool:
        return all(partition.sound for partition in self.partitions)


def check_log(storage: Storage, *, quarantine: bool = False, progress: Progress = lambda _: None) -> Report:
    """Check every partition. With `quarantine`, damage found is recorded, so that the next start steps over it."""
    topics = [topic for topic, deleting in load_topics(storage, {}) if not deleting]
    report = Report(orphans=_orphans(storage, topics))
    for topic in topics:
        for number in range(topic.partitions):
            checker = _PartitionChecker(storage, topic.name, number, progress)
            report.partitions.append(checker.check())
            if quarantine and checker.found.damage:
                write_quarantine(storage, checker.directory, checker.known)
    return report


def log_bytes(storage: Storage) -> int:
    """How much check_log will read."""
    folders = [
        partition_directory(topic.name, number)
        for topic, deleting in load_topics(storage, {})
        for number in range(0 if deleting else topic.partitions)
    ]
    return sum(
        storage.size(f"{folder}/{name}") for folder in folders for name in storage.list(folder) if name.endswith(".log")
    )


def _orphans(storage: Storage, topics: Sequence[Topic]) -> list[str]:
    owned = {partition_directory(topic.name, number) for topic in topics for number in range(topic.partitions)}
    folders = [name for name in storage.list("") if storage.is_directory(name) and name not in owned]
    return [name for name in folders if any(file.endswith(".log") for file in storage.list(name))]


class _PartitionChecker:
    def __init__(self, storage: Storage, topic: str, number: int, progress: Progress) -> None:
        self._storage, self._progress = storage, progress
        self.directory = partition_directory(topic, number)
        self.known = read_quarantine(storage, self.directory)
        self.found = PartitionReport(topic, number)
        checkpoint = read_checkpoint(storage, self.directory)
        self._never_compacted_from = None if checkpoint is None else checkpoint.segment
        self._checkpoint = checkpoint or Checkpoint()
        self.found.start_offset = self._checkpoint.start_offset
        self._synced_offset = self._checkpoint.recovery_offset
        if storage.exists(f"{self.directory}/durable"):
            self._synced_offset = max(self._synced_offset, DurableWitness.open(storage, self.directory).claimed())

    def check(self) -> PartitionReport:
        names = [name.removesuffix(".log") for name in self._storage.list(self.directory) if name.endswith(".log")]
        bases = sorted(int(name) for name in names if name.isdigit())
        for place, base in enumerate(bases):
            following = bases[place + 1] if place + 1 < len(bases) else None
            self._check_segment(base, following)
        self.found.quarantined = [damage for ranges in self.known.values() for damage in ranges]
        self.found.quarantined = [damage for damage in self.found.quarantined if damage not in self.found.damage]
        return self.found

    def _check_segment(self, base: int, following: int | None) -> None:
        path = Segment(self._storage, self.directory, base).log_path
        segment = Segment(self._storage, self.directory, base, size=self._storage.size(path))
        segment.damage = tuple(self.known.get(base, ()))
        batches = self._read(segment, following)
        self.found.segments += 1
        self.found.bytes += segment.size
        self.found.batches += len(batches)
        self.found.records += sum(batch.header.record_count for batch in batches)
        if batches:
            self.found.end_offset = batches[-1].header.next_offset
        if following is not None:
            self._check_indexes(segment, batches)

    def _read(self, segment: Segment, following: int | None) -> list[BatchAt]:
        end = following if following is not None else 2**63 - 1
        contiguous = self._never_compacted_from is not None and segment.base_offset >= self._never_compacted_from
        position, expected = 0, Expectation(segment.base_offset, contiguous, end_offset=end)
        batches: list[BatchAt] = []
        while True:
            for batch in whole_batches(segment.file, position, size=segment.size, expected=expected):
                batches.append(batch)
                self._progress(batch.header.size)
                position = batch.position + batch.header.size
                expected = expected._replace(offset=batch.header.next_offset)
            if position >= segment.size:
                return batches
            damage = next((known for known in segment.damage if known.position == position), None)
            if damage is None and following is None and expected.offset >= self._synced_offset:
                self.found.unacknowledged_bytes = segment.size - position
                return batches
            damage = damage or self._note_damage(segment, position, expected)
            position, expected = damage.end_position, expected._replace(offset=damage.end_offset)

    def _note_damage(self, segment: Segment, position: int, expected: Expectation) -> Damage:
        damage = damage_at(
            segment.file, position, size=segment.size, expected=expected, synced_offset=self._synced_offset
        )
        self.found.damage.append(damage)
        self.known.setdefault(segment.base_offset, []).append(damage)
        return damage

    def _check_indexes(self, segment: Segment, batches: Sequence[BatchAt]) -> None:
        try:
            offsets = OffsetIndex.from_bytes(read_whole(self._storage, segment.index_path))
            times = TimeIndex.from_bytes(read_whole(self._storage, segment.time_index_path))
        except FileNotFoundError:
            self.found.index_errors.append(f"{segment.index_path} or its time index is missing; a start makes it anew")
            return
        damaged = self.known.get(segment.base_offset, [])
        positions = {batch.header.last_offset - segment.base_offset: batch.position for batch in batches}
        for relative, position in offsets.entries:
            hidden = any(damage.position <= position < damage.end_position for damage in damaged)
            if not hidden and positions.get(relative) != position:
                self.found.index_errors.append(f"{segment.index_path}: offset +{relative} is not at byte {position}")
        if not damaged:
            self._check_times(segment, times, batches)

    def _check_times(self, segment: Segment, times: TimeIndex, batches: Sequence[BatchAt]) -> None:
        largest_until: dict[int, int] = {}
        largest = -(2**63)
        for batch in batches:
            largest = max(largest, batch.header.max_timestamp)
            largest_until[batch.header.last_offset - segment.base_offset] = largest
        for timestamp, relative in times.entries:
            if largest_until.get(relative) != timestamp:
                self.found.index_errors.append(f"{segment.time_index_path}: {timestamp} is not the time at +{relative}")
        if batches and (not times.entries or times.entries[-1][0] != largest):
            self.found.index_errors.append(f"{segment.time_index_path}: it does not end with {largest}")
