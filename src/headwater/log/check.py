"""Read everything and compare: checksums, order of offsets, indexes, manifests, small files, and what is in quarantine.

Works on the files of a log that no node has open. It changes nothing, with one exception on request: damage it found is
put on the quarantine list, so that readers step over it from the next start on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from headwater.errors import ArchiveUnavailable, DamagedFile
from headwater.log.archive import GIVEN_UP
from headwater.log.archive_manifest import ArchiveEntry, State, read_manifest
from headwater.log.archive_store import FOLDER, FolderStore
from headwater.log.checkpoint import Checkpoint, DurableWitness, read_checkpoint
from headwater.log.compaction import CLEANING
from headwater.log.identity import NAME as IDENTITY
from headwater.log.lost_manifest import lost_gaps
from headwater.log.manifest import Gap, Manifest
from headwater.log.offset_index import OffsetIndex
from headwater.log.quarantine import read_quarantine, write_quarantine
from headwater.log.readable_partition import LEADER_EPOCH
from headwater.log.scan import WINDOW_BYTES, Expectation, checksum_of, damage_at, whole_batches
from headwater.log.segment import BatchAt, Damage, Segment
from headwater.log.segment_swap import NAME as SWAP
from headwater.log.segment_swap import problems_of_swap
from headwater.log.storage import Storage, problems_of, read_small_file, read_whole
from headwater.log.time_index import Entries, TimeIndex, index_ends, synced_entries
from headwater.log.topic import FoundTopic, Topic, load_topics, partition_directory, raise_if_partition_lost

Progress = Callable[[int], None]  # receives the bytes read since the last call


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
    """A torn end that was never acknowledged: the next start truncates it."""
    quarantined: list[Damage] = field(default_factory=list)
    """Damage that was known before."""
    damage: list[Damage] = field(default_factory=list)
    """Damage found now."""
    index_errors: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    """Offsets whose segments are missing."""
    unread_archived: int = 0
    """Archived segments that are not beside the log: elsewhere, or deleted. They were not read."""
    problems: list[str] = field(default_factory=list)
    """Sentences about other files of the partition, each of which names the file."""

    @property
    def sound(self) -> bool:
        return not (self.damage or self.index_errors or self.gaps or self.problems)


@dataclass
class Report:
    partitions: list[PartitionReport] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    """Folders that look like partitions of a topic that does not exist: never touched."""
    problems: list[str] = field(default_factory=list)
    """Sentences about files of the log and of its topics, each of which names the file."""

    @property
    def sound(self) -> bool:
        return not self.problems and all(partition.sound for partition in self.partitions)


def check_log(storage: Storage, *, quarantine: bool = False, progress: Progress = lambda _: None) -> Report:
    """Check every partition. With `quarantine`, damage found is recorded, so that the next start steps over it."""
    found = load_topics(storage, {})
    topics = [one.topic for one in found if one.topic is not None and not one.deleting]
    report = Report(orphans=_orphans(storage, found), problems=_problems(storage, found))
    for topic in topics:
        for number in range(topic.partitions):
            checker = _PartitionChecker(storage, topic, number, progress)
            report.partitions.append(checker.check())
            if quarantine and checker.found.damage:
                write_quarantine(storage, checker.directory, checker.known)
    return report


def log_bytes(storage: Storage) -> int:
    """How much check_log will read."""
    folders = [
        partition_directory(found.topic.name, number)
        for found in load_topics(storage, {})
        if found.topic is not None and not found.deleting
        for number in range(found.topic.partitions)
    ]
    return sum(
        storage.size(f"{folder}/{name}") for folder in folders for name in storage.list(folder) if name.endswith(".log")
    )


def _problems(storage: Storage, found: Sequence[FoundTopic]) -> list[str]:
    identity = problems_of(storage, IDENTITY)
    if not identity and not storage.exists(IDENTITY) and found:
        identity = [f"{IDENTITY} is missing"]
    topics = [problem for one in found for problem in one.problems]
    offline = [f'topic "{one.name}" is offline: {one.damage}' for one in found if one.topic is None]
    offline += [f'topic "{one.name}" is offline: {lost}' for one in found for lost in _lost_partitions(storage, one)]
    return [*identity, *topics, *offline, *problems_of(storage, GIVEN_UP)]


def _lost_partitions(storage: Storage, found: FoundTopic) -> list[str]:
    lost = []
    if found.topic is not None and not found.deleting:
        for number in range(found.topic.partitions):
            try:
                raise_if_partition_lost(storage, found.topic, number)
            except DamagedFile as error:
                lost.append(error.summary)
    return lost


def _orphans(storage: Storage, found: Sequence[FoundTopic]) -> list[str]:
    topics: list[Topic] = [one.topic for one in found if one.topic is not None]
    owned = {partition_directory(topic.name, number) for topic in topics for number in range(topic.partitions)}
    offline = {one.name for one in found if one.topic is None}
    folders = [name for name in storage.list("") if storage.is_directory(name) and name not in owned]
    folders = [name for name in folders if name.rpartition("-")[0] not in offline]
    # The folders of other parts may hold files of that ending, too: flows, postgresql.
    folders = [name for name in folders if name.rpartition("-")[2].isdecimal()]
    return [name for name in folders if any(file.endswith(".log") for file in storage.list(name))]


class _PartitionChecker:
    def __init__(self, storage: Storage, topic: Topic, number: int, progress: Progress) -> None:
        self._storage, self._progress = storage, progress
        self.directory = partition_directory(topic.name, number)
        self._topic_folder = f"{topic.name}-{topic.id}"
        self.found = PartitionReport(topic.name, number)
        say = self.found.problems.append
        self.known = read_quarantine(storage, self.directory, say)
        checkpoint = read_checkpoint(storage, self.directory, say)
        if checkpoint is None and not self.found.problems and storage.exists(f"{self.directory}/durable"):
            say(f"{self.directory}/checkpoint is missing; the next start reads the partition again")
        self._manifest = Manifest.read(storage, self.directory, say)
        below = None if checkpoint is None else checkpoint.segment
        self._manifest.believed_for(version=checkpoint.manifest if checkpoint else 0, below=below, say=say)
        self.found.problems += problems_of_swap(storage, self.directory)
        self.found.problems += problems_of(storage, f"{self.directory}/{CLEANING}")
        self._archived = self._archived_entries()
        self._ends: dict[int, int] = {}
        self._never_compacted_from = None if checkpoint is None else checkpoint.segment
        self._checkpoint = checkpoint or Checkpoint()
        self.found.start_offset = self._checkpoint.start_offset
        self._synced_offset = self._checkpoint.recovery_offset
        if storage.exists(f"{self.directory}/durable"):
            self._synced_offset = max(self._synced_offset, self._witnessed())

    def _witnessed(self) -> int:
        try:
            return DurableWitness.open(self._storage, self.directory).claimed()
        except OSError as error:
            self.found.problems.append(f"{self.directory}/durable cannot be read: {error.strerror}")
            return 0

    def check(self) -> PartitionReport:
        names = [name.removesuffix(".log") for name in self._storage.list(self.directory) if name.endswith(".log")]
        bases = sorted(int(name) for name in names if name.isdigit())
        gaps = self._manifest.gaps(bases, self._archived, start_offset=self._checkpoint.start_offset)
        self.found.gaps = [] if self._swap_under_way() else gaps + self._gap_at_checkpoint(bases)
        for index, base in enumerate(bases):
            following = bases[index + 1] if index + 1 < len(bases) else None
            self._ends[base] = following or base  # unless it can be read
            try:
                self._check_segment(base, following)
            except OSError as error:
                self.found.problems.append(f"{self._log_path(base)} cannot be read: {error.strerror}")
        if self._manifest.is_lost and not self._swap_under_way():
            self.found.gaps += self._gaps_without_manifest()
        self._check_archive()
        self._check_end(bases)
        self.found.quarantined = [damage for ranges in self.known.values() for damage in ranges]
        self.found.quarantined = [damage for damage in self.found.quarantined if damage not in self.found.damage]
        return self.found

    def _gaps_without_manifest(self) -> list[Gap]:
        archived = {base: entry.next_offset for base, entry in self._archived.items()}
        return lost_gaps(
            self.directory, self._storage.list(self.directory), start_offset=self._checkpoint.start_offset,
            ends=self._ends, archived=archived, known=self.found.gaps,
        )  # fmt: skip

    def _gap_at_checkpoint(self, bases: Sequence[int]) -> list[Gap]:
        """The segment that was active at the checkpoint is in no manifest."""
        noted, later = self._checkpoint.segment, [base for base in bases if base > self._checkpoint.segment]
        if not self._checkpoint.position or not later or noted in bases or noted in self._archived:
            return []
        gap = Gap(max(noted, self._checkpoint.start_offset), later[0], f"{self._log_path(noted)} is missing")
        return [gap] if gap.first_offset < gap.end_offset else []

    def _check_end(self, bases: Sequence[int]) -> None:
        """All below what was synced must be there, or known to be damaged."""
        ends = [damage.end_offset for ranges in self.known.values() for damage in ranges]
        ends += [entry.next_offset for entry in self._archived.values()]
        reached = max([self.found.end_offset, self.found.start_offset, *bases[-1:], *ends])
        if reached < self._synced_offset:
            where = self._log_path(bases[-1]) if bases else f"{self.directory} has no segment"
            self.found.gaps.append(Gap(reached, self._synced_offset, f"the log ends before them ({where})"))

    def _log_path(self, base: int) -> str:
        return Segment(self._storage, self.directory, base).log_path

    def _swap_under_way(self) -> bool:
        """Whether the next start replaces segments: until then, those that were replaced may be there or not."""
        return self._storage.exists(f"{self.directory}/{SWAP}")

    def _archived_entries(self) -> Mapping[int, ArchiveEntry]:
        try:
            entries = read_manifest(self._storage, self.directory, self.found.problems.append)
        except DamagedFile as error:
            self.found.problems.append(error.summary)
            return {}
        return {base: entry for base, entry in entries.items() if entry.state is State.ARCHIVED}

    def _check_archive(self) -> None:
        """Compare archived segments with their checksums, where the archive is the folder beside the log."""
        cluster = self._cluster_id() if self._archived else ""
        if not self._archived or not self._storage.is_directory(FOLDER) or not cluster:
            self.found.unread_archived = len(self._archived)
            return
        store = FolderStore(self._storage, FOLDER)
        folder = f"{cluster}/{self._topic_folder}/{self.found.partition}"
        for base, entry in self._archived.items():
            name = Segment(self._storage, folder, base).log_path
            try:
                sound = store.size(name) == entry.size and self._checksum(store, name, entry.size) == entry.crc32c
            except ArchiveUnavailable as error:
                self.found.problems.append(str(error))
                continue
            if not sound:
                self.found.problems.append(f"{FOLDER}/{name} is not what was archived")
            whole = self._archived_indexes_are_whole(store, name.removesuffix(".log"), entry)
            if sound and whole:
                segment = Segment(self._storage, f"{FOLDER}/{folder}", base, size=entry.size)
                self._check_indexes(segment, self._batches_of(segment), sealed=True)

    def _cluster_id(self) -> str:
        """As the log says, or the partition itself if that is lost; that it is lost is said elsewhere."""
        try:
            return str(read_small_file(self._storage, IDENTITY).content["cluster_id"])
        except (DamagedFile, OSError, KeyError, TypeError):
            return self._checkpoint.cluster_id

    def _batches_of(self, segment: Segment) -> list[BatchAt]:
        expected = Expectation(segment.base_offset, contiguous=False, end_offset=2**63 - 1)
        return list(whole_batches(segment.file, 0, size=segment.size, expected=expected))

    def _archived_indexes_are_whole(self, store: FolderStore, stem: str, entry: ArchiveEntry) -> bool:
        whole = True
        for name, size in ((f"{stem}.index", entry.index_size), (f"{stem}.timeindex", entry.time_index_size)):
            try:
                found = f"has {store.size(name)} bytes instead of {size}" if store.size(name) != size else ""
                store.read(name, 0, size)
            except (ArchiveUnavailable, OSError) as error:
                found = f"cannot be read: {error}"
            if found:
                self.found.problems.append(f"{FOLDER}/{name} {found}; readers do without it")
                whole = False
        return whole

    def _checksum(self, store: FolderStore, name: str, size: int) -> int:
        checksum = 0
        for position in range(0, size, WINDOW_BYTES):
            checksum = crc32c(store.read(name, position, min(WINDOW_BYTES, size - position)), checksum)
        return checksum

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
        damaged = [damage.end_offset for damage in self.known.get(base, ())]
        self._ends[base] = max([base, *damaged, *(batch.header.next_offset for batch in batches[-1:])])
        self._check_epochs(segment, batches)
        self._check_indexes(segment, batches, sealed=following is not None)
        self._check_manifest(segment, batches)

    def _check_epochs(self, segment: Segment, batches: Sequence[BatchAt]) -> None:
        """Of all fields of a batch, only its offset and this one are outside of its checksum."""
        wrong = [batch.header for batch in batches if batch.header.leader_epoch != LEADER_EPOCH]
        if wrong:
            where = f"{segment.log_path}: the batch at offset {wrong[0].base_offset}"
            self.found.problems.append(f"{where} has leader epoch {wrong[0].leader_epoch} instead of {LEADER_EPOCH}")

    def _check_manifest(self, segment: Segment, batches: Sequence[BatchAt]) -> None:
        """A segment that ends with a whole batch may still be shorter than it was; its checksum says the rest."""
        row = self._manifest.segments.get(segment.base_offset)
        damaged = self.known.get(segment.base_offset, [])
        if row is None or damaged or self._swap_under_way():
            return
        if segment.size < row.size:
            reached = batches[-1].header.next_offset if batches else segment.base_offset
            damage = Damage(segment.size, segment.size, reached, row.next_offset)
            self.found.damage.append(damage)
            self.known.setdefault(segment.base_offset, []).append(damage)
        elif segment.size > row.size or row.crc32c not in (None, checksum_of(segment.file, segment.size)):
            self.found.problems.append(f"{segment.log_path} is not what was sealed: its checksum does not fit")

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

    def _check_indexes(self, segment: Segment, batches: Sequence[BatchAt], *, sealed: bool) -> None:
        """Of the active segment only what a start believes, and nothing has to be there: it is written now and then."""
        try:
            offsets = OffsetIndex.from_bytes(read_whole(self._storage, segment.index_path))
            times = TimeIndex.from_bytes(read_whole(self._storage, segment.time_index_path))
        except OSError as error:
            why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            if sealed or not isinstance(error, FileNotFoundError):
                say = f"{segment.index_path} or {segment.time_index_path} {why}; the next start rebuilds it"
                self.found.index_errors.append(say)
            return
        damaged = self.known.get(segment.base_offset, [])
        positions = {batch.header.last_offset - segment.base_offset: batch.position for batch in batches}
        bound = 2**63 if sealed else self._checkpoint.recovery_offset - segment.base_offset
        for relative, position in (entry for entry in offsets.entries if entry[0] < bound):
            hidden = any(damage.position <= position < damage.end_position for damage in damaged)
            if not hidden and positions.get(relative) != position:
                self.found.index_errors.append(f"{segment.index_path}: offset +{relative} is not at byte {position}")
        if not damaged:
            entries = [entry for entry in times.entries if entry[1] < bound]
            self._check_times(segment, TimeIndex(entries), batches, sealed=sealed)
            if segment.base_offset == self._checkpoint.segment and not sealed:
                self._check_ends(
                    segment, synced_entries(offsets.entries, 0, bound), synced_entries(times.entries, 1, bound)
                )

    def _check_ends(self, segment: Segment, offsets: Entries, times: Entries) -> None:
        noted = self._checkpoint.index_ends
        if noted is not None and index_ends(offsets, times) != noted:
            paths = f"{segment.index_path} or {segment.time_index_path}"
            self.found.index_errors.append(f"{paths} has lost entries; the next start rebuilds it")

    def _check_times(self, segment: Segment, times: TimeIndex, batches: Sequence[BatchAt], *, sealed: bool) -> None:
        largest_until: dict[int, int] = {}
        largest = -(2**63)
        for batch in batches:
            largest = max(largest, batch.header.max_timestamp)
            largest_until[batch.header.last_offset - segment.base_offset] = largest
        for timestamp, relative in times.entries:
            if largest_until.get(relative) != timestamp:
                self.found.index_errors.append(f"{segment.time_index_path}: {timestamp} is not the time at +{relative}")
        if sealed and batches and (not times.entries or times.entries[-1][0] != largest):
            self.found.index_errors.append(f"{segment.time_index_path}: it does not end with {largest}")
