"""Open a partition: trust what was checkpointed, read the rest, cut only what was never acknowledged.

What is found behind the last checkpoint is read batch by batch. The first batch that is not whole is one of two things:

* at or above what was synced (checkpoint.py says how that is known): the torn end of writes nobody was promised. It is
  cut off there. Later batches cannot have been promised either: a sync covers all that was written before it.
* below: damage to something that was promised. The damaged range is quarantined and reported; the search goes on
  behind it, and everything whole that is found stays readable. (Kafka cuts here too, and lets replicas repair it.)

Anything cut that holds whole batches is kept beside the log as `*.cut`, so that even a wrong verdict destroys nothing.
"""

import json
import logging
from dataclasses import dataclass, field

from headwater.log.batch_format import BatchHeader
from headwater.log.checkpoint import Checkpoint, DurableWitness, read_checkpoint
from headwater.log.offset_index import OffsetIndex
from headwater.log.scan import WINDOW_BYTES, Expectation, damage_at, next_whole_batch, whole_batches
from headwater.log.segment import Damage, Segment, segment_name
from headwater.log.storage import File, Storage, read_whole, replace_durably
from headwater.log.time_index import TimeIndex

logger = logging.getLogger("headwater.log")

CUT_KEPT_BYTES_MAX = 256 * 1024**2


@dataclass
class Opened:
    """A partition's files, ready to be used: the last segment is active, all others sealed."""

    segments: list[Segment]
    checkpoint: Checkpoint
    end_offset: int
    scanned_batches: list[BatchHeader] = field(default_factory=list)
    checkpoint_found: bool = True
    as_checkpointed: bool = False  # exactly what the checkpoint says, nothing more and nothing less
    report: list[str] = field(default_factory=list)


