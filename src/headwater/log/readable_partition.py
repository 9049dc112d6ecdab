"""The read side of a partition: its end offsets, its records, and damaged ranges.

Reading takes no lock: it works on a snapshot (snapshot.py) that never changes.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from headwater.errors import DamagedRange, LogClosed, ReadFailed
from headwater.log.manifest import Gap
from headwater.log.progress import Progress
from headwater.log.quarantine import add_to_quarantine
from headwater.log.scan import find_damage
from headwater.log.segment import Damage, Segment
from headwater.log.snapshot import Slices, Snapshot, Suspect, TimeOffset
from headwater.log.storage import Storage
from headwater.log.transactions.open_transactions import Aborted, OpenTransactions
from headwater.record import TopicPartition
from headwater.settings import LogSettings

logger = logging.getLogger("headwater.log")

LEADER_EPOCH = 0
LOOKS_MAX = 3

Found = TypeVar("Found")


class ReadablePartition:
    """The reading half of a partition. Its other half (partition.py) opens it, and moves what it reads from."""

    def __init__(self, storage: Storage, topic_partition: TopicPartition, log_settings: LogSettings) -> None:
        self._storage, self._log_settings = storage, log_settings
        self.topic_partition = topic_partition
        self.directory = f"{topic_partition.topic}-{topic_partition.partition}"
        self._failure: str | None = None
        self._closed = False
        self._reshape_lock = threading.RLock()  # deleting or replacing sealed segments, one at a time
        self.segments: tuple[Segment, ...]
        self.start_offset: int
        self._progress: Progress
        self._gaps: Sequence[Gap] = ()
        self.transactions = OpenTransactions()

    # -- where it is -------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def number(self) -> int:
        return self.topic_partition.partition

    @property
    def leader_epoch(self) -> int:
        return LEADER_EPOCH

    @property
    def end_offset(self) -> int:
        return self._progress.end.offset

    @property
    def high_watermark(self) -> int:
        return self._progress.visible.offset

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided: as far as readers of committed records see."""
        high_watermark = self.high_watermark  # read first: a transaction that begins after it does not matter
        return max(self.transactions.stable_below(high_watermark), self.start_offset)

    @property
    def durable_end_offset(self) -> int:
        return self._progress.durable.offset

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches, on the local disk and in the archive together: what retention.bytes is about."""
        return sum(segment.size for segment in self.segments)

    @property
    def local_size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments if segment.local)

    @property
    def offline(self) -> bool:
        return self._failure is not None

    @property
    def why_offline(self) -> str:
        """ "" if it is not."""
        return self._failure or ""

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def unreadable(self) -> list[Gap]:
        """Ranges of offsets that readers step over: those of missing segments, and those in quarantine."""
        damage = [damage for segment in self.segments for damage in segment.damage]
        ranges = [*self._gaps, *(Gap(one.first_offset, one.end_offset, "damaged, in quarantine") for one in damage)]
        return sorted(gap for gap in ranges if gap.end_offset > self.start_offset)

    # -- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self, *, committed: bool = False) -> Snapshot:
        """Returns what readers can see now, as a value; cheap, and safe from any thread.

        With `committed`, what readers of committed records can see.
        """
        visible = self._progress.visible
        found = Snapshot(self.topic_partition, self.segments, visible, self.start_offset, self.end_offset)
        return found.until(self.transactions.stable_below(visible.offset)) if committed else found

    def aborted_between(self, first: int, end: int) -> list[Aborted]:
        """Aborted transactions that may have records in a range: to be asked after the range was read."""
        return self.transactions.aborted_between(first, end)

    def read(self, offset: int, *, bytes_max: int, committed: bool = False) -> Slices:
        """Batches from the one that holds `offset` on, at least one of them even if it is larger than `bytes_max`.

        The bytes are not read here, and the last batch may be cut short, as readers of this format expect. With
        `committed` they end at the last stable offset; those of aborted transactions are among them.
        """
        return self._look(lambda snapshot: snapshot.read(offset, bytes_max=bytes_max), committed=committed)

    def read_verified(self, offset: int, *, bytes_max: int, committed: bool = False) -> Slices:
        """Like read, but checksums not seen before are checked first: what is damaged is quarantined, not given away.

        Each byte is checked once in the life of a process. It may wait for the disk, where `read` hardly does.
        """
        while True:
            try:
                return self._look(
                    lambda snapshot: snapshot.read_verified(offset, bytes_max=bytes_max), committed=committed
                )
            except Suspect as suspect:
                if self.quarantine(suspect.offset) is None:
                    raise DamagedRange(self.topic, self.number, first=offset, end=offset + 1) from None

    def _look(self, look: Callable[[Snapshot], Found], *, committed: bool = False) -> Found:
        """Look again where a segment's files went, for good or to the archive, since the snapshot was taken."""
        for turn in range(LOOKS_MAX):
            try:
                found = look(self.snapshot(committed=committed))
                break
            except FileNotFoundError:
                if turn == LOOKS_MAX - 1 and not self._closed:
                    raise
            except OSError as error:
                raise ReadFailed(self.topic, self.number, str(error)) from None
        if self._closed:
            raise LogClosed  # what was found may belong to a new topic of the same name
        return found

    def quarantine(self, offset: int) -> Damage | None:
        """Look at the bytes where `offset` should be; if they are damaged, readers step over them from here on."""
        with self._reshape_lock:
            snapshot = self.snapshot()
            segment = snapshot.segments_from(offset)[0]
            size, end = snapshot.limit(segment), snapshot.end_of(segment)
            try:
                damage = find_damage(segment, offset, size=size, end_offset=end)
                if damage is None:
                    return None
                add_to_quarantine(self._storage, self.directory, segment.base_offset, damage)
            except OSError as error:
                raise ReadFailed(self.topic, self.number, str(error)) from None
            segment.damage += (damage,)
        logger.error("%s: offsets %d to %d are damaged and quarantined", self.directory, *damage.offsets)
        return damage

    def offset_for_time(self, time_ms: int) -> TimeOffset | None:
        """The first record at or after a time."""
        bytes_max = self._log_settings.decompressed_bytes_max
        return self._look(lambda snapshot: snapshot.offset_for_time(time_ms, bytes_max=bytes_max))

    def newest_timestamp(self) -> TimeOffset | None:
        """The record with the largest timestamp, the first of them if several have it."""
        bytes_max = self._log_settings.decompressed_bytes_max
        return self._look(lambda snapshot: snapshot.newest_timestamp(bytes_max=bytes_max))
