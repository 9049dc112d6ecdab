"""Sealed segments move to the archive, and stay readable through the same offsets.

    <archive>/<cluster id>/<topic>-<topic id>/<partition>/<base offset>.log  .index  .timeindex

A segment is copied once it is sealed and a checkpoint lies after it; it is read back and compared, written down in the
partition's manifest (archive_manifest.py), and only then may its local copy go, when local.retention.ms or
local.retention.bytes say so. Retention proper counts local and archived segments together.

Only the maintenance pass writes to the archive, or deletes there: no producer, consumer or administrator ever waits for
it. What they give up (records, a topic) is written down locally, and goes from the archive in the next pass. While the
archive cannot be reached, everything stays where it is.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from crc32c import crc32c

from headwater.clock import Clock
from headwater.errors import ArchiveUnavailable, DamagedFile, HeadwaterError, LogClosed, PartitionOffline
from headwater.log.archive_manifest import NAME as MANIFEST
from headwater.log.archive_manifest import ArchiveEntry, State, read_manifest, write_manifest
from headwater.log.archive_store import ArchiveStore, open_store
from headwater.log.archived_segment import ArchivedFile, ArchivedSegment, BlockCache
from headwater.log.quarantine import read_quarantine
from headwater.log.retention import SegmentInfo, evictable
from headwater.log.segment import Damage, Segment
from headwater.log.storage import File, Storage, read_small_file, recover_small_file, write_small_file
from headwater.log.topic import Topic, partition_directory
from headwater.record import TopicPartition
from headwater.small_file import copy_path

if TYPE_CHECKING:
    from headwater.log.partition import Partition

logger = logging.getLogger("headwater.log")

PIECE_BYTES = 4 * 1024**2
COPYING_MS_MAX = 30_000  # of one pass, after which other upkeep has its turn
GIVEN_UP = "archive-deleting.json"


class Archive:
    """The archive of one log."""

    def __init__(self, storage: Storage, url: str, *, cluster_id: str, clock: Clock) -> None:
        self._storage, self._clock = storage, clock
        self._cluster_id = cluster_id
        self.store: ArchiveStore = open_store(url, storage)
        self.blocks = BlockCache()
        self.stopping = threading.Event()
        self._turn = threading.Lock()
        self._given_up_lock = threading.Lock()

    def of_partition(self, topic: Topic, number: int) -> "PartitionArchive":
        return PartitionArchive(self, self._storage, TopicPartition(topic.name, number), self._topic_folder(topic))

    def _topic_folder(self, topic: Topic) -> str:
        return f"{self._cluster_id}/{topic.name}-{topic.id}"

    def stop(self) -> None:
        """End a copy that is under way, and make no more. A copy that was cut short is made again after a restart."""
        self.stopping.set()

    # -- topics that are no more -------------------------------------------------------------------------------------

    def give_up(self, topic: Topic) -> None:
        """Have all of a topic deleted from the archive, sooner or later. Call it before its local files go."""
        directories = [partition_directory(topic.name, number) for number in range(topic.partitions)]
        if not topic.id.int:
            logger.warning('the id of topic "%s" is lost: what the archive has of it stays there', topic.name)
        elif any(self._may_have_archived(directory) for directory in directories):
            self._change_given_up(fresh={self._topic_folder(topic)})

    def _may_have_archived(self, directory: str) -> bool:
        """Also if the folder of the partition is missing, as one of an offline topic may be: to have nothing deleted
        does no harm."""
        files = (f"{directory}/{MANIFEST}", copy_path(f"{directory}/{MANIFEST}"))
        return not self._storage.is_directory(directory) or any(map(self._storage.exists, files))

    def _change_given_up(self, *, fresh: Set[str] = frozenset(), finished: Set[str] = frozenset()) -> None:
        with self._given_up_lock:
            before = self._given_up()
            after = (before | fresh) - finished
            if after != before:
                write_small_file(self._storage, GIVEN_UP, sorted(after))

    def _given_up(self) -> frozenset[str]:
        try:
            return frozenset(map(str, read_small_file(self._storage, GIVEN_UP).content))
        except FileNotFoundError:
            return frozenset()
        except TypeError:
            raise DamagedFile(GIVEN_UP, "it is no list of folders") from None

    def _delete_given_up(self) -> None:
        for folder in sorted(self._given_up()):
            self.store.delete_folder(folder)
            self._change_given_up(finished={folder})

    # -- one pass ----------------------------------------------------------------------------------------------------

    def run(self, partitions: Sequence["Partition"], *, now_ms: int) -> None:
        """Delete what was given up, copy what is new, and let go of local copies that need not stay."""
        with self._turn:
            try:
                self._delete_given_up()
            except (HeadwaterError, OSError) as error:
                logger.warning("what was given up stays in the archive: %s", error)
            try:
                for partition in partitions:
                    _attempt(partition, _delete_forgotten)
                self._copy(partitions)
            except (HeadwaterError, OSError) as error:
                logger.warning("archiving waits for the next pass: %s", error)
            for partition in partitions:
                _attempt(partition, lambda partition: _evict(partition, now_ms))

    def _copy(self, partitions: Sequence["Partition"]) -> None:
        """One segment of each partition in turn, so that a long backlog of one does not keep the others waiting."""
        begun_ms = self._clock.elapsed_ms()
        waiting = deque(partitions)
        while waiting and not self.stopping.is_set() and self._clock.elapsed_ms() - begun_ms <= COPYING_MS_MAX:
            partition = waiting.popleft()
            if _attempt(partition, _copy_next):
                waiting.append(partition)


def _attempt(partition: "Partition", work: Callable[["Partition"], bool]) -> bool:
    """Work on one partition.

    A failure of its disk stops only this partition; a failure of the archive stops all of them.
    """
    if partition.closed or partition.offline:
        return False
    try:
        return work(partition)
    except ArchiveUnavailable:
        raise
    except LogClosed:
        return False
    except (HeadwaterError, OSError) as error:
        logger.warning("archiving of %s: %s", partition.directory, error)
        return False


def _delete_forgotten(partition: "Partition") -> bool:
    partition.archive.forget(below=partition.start_offset)
    return partition.archive.delete_forgotten()


def _copy_next(partition: "Partition") -> bool:
    """Copy the oldest segment that may go to the archive and is not there; False if there is none."""
    if not partition.settings.archived or partition.settings.remote_log_copy_disable:
        return False
    for segment, following in pairwise(partition.segments):
        # Before the checkpoint's segment: sealed for good. After a crash it cannot be found open again, and grow.
        settled = segment.local and segment.base_offset < partition.checkpointed_segment
        if following.base_offset > partition.last_stable_offset:
            return False  # a transaction is open
        if settled and not partition.archive.holds(segment):
            partition.archive.copy(segment, next_offset=following.base_offset)
            return True
    return False


def _evict(partition: "Partition", now_ms: int) -> bool:
    if not partition.settings.archived:
        return False
    local = partition.local_sealed_segments()
    held = list(takewhile(partition.archive.holds, local))
    infos = [SegmentInfo(segment.base_offset, segment.last_append_ms, segment.size) for segment in local]
    active = SegmentInfo(partition.segments[-1].base_offset, 0, partition.segments[-1].size)
    count = evictable(infos, active, partition.settings, now_ms=now_ms)
    if held[:count]:
        partition.evict([partition.archive.segment_like(segment) for segment in held[:count]])
    return bool(held[:count])


class PartitionArchive:
    """The archived segments of one partition.

    Only the maintenance pass copies and deletes; any thread may call the rest.
    """

    def __init__(self, archive: Archive, storage: Storage, topic_partition: TopicPartition, topic_folder: str) -> None:
        self._archive, self._storage, self._topic_partition = archive, storage, topic_partition
        self._directory = partition_directory(*topic_partition)
        self._folder = f"{topic_folder}/{topic_partition.partition}"
        self._lock = threading.Lock()
        self._closed = False
        self._entries: Mapping[int, ArchiveEntry] = read_manifest(
            storage, self._directory, _warn, read=recover_small_file
        )

    @property
    def empty(self) -> bool:
        return not self._entries

    @property
    def end_offset(self) -> int:
        """The first offset that is not in the archive."""
        return max(self.offsets.values(), default=0)

    @property
    def offsets(self) -> dict[int, int]:
        """Base offset and next offset of each segment that is in the archive."""
        return {entry.base_offset: entry.next_offset for entry in self._archived()}

    def _archived(self) -> list[ArchiveEntry]:
        return [entry for entry in self._entries.values() if entry.state is State.ARCHIVED]

    def holds(self, segment: Segment) -> bool:
        """Is there a verified copy of this segment? Then no other is made: the local one may have lost its end."""
        entry = self._entries.get(segment.base_offset)
        return entry is not None and entry.state is State.ARCHIVED

    def close(self) -> None:
        """After this nothing is written to the partition's folder any more."""
        with self._lock:
            self._closed = True

    # -- reading -----------------------------------------------------------------------------------------------------

    def segments_beside(self, local: Collection[Segment], *, start_offset: int) -> list[Segment]:
        """Segments that are only in the archive and have offsets that may be read."""
        bases = {segment.base_offset for segment in local}
        wanted = [
            entry for entry in self._archived() if entry.base_offset not in bases and entry.next_offset > start_offset
        ]
        damage = read_quarantine(self._storage, self._directory) if wanted else {}
        return [self._segment(entry, damage.get(entry.base_offset, ())) for entry in wanted]

    def segment_like(self, segment: Segment) -> Segment:
        """The archive's copy of a segment that it holds."""
        return self._segment(self._entries[segment.base_offset], segment.damage)

    def _segment(self, entry: ArchiveEntry, damage: Sequence[Damage]) -> Segment:
        segment = ArchivedSegment(self._storage, self._folder, entry, self._open)
        segment.damage = tuple(damage)
        return segment

    def _open(self, name: str, size: int) -> File:
        return ArchivedFile(self._archive.store, self._archive.blocks, name, size)

    # -- copying -----------------------------------------------------------------------------------------------------

    def copy(self, segment: Segment, *, next_offset: int) -> None:
        """Put a sealed segment into the archive, and write down that it is there once that is certain."""
        files = [self._storage.open(path) for path in segment.paths]
        sizes = [segment.size, *(file.size() for file in files[1:])]
        entry = _entry_for(segment, next_offset, sizes)
        with self._lock:
            # From here on, whatever happens, something is known to be there that may have to be deleted.
            self._save({**self._entries, entry.base_offset: entry})
        names = Segment(self._storage, self._folder, segment.base_offset).paths
        checksums = [self._upload(*one) for one in zip(names, files, sizes, strict=True)]
        with self._lock:
            # Unless its records were given up meanwhile: then it is as good as deleted.
            if self._entries.get(entry.base_offset) == entry:
                archived = replace(entry, state=State.ARCHIVED, crc32c=checksums[0])
                self._save({**self._entries, entry.base_offset: archived})

    def _upload(self, name: str, file: File, size: int) -> int:
        """Store one file and compare what the archive then has with what was sent. Returns the checksum."""
        store, checksum = self._archive.store, 0

        def pieces() -> Iterator[bytes]:
            nonlocal checksum
            for piece in self._pieces(file, size):
                checksum = crc32c(piece, checksum)
                yield piece

        store.put(name, pieces())
        if store.size(name) != size or self._checksum_there(name, size) != checksum:
            raise ArchiveUnavailable(name, "what it has is not what was sent")
        return checksum

    def _checksum_there(self, name: str, size: int) -> int:
        checksum = 0
        for position in range(0, size, PIECE_BYTES):
            self._raise_if_stopping()
            piece = self._archive.store.read(name, position, min(PIECE_BYTES, size - position))
            checksum = crc32c(piece, checksum)
        return checksum

    def _pieces(self, file: File, size: int) -> Iterator[bytes]:
        for position in range(0, size, PIECE_BYTES):
            self._raise_if_stopping()
            length = min(PIECE_BYTES, size - position)
            try:
                piece = file.read_at(position, length)
            except OSError as error:
                raise PartitionOffline(*self._topic_partition, f"a segment cannot be read: {error}") from error
            if len(piece) != length:
                raise PartitionOffline(*self._topic_partition, "a segment is shorter than it was")
            yield piece

    def _raise_if_stopping(self) -> None:
        if self._closed or self._archive.stopping.is_set():
            raise LogClosed

    # -- deleting ----------------------------------------------------------------------------------------------------

    def forget(self, *, below: int) -> None:
        """Give up segments that lie wholly below an offset; delete_forgotten deletes them."""
        with self._lock:
            forgotten = {
                entry.base_offset: replace(entry, state=State.DELETING)
                for entry in self._entries.values()
                if entry.next_offset <= below and entry.state is not State.DELETING
            }
            if forgotten:
                self._save({**self._entries, **forgotten})

    def delete_forgotten(self) -> bool:
        forgotten = [entry for entry in self._entries.values() if entry.state is State.DELETING]
        for entry in forgotten:
            for name in Segment(self._storage, self._folder, entry.base_offset).paths:
                self._archive.store.delete(name)
        if forgotten:
            expired = {entry.base_offset for entry in forgotten}
            with self._lock:
                self._save({base: entry for base, entry in self._entries.items() if base not in expired})
        return bool(forgotten)

    def _save(self, entries: Mapping[int, ArchiveEntry]) -> None:
        if self._closed:
            raise LogClosed
        if entries != self._entries:
            write_manifest(self._storage, self._directory, entries)
            self._entries = entries


def _warn(sentence: str) -> None:
    logger.warning("%s", sentence)


def _entry_for(segment: Segment, next_offset: int, sizes: Sequence[int]) -> ArchiveEntry:
    timestamp_ms, timestamp_offset = segment.largest_timestamp() or (-1, -1)
    size, index_size, time_index_size = sizes
    return ArchiveEntry(
        state=State.COPYING,
        base_offset=segment.base_offset,
        next_offset=next_offset,
        size=size,
        index_size=index_size,
        time_index_size=time_index_size,
        largest_timestamp_ms=timestamp_ms,
        largest_timestamp_offset=timestamp_offset,
        last_append_ms=segment.last_append_ms,
        crc32c=0,
    )