class Recovery:
    """One opening of one partition's directory."""

    def __init__(self, storage: Storage, directory: str, *, index_interval: int, archived_end: int) -> None:
        self._storage, self._directory = storage, directory
        self._archived_end = archived_end
        self._index_interval = index_interval
        self._found = read_checkpoint(storage, directory)
        self._checkpoint = self._found or Checkpoint()
        self._damage = read_quarantine(storage, directory)
        self._batches: list[BatchHeader] = []
        self._unsure: dict[Segment, int] = {}  # from which byte on a segment is not known to have been synced
        self._report: list[str] = []
        self._names_changed = False
        witness = DurableWitness.open(storage, directory)
        self._synced_offset = max(witness.claimed(), self._checkpoint.recovery_offset, archived_end)
        witness.close()

    def open(self) -> Opened:
        bases = self._segment_bases()
        segments: list[Segment] = []
        end_offset = max(self._checkpoint.start_offset, self._archived_end)
        for place, base in enumerate(bases):
            following = bases[place + 1] if place + 1 < len(bases) else None
            segment = Segment(self._storage, self._directory, base, size=self._size(base))
            segment.last_append_ms = self._storage.modified_ms(segment.log_path)
            segment.damage = tuple(self._damage.get(base, ()))
            segments.append(segment)
            if self._trusted(segment, following):
                continue
            end_offset, torn = self._read(segment, following)
            if torn:
                self._set_aside(bases[place + 1 :])
                break
            if following is not None:
                self._seal(segment)
        for segment, position in self._unsure.items():
            self._write_again(segment, position)
        end_offset = self._finish(segments, end_offset)
        opened = Opened(segments, self._checkpoint, end_offset, self._batches, report=self._report)
        opened.checkpoint_found = self._found is not None
        opened.as_checkpointed = self._as_checkpointed(segments[-1], end_offset)
        return opened

    def _as_checkpointed(self, last: Segment, end_offset: int) -> bool:
        reached = (last.base_offset, last.size, end_offset)
        noted = (self._checkpoint.segment, self._checkpoint.position, self._checkpoint.recovery_offset)
        return self._found is not None and reached == noted and not self._report and not self._names_changed

    def _finish(self, segments: list[Segment], end_offset: int) -> int:
        """Never give an offset out twice, even where promised records are gone."""
        outrun = end_offset < self._archived_end  # the newest files are lost, but the archive has more
        end_offset = max(end_offset, self._archived_end)
        if end_offset < self._synced_offset:
            self._say(f"offsets {end_offset} to {self._synced_offset - 1} were stored and are missing")
            end_offset = self._synced_offset
        if segments and outrun:
            self._seal(segments[-1])
        if not segments or outrun:
            segments.append(Segment.create(self._storage, self._directory, end_offset))
        return end_offset

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
        # A segment that was begun and given up again because the disk was full: nothing ever went into it.
        while len(bases) > 1 and bases[-1] > self._checkpoint.segment and not self._size(bases[-1]):
            self._delete(bases.pop())
        return bases

    def _delete(self, base: int) -> None:
        self._names_changed = True  # or a power cut brings the segment back, behind records written since
        for path in Segment(self._storage, self._directory, base).paths:
            self._storage.delete(path)

    def _size(self, base: int) -> int:
        return self._storage.size(f"{self._directory}/{segment_name(base)}.log")

    def _trusted(self, segment: Segment, following: int | None) -> bool:
        """Sealed before the checkpoint, indexes in place: nothing to read."""
        return (
            following is not None
            and self._found is not None
            and segment.base_offset < self._checkpoint.segment
            and self._storage.exists(segment.index_path)
            and self._storage.exists(segment.time_index_path)
        )

    # -- reading one segment ---------------------------------------------------------------------------------------

    def _read(self, segment: Segment, following: int | None) -> tuple[int, bool]:
        """Scan what is not covered by the checkpoint; answers the end offset and whether the end was torn off."""
        position, expected = self._starting_point(segment, following)
        while True:
            for batch in whole_batches(segment.file, position, size=segment.size, expected=expected):
                if batch.header.base_offset >= self._synced_offset:
                    self._unsure.setdefault(segment, batch.position)
                segment.note_batch(batch, index_interval=self._index_interval)
                segment.verified.add(batch.position, batch.position + batch.header.size)
                if batch.header.base_offset >= self._checkpoint.recovery_offset:
                    self._batches.append(batch.header)
                position = batch.position + batch.header.size
                expected = expected._replace(offset=batch.header.next_offset)
            if position >= segment.size:
                return expected.offset, self._stops_short(expected)
            known = next((d for d in segment.damage if d.position == position), None)
            if known is None and expected.offset >= self._synced_offset:
                self._cut(segment, position, expected)
                return expected.offset, True
            damage = known or self._quarantine(segment, position, expected)
            position, expected = damage.end_position, expected._replace(offset=damage.end_offset)

    def _stops_short(self, expected: Expectation) -> bool:
        """A segment whose last batches never reached the disk, although the next segment did."""
        missing = expected.contiguous and expected.offset < expected.end_offset < 2**63 - 1
        if missing and expected.offset < self._synced_offset:
            self._say(f"offsets {expected.offset} to {expected.end_offset - 1} were stored and are missing")
            return False
        return missing

    def _starting_point(self, segment: Segment, following: int | None) -> tuple[int, Expectation]:
        """Where to begin: the last indexed batch before the checkpoint if its word is good, else the very start."""
        end = following if following is not None else 2**63 - 1
        contiguous = self._found is not None and segment.base_offset >= self._checkpoint.segment
        if contiguous and segment.base_offset == self._checkpoint.segment and self._checkpoint.position <= segment.size:
            offsets, times = self._indexes_until_checkpoint(segment)
            if offsets.entries:
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
        # The files may have been written again, further, after this checkpoint and before its successor was in place:
        # what they hold beyond it is not synced, and may be zeros.
        kept_offsets = [entry for entry in _growing(offsets.entries) if entry[0] < bound]
        kept_times = [entry for entry in _growing(times.entries) if entry[1] < bound]
        return OffsetIndex(kept_offsets), TimeIndex(kept_times)

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
        segment.damage += (damage,)
        self._damage.setdefault(segment.base_offset, []).append(damage)
        write_quarantine(self._storage, self._directory, self._damage)
        first, last = damage.offsets
        self._say(f"offsets {first} to {last} are damaged and quarantined")
        return damage

    def _cut(self, segment: Segment, position: int, expected: Expectation) -> None:
        behind = next_whole_batch(segment.file, position, size=segment.size, expected=expected)
        lost = segment.size - position
        if behind is not None and lost <= CUT_KEPT_BYTES_MAX:
            self._keep_cut(f"{segment.log_path}.{position}.cut", segment.file.read_at(position, lost))
        segment.file.truncate(position)
        segment.size = position
        self._say(f"{lost} bytes behind offset {expected.offset}, never acknowledged, were cut off")

    def _keep_cut(self, path: str, piece: bytes) -> None:
        try:
            replace_durably(self._storage, path, piece)
        except OSError as error:
            self._storage.delete(path + ".new")
            self._say(f"what is cut off could not be kept: {error}")

    def _write_again(self, segment: Segment, position: int) -> None:
        """Have these bytes reach the disk. After a sync that failed they may be in memory only and count as written:

        reading shows them, the next sync does nothing for them, and the next power cut takes them. The same is true of
        the name of a file that is new since the last good sync, so that one is made anew.
        """
        if position > 0 or not self._made_anew(segment):
            _copy(segment, position, segment.file)
        self._storage.set_modified_ms(segment.log_path, segment.last_append_ms)

    def _made_anew(self, segment: Segment) -> bool:
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
        """Whole segments behind a torn one: never acknowledged, out of the way but not destroyed."""
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


