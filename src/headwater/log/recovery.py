"""Open a partition: trust what was checkpointed, read the rest, cut only what was never acknowledged.

Recovery reads the log after the last checkpoint batch by batch. The first batch that is not whole is one of two things:

* at or above what was synced (checkpoint.py says how that is known): the torn end of writes that were never
  acknowledged. It is cut off there. Later batches cannot have been promised either: a sync covers all that was written
  before it.
* below: damage to acknowledged records. The damaged range is quarantined and reported; the search continues
  after it, and every whole batch it finds stays readable. (Kafka cuts here too, and lets replicas repair it.)

Segments that were sealed before the checkpoint are not read: the manifest (manifest.py) knows them and their sizes. One
that is missing is a gap, which is reported and stepped over; one that has another size is read, as if it were new. If
the manifest itself is lost, everything is read, and what is missing is found by what is left (lost_manifest.py).

Anything cut that holds whole batches is kept beside the log as `*.cut`, so that even a wrong verdict destroys nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.log.batch_format import BatchHeader
from headwater.log.checkpoint import Checkpoint, DurableWitness, read_checkpoint
from headwater.log.lost_manifest import lost_gaps
from headwater.log.manifest import UNKNOWN, Gap, Manifest, SealedSegment
from headwater.log.offset_index import OffsetIndex
from headwater.log.quarantine import read_quarantine, write_quarantine
from headwater.log.scan import WINDOW_BYTES, Expectation, damage_at, next_whole_batch, whole_batches
from headwater.log.segment import BatchAt, Damage, Segment, segment_name
from headwater.log.segment_swap import finish_swap
from headwater.log.storage import File, Storage, read_whole, recover_small_file, replace_durably
from headwater.log.time_index import TimeIndex, index_ends, synced_entries
from headwater.log.transactions.aborted_index import AbortedIndex
from headwater.log.transactions.markers import Marker, read_marker

logger = logging.getLogger("headwater.log")

CUT_KEPT_BYTES_MAX = 256 * 1024**2


@dataclass
class Opened:
    """A partition's files, ready to be used: the last segment is active, all others sealed."""

    segments: list[Segment]
    checkpoint: Checkpoint
    end_offset: int
    manifest: Manifest
    transactions: AbortedIndex
    scanned_batches: list[BatchHeader] = field(default_factory=list)
    scanned_markers: dict[int, Marker] = field(default_factory=dict)
    """By their offsets."""
    checkpoint_found: bool = True
    as_checkpointed: bool = False  # exactly what the checkpoint says, nothing more and nothing less
    report: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    """Offsets that readers step over because their segments are missing; damaged ones are noted in their segments."""