def _growing(entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The entries up to the first that does not lie behind the one before it in both its numbers.

    >>> _growing([(4, 100), (9, 200), (0, 0), (19, 400)])
    [(4, 100), (9, 200)]
    """
    for place in range(1, len(entries)):
        (first, second), (next_first, next_second) = entries[place - 1 : place + 1]
        if next_first <= first or next_second <= second:
            return entries[:place]
    return entries


def open_partition(storage: Storage, directory: str, *, index_interval: int, archived_end: int = 0) -> Opened:
    """Bring a partition's files into order. All that it found is synced when it returns, so it may be promised.

    Offsets below `archived_end` have been given out, whatever the files say: they are in the archive.
    """
    finish_swap(storage, directory)
    opened = Recovery(storage, directory, index_interval=index_interval, archived_end=archived_end).open()
    if opened.as_checkpointed:
        return opened  # all of it was synced before the checkpoint was written
    for segment in opened.segments:
        if segment.base_offset >= opened.checkpoint.segment:
            segment.file.sync()
    storage.sync_directory(directory)
    return opened


# -- quarantine list -------------------------------------------------------------------------------------------------


def read_quarantine(storage: Storage, directory: str) -> dict[int, list[Damage]]:
    """Damaged ranges by the base offset of their segment."""
    try:
        rows = json.loads(read_whole(storage, f"{directory}/quarantine.json"))
        return {int(base): [Damage._make(row) for row in damage] for base, damage in rows.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def write_quarantine(storage: Storage, directory: str, damage: dict[int, list[Damage]]) -> None:
    rows = {str(base): [list(row) for row in ranges] for base, ranges in damage.items() if ranges}
    replace_durably(storage, f"{directory}/quarantine.json", json.dumps(rows).encode())


def add_to_quarantine(storage: Storage, directory: str, base_offset: int, damage: Damage) -> None:
    known = read_quarantine(storage, directory)
    known.setdefault(base_offset, []).append(damage)
    write_quarantine(storage, directory, known)


# -- replacing segments ----------------------------------------------------------------------------------------------


def begin_swap(storage: Storage, directory: str, *, replaced: list[int], replacement: int) -> None:
    """Promise to put `<replacement>.*.cleaned` (written and synced) in the place of the replaced segments.

    From here on the change happens, whatever crashes: finish_swap runs now, or at the next opening.
    """
    # The names of the replacement come first: a promise that survives without them would only delete.
    storage.sync_directory(directory)
    journal = {"replaced": replaced, "replacement": replacement}
    replace_durably(storage, f"{directory}/swap.json", json.dumps(journal).encode())


def finish_swap(storage: Storage, directory: str) -> None:
    """Carry out the swap that was promised, from whatever point it had reached."""
    journal_path = f"{directory}/swap.json"
    if not storage.exists(journal_path):
        return
    journal = json.loads(read_whole(storage, journal_path))
    replacement = Segment(storage, directory, journal["replacement"])
    for base in journal["replaced"]:
        old = Segment(storage, directory, base)
        # Indexes first: a log file without them is read again, one with the wrong ones would mislead.
        for path in (old.index_path, old.time_index_path):
            if base != replacement.base_offset or storage.exists(path + ".cleaned"):
                storage.delete(path)
        if base != replacement.base_offset:
            storage.delete(old.log_path)
    storage.sync_directory(directory)
    for path in replacement.paths:
        if storage.exists(path + ".cleaned"):
            storage.rename(path + ".cleaned", path)
    storage.sync_directory(directory)
    storage.delete(journal_path)
    storage.sync_directory(directory)