class Recovery:
    """One opening of one partition's directory."""

    def __init__(self, storage: Storage, directory: str, *, index_interval: int, archived: Mapping[int, int]) -> None:
        self._storage, self._directory = storage, directory
        self._report: list[str] = []
        self._archived, self._archived_end = archived, max(archived.values(), default=0)
        self._index_interval = index_interval
        self._manifest = Manifest.read(storage, directory, self._say, read=recover_small_file)
        finish_swap(storage, directory, self._manifest)
        self._found = read_checkpoint(storage, directory, self._say, read=recover_small_file)
        self._checkpoint = self._found or Checkpoint(start_offset=self._manifest.start_offset)
        below = self._found.segment if self._found else None
        self._manifest.believed_for(version=self._checkpoint.manifest, below=below, say=self._say)
        self._damage = read_quarantine(storage, directory, self._say, read=recover_small_file)
        self._transactions = AbortedIndex.read(
            storage, directory, version=self._checkpoint.transactions, say=self._say, read=recover_small_file
        )
        self._batches: list[BatchHeader] = []
        self._markers: dict[int, Marker] = {}
        self._ends: dict[int, int] = {}  # end offsets of the segments that were read
        self._names = storage.list(directory)
        self._unsure: dict[Segment, int] = {}  # from which byte on a segment is not known to have been synced
        self._names_changed = False
        self._lost_now: list[Gap] = []
        witness = DurableWitness.open(storage, directory)
        self._synced_offset = max(witness.claimed(), self._checkpoint.recovery_offset, self._archived_end)
        witness.close()

    def open(self) -> Opened:
        bases = self._segment_bases()
        gaps = self._gaps(bases)
        segments: list[Segment] = []
        end_offset = max(self._checkpoint.start_offset, self._archived_end)
        for index, base in enumerate(bases):
            following = bases[index + 1] if index + 1 < len(bases) else None
            segment = Segment(self._storage, self._directory, base, size=self._size(base))
            segment.last_append_ms = self._storage.modified_ms(segment.log_path)
            segment.damage = tuple(self._damage.get(base, ()))
            segments.append(segment)
            if self._trusted(segment, following):
                continue
            end_offset, torn = self._read(segment, following)
            self._ends[base] = end_offset
            if torn:
                self._set_aside(bases[index + 1 :])
                break
            if following is not None:
                self._seal(segment)
                self._manifest.measure_indexes(segment)
        for segment, position in self._unsure.items():
            self._write_again(segment, position)
        if self._manifest.is_lost:
            self._lose_without_manifest()
        end_offset = self._finish(segments, end_offset)
        opened = Opened(segments, self._checkpoint, end_offset, self._manifest, self._transactions, self._batches)
        opened.scanned_markers, opened.report = self._markers, self._report
        opened.gaps = gaps + [gap for gap in self._lost_now if gap.end_offset > self._checkpoint.start_offset]
        opened.checkpoint_found = self._found is not None
        opened.as_checkpointed = self._as_checkpointed(segments[-1], end_offset)
        return opened

    def _as_checkpointed(self, last: Segment, end_offset: int) -> bool:
        reached = (last.base_offset, last.size, end_offset)
        noted = (self._checkpoint.segment, self._checkpoint.position, self._checkpoint.recovery_offset)
        return self._found is not None and reached == noted and not self._report and not self._names_changed

    def _finish(self, segments: list[Segment], end_offset: int) -> int:
        """Never assign an offset twice, even where acknowledged records are lost."""
        outrun = end_offset < self._archived_end  # the newest files are lost, but the archive has more
        end_offset = max(end_offset, self._archived_end)
        if end_offset < self._synced_offset:
            self._lose(end_offset, self._synced_offset)
            end_offset = self._synced_offset
        if segments and outrun:
            self._seal(segments[-1])
        if not segments or outrun:
            segments.append(Segment.create(self._storage, self._directory, end_offset))
        return end_offset

    def _gaps(self, bases: list[int]) -> list[Gap]:
        start_offset = self._checkpoint.start_offset
        gaps = self._manifest.gaps(bases, self._archived, start_offset=start_offset)
        for gap in gaps:
            self._say(str(gap))
        # The segment that was active at the checkpoint is not in the manifest, and the later segments begin without it.
        noted, later = self._checkpoint.segment, [base for base in bases if base > self._checkpoint.segment]
        if self._checkpoint.position and later and noted not in bases and noted not in self._archived:
            self._lose(max(noted, start_offset), later[0], f"{self._directory}/{segment_name(noted)}.log is missing")
        return gaps

    def _lose_without_manifest(self) -> None:
        gaps = lost_gaps(
            self._directory, self._names, start_offset=self._checkpoint.start_offset, ends=self._ends,
            archived=self._archived, known=self._lost_now,
        )  # fmt: skip
        for gap in gaps:
            self._lose(*gap)

    def _lose(self, first: int, end: int, why: str = "") -> None:
        """Record a lost range permanently: the next checkpoint lies after it, so later starts would not find it."""
        if first < end:
            self._say(f"offsets {first} to {end - 1} were stored and are missing{f': {why}' if why else ''}")
            self._manifest.lost += ((first, end),)
            self._lost_now.append(Gap(first, end, why or "they were stored and are not there"))

    # -- which segments --------------------------------------------------------------------------------------------

    def _segment_bases(self) -> list[int]:
        """Segments there are, without leftovers and without those wholly below the start offset."""
        bases = []
        names = self._storage.list(self._directory)
        for name in names:
            stem, _, kind = name.rpartition(".")
            widowed = kind in ("index", "timeindex") and f"{stem}.log" not in names
            if kind == "log" and stem.isdigit():
                bases.append(int(stem))
            elif kind in ("new", "cleaned") or widowed:
                self._storage.delete(f"{self._directory}/{name}")
                self._names_changed = True
        while len(bases) > 1 and bases[1] <= self._checkpoint.start_offset:
            self._delete(bases.pop(0))
        bases = self._without_those_the_archive_has_whole(bases)
        # A segment that was begun and given up again because the disk was full: nothing ever went into it.
        while len(bases) > 1 and bases[-1] > self._checkpoint.segment and not self._size(bases[-1]):
            self._delete(bases.pop())
        return bases

    def _without_those_the_archive_has_whole(self, bases: list[int]) -> list[int]:
        """Local copies of archived segments that are not what was archived go: the archive's were compared with it."""
        kept = []
        for base in bases:
            row, size = self._manifest.segments.get(base), self._size(base)
            if base in self._archived and base != bases[-1] and row is not None and row.size != size:
                self._say(
                    f"{segment_name(base)}.log has {size} bytes instead of {row.size}; the archive's copy is used"
                )
                self._delete(base)
            else:
                kept.append(base)
        return kept

    def _delete(self, base: int) -> None:
        self._names_changed = True  # or a power cut brings the segment back, after records written since
        for path in Segment(self._storage, self._directory, base).paths:
            self._storage.delete(path)

    def _size(self, base: int) -> int:
        return self._storage.size(f"{self._directory}/{segment_name(base)}.log")

    def _trusted(self, segment: Segment, following: int | None) -> bool:
        """Sealed before the checkpoint, indexes in index: nothing to read."""
        if following is None or self._found is None or segment.base_offset >= self._checkpoint.segment:
            return False
        if self._manifest.is_lost:
            return False
        return self._as_sealed(segment) and self._indexes_as_sealed(segment)

    def _as_sealed(self, segment: Segment) -> bool:
        """Of the size it was sealed with, or what is missing of it was found before and is in quarantine."""
        row = self._manifest.segments.get(segment.base_offset)
        if row is None or row.size == segment.size:
            return True
        if (segment.size, row.next_offset) in [(one.end_position, one.end_offset) for one in segment.damage]:
            return True
        self._say(f"{segment.log_path} has {segment.size} bytes instead of {row.size}; it is read again")
        return False

    def _indexes_as_sealed(self, segment: Segment) -> bool:
        row = self._manifest.segments.get(segment.base_offset)
        wanted = (
            {} if row is None else {segment.index_path: row.index_size, segment.time_index_path: row.time_index_size}
        )
        for path in (segment.index_path, segment.time_index_path):
            size = self._storage.size(path) if self._storage.exists(path) else None
            if size is None or wanted.get(path, UNKNOWN) not in (UNKNOWN, size):
                found = "is missing" if size is None else f"has {size} bytes instead of {wanted[path]}"
                self._say(f"{path} {found}; it is made again")
                return False
        return True

    # -- reading one segment ---------------------------------------------------------------------------------------

    def _read(self, segment: Segment, following: int | None) -> tuple[int, bool]:
        """Scan what is not covered by the checkpoint; returns the end offset and whether the end was torn off."""
        position, expected = self._starting_point(segment, following)
        if (row := self._row_of_older_version(segment)) is not None:
            return row.next_offset, False
        while True:
            for batch in whole_batches(segment.file, position, size=segment.size, expected=expected):
                if batch.header.base_offset >= self._synced_offset:
                    self._unsure.setdefault(segment, batch.position)
                segment.note_batch(batch, index_interval=self._index_interval)
                segment.verified.add(batch.position, batch.position + batch.header.size)
                if batch.header.base_offset >= self._checkpoint.recovery_offset:
                    self._note(segment, batch)
                position = batch.position + batch.header.size
                expected = expected._replace(offset=batch.header.next_offset)
            if position >= segment.size:
                self._note_cut_off(segment, expected)
                return expected.offset, self._stops_short(expected)
            known = next((d for d in segment.damage if d.position == position), None)
            if known is None and expected.offset >= self._synced_offset:
                self._cut(segment, position, expected)
                return expected.offset, True
            damage = known or self._quarantine(segment, position, expected)
            position, expected = damage.end_position, expected._replace(offset=damage.end_offset)

    def _note(self, segment: Segment, batch: BatchAt) -> None:
        self._batches.append(batch.header)
        if batch.header.control and (marker := read_marker(batch.header, segment.read_batch(batch))) is not None:
            self._markers[batch.header.base_offset] = marker

    def _row_of_older_version(self, segment: Segment) -> SealedSegment | None:
        """Of a segment that is larger than it was sealed: as it was before compaction, with records that were deleted
        since. None of them may come back, so all of it goes into quarantine."""
        row = self._manifest.segments.get(segment.base_offset)
        if row is None or segment.size <= row.size:
            return None
        if not any(damage.end_position == segment.size for damage in segment.damage):
            self._note_damage(segment, Damage(0, segment.size, segment.base_offset, row.next_offset))
        return row

    def _note_cut_off(self, segment: Segment, expected: Expectation) -> None:
        """A sealed segment that ends with a whole batch, and is shorter than it was sealed: its end is missing."""
        row = self._manifest.segments.get(segment.base_offset)
        if row is None or segment.size >= row.size or expected.offset >= row.next_offset:
            return
        known = any(damage.end_offset == row.next_offset for damage in segment.damage)
        if not known:
            self._note_damage(segment, Damage(segment.size, segment.size, expected.offset, row.next_offset))

    def _stops_short(self, expected: Expectation) -> bool:
        """A segment whose last batches never reached the disk, although the next segment did."""
        missing = expected.contiguous and expected.offset < expected.end_offset < 2**63 - 1
        if missing and expected.offset < self._synced_offset:
            self._lose(expected.offset, expected.end_offset)
            return False
        return missing

    def _starting_point(self, segment: Segment, following: int | None) -> tuple[int, Expectation]:
        """Where to begin: the last indexed batch before the checkpoint if its word is good, else the very start."""
        end = following if following is not None else 2**63 - 1
        row = self._manifest.segments.get(segment.base_offset)
        end = end if row is None else min(end, row.next_offset)
        contiguous = self._found is not None and segment.base_offset >= self._checkpoint.segment
        if contiguous and segment.base_offset == self._checkpoint.segment and self._checkpoint.position <= segment.size:
            offsets, times = self._indexes_until_checkpoint(segment)
            if offsets.entries and self._checkpoint.index_ends in (None, index_ends(offsets.entries, times.entries)):
                last_offset, position = offsets.entries[-1]
                anything = Expectation(segment.base_offset, contiguous=False, end_offset=end)
                batch = next(whole_batches(segment.file, position, size=segment.size, expected=anything), None)
                if batch is not None and batch.header.last_offset == segment.base_offset + last_offset:
                    segment.activate(offsets, times)
                    return position, Expectation(batch.header.base_offset, True, end)
        segment.activate(OffsetIndex(), TimeIndex())
        return 0, Expectation(segment.base_offset, contiguous, end)

    def _indexes_until_checkpoint(self, segment: Segment) -> tuple[OffsetIndex, TimeIndex]:
        try:
            offsets = OffsetIndex.from_bytes(read_whole(self._storage, segment.index_path))
            times = TimeIndex.from_bytes(read_whole(self._storage, segment.time_index_path))
        except FileNotFoundError:
            return OffsetIndex(), TimeIndex()
        bound = self._checkpoint.recovery_offset - segment.base_offset
        return OffsetIndex(synced_entries(offsets.entries, 0, bound)), TimeIndex(
            synced_entries(times.entries, 1, bound)
        )

    def _seal(self, segment: Segment) -> None:
        if segment.active:
            for file in segment.write_indexes():
                file.sync()
                file.close()
            segment.seal()

    # -- what is not whole -----------------------------------------------------------------------------------------

    def _quarantine(self, segment: Segment, position: int, expected: Expectation) -> Damage:
        damage = damage_at(
            segment.file, position, size=segment.size, expected=expected, synced_offset=self._synced_offset
        )
        self._note_damage(segment, damage)
        return damage

    def _note_damage(self, segment: Segment, damage: Damage) -> None:
        segment.damage += (damage,)
        self._damage.setdefault(segment.base_offset, []).append(damage)
        write_quarantine(self._storage, self._directory, self._damage)
        first, last = damage.offsets
        self._say(f"offsets {first} to {last} are damaged and quarantined")

    def _cut(self, segment: Segment, position: int, expected: Expectation) -> None:
        whole = next_whole_batch(segment.file, position, size=segment.size, expected=expected)
        lost = segment.size - position
        if whole is not None and lost <= CUT_KEPT_BYTES_MAX:
            self._keep_cut(f"{segment.log_path}.{position}.cut", segment.file.read_at(position, lost))
        segment.file.truncate(position)
        segment.size = position
        self._say(f"{lost} bytes after offset {expected.offset}, never acknowledged, were truncated")

    def _keep_cut(self, path: str, piece: bytes) -> None:
        try:
            replace_durably(self._storage, path, piece)
        except OSError as error:
            self._storage.delete(path + ".new")
            self._say(f"the truncated bytes could not be kept: {error}")

    def _write_again(self, segment: Segment, position: int) -> None:
        """Have these bytes reach the disk. After a sync that failed they may be in memory only and count as written:

        reading shows them, the next sync does nothing for them, and the next power cut takes them. The same is true of
        the name of a file that is new since the last good sync, so that file is created again.
        """
        if position > 0 or not self._created_again(segment):
            _copy(segment, position, segment.file)
        self._storage.set_modified_ms(segment.log_path, segment.last_append_ms)

    def _created_again(self, segment: Segment) -> bool:
        new_name = f"{segment.log_path}.new"
        try:
            copy = self._storage.open(new_name, create=True)
            _copy(segment, 0, copy)
            copy.sync()
        except OSError as error:
            self._storage.delete(new_name)
            self._say(f"a segment could not be copied, its name may not be safe from a power cut: {error}")
            return False
        self._storage.rename(new_name, segment.log_path)
        segment.release()
        return True

    def _set_aside(self, bases: list[int]) -> None:
        """Renames whole segments after a torn one: they were never acknowledged, and their files are kept."""
        for base in bases:
            segment = Segment(self._storage, self._directory, base)
            if self._storage.size(segment.log_path):
                self._storage.rename(segment.log_path, f"{segment.log_path}.cut")
            self._delete(base)

    def _say(self, sentence: str) -> None:
        self._report.append(sentence)
        logger.warning("%s: %s", self._directory, sentence)


def _copy(segment: Segment, position: int, target: File) -> None:
    for start in range(position, segment.size, WINDOW_BYTES):
        target.write_at(start, [segment.file.read_at(start, min(WINDOW_BYTES, segment.size - start))])


def open_partition(
    storage: Storage, directory: str, *, index_interval: int, archived: Mapping[int, int] | None = None
) -> Opened:
    """Bring a partition's files into order. All that it found is synced when it returns, so it may be promised.

    `archived` has the segments in the archive, base offset and next offset: these offsets have been given out, whatever
    the files say. DamagedFile if a file that it cannot do without is not what was written.
    """
    opened = Recovery(storage, directory, index_interval=index_interval, archived=archived or {}).open()
    if opened.as_checkpointed:
        return opened  # all of it was synced before the checkpoint was written
    for segment in opened.segments:
        if segment.base_offset >= opened.checkpoint.segment:
            segment.file.sync()
    storage.sync_directory(directory)
    return opened
