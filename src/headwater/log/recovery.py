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
from headwater.log.scan import Expectation, next_whole_batch, whole_batches
from headwater.log.segment import Damage, Segment, segment_name
from headwater.log.storage import Storage, read_whole, replace_durably
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
    report: list[str] = field(default_factory=list)


class Recovery:
    """One opening of one partition's directory."""

    def __init__(self, storage: Storage, directory: str, *, index_interval: int) -> None:
        self._storage, self._directory = storage, directory
        self._index_interval = index_interval
        self._found = read_checkpoint(storage, directory)
        self._checkpoint = self._found or Checkpoint()
        self._damage = read_quarantine(storage, directory)
        self._batches: list[BatchHeader] = []
        self._report: list[str] = []
        witness = DurableWitness.open(storage, directory)
        self._synced_offset = max(witness.claimed(), self._checkpoint.recovery_offset)
        witness.close()

    def open(self) -> Opened:
        bases = self._segment_bases()
        segments: list[Segment] = []
        end_offset = self._checkpoint.start_offset
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
        end_offset = self._finish(segments, end_offset)
        return Opened(segments, self._checkpoint, end_offset, self._batches, self._report)

    def _finish(self, segments: list[Segment], end_offset: int) -> int:
        """Never give an offset out twice, even where promised records are gone."""
        if end_offset < self._synced_offset:
            self._say(f"offsets {end_offset} to {self._synced_offset - 1} were stored and are missing")
            end_offset = self._synced_offset
        if not segments:
            segments.append(Segment.create(self._storage, self._directory, end_offset))
        return end_offset

    # -- which segments --------------------------------------------------------------------------------------------

    def _segment_bases(self) -> list[int]:
        """Segments there are, without leftovers and without those wholly below the start offset."""
        bases = []
        for name in self._storage.list(self._directory):
            stem, _, kind = name.rpartition(".")
            if kind == "log" and stem.isdigit():
                bases.append(int(stem))
            elif kind in ("new", "cleaned"):
                self._storage.delete(f"{self._directory}/{name}")
        while len(bases) > 1 and bases[1] <= self._checkpoint.start_offset:
            self._delete(bases.pop(0))
        # A segment that was begun and given up again because the disk was full: nothing ever went into it.
        while len(bases) > 1 and bases[-1] > self._checkpoint.segment and not self._size(bases[-1]):
            self._delete(bases.pop())
        return bases

    def _delete(self, base: int) -> None:
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
                segment.note_batch(batch, index_interval=self._index_interval)
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
        # The files may have been written again, further, after this checkpoint and before its successor was in place.
        kept_offsets = [entry for entry in offsets.entries if entry[0] < bound]
        kept_times = [entry for entry in times.entries if entry[1] < bound]
        return OffsetIndex(kept_offsets), TimeIndex(kept_times)

    def _seal(self, segment: Segment) -> None:
        if segment.active:
            for file in segment.write_indexes():
                file.sync()
                file.close()
            segment.seal()

    # -- what is not whole -----------------------------------------------------------------------------------------

    def _quarantine(self, segment: Segment, position: int, expected: Expectation) -> Damage:
        behind = next_whole_batch(segment.file, position, size=segment.size, expected=expected)
        if behind is not None:
            damage = Damage(position, behind.position, expected.offset, behind.header.base_offset)
        else:
            last = min(expected.end_offset, max(self._synced_offset, expected.offset))
            damage = Damage(position, segment.size, expected.offset, last)
        segment.damage += (damage,)
        self._damage.setdefault(segment.base_offset, []).append(damage)
        write_quarantine(self._storage, self._directory, self._damage)
        self._say(f"offsets {damage.first_offset} to {damage.end_offset - 1} are damaged and quarantined")
        return damage

    def _cut(self, segment: Segment, position: int, expected: Expectation) -> None:
        behind = next_whole_batch(segment.file, position, size=segment.size, expected=expected)
        lost = segment.size - position
        if behind is not None and lost <= CUT_KEPT_BYTES_MAX:
            kept = f"{segment.log_path}.{position}.cut"
            replace_durably(self._storage, kept, segment.file.read_at(position, lost))
        segment.file.truncate(position)
        segment.size = position
        self._say(f"{lost} bytes behind offset {expected.offset}, never acknowledged, were cut off")

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


def open_partition(storage: Storage, directory: str, *, index_interval: int) -> Opened:
    """Bring a partition's files into order. All that it found is synced when it returns, so it may be promised."""
    finish_swap(storage, directory)
    opened = Recovery(storage, directory, index_interval=index_interval).open()
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
    except (FileNotFoundError, ValueError, TypeError):
        return {}


def write_quarantine(storage: Storage, directory: str, damage: dict[int, list[Damage]]) -> None:
    rows = {str(base): [list(row) for row in ranges] for base, ranges in damage.items() if ranges}
    replace_durably(storage, f"{directory}/quarantine.json", json.dumps(rows).encode())


# -- replacing segments ----------------------------------------------------------------------------------------------


def begin_swap(storage: Storage, directory: str, *, replaced: list[int], replacement: int) -> None:
    """Promise to put `<replacement>.*.cleaned` (written and synced) in the place of the replaced segments.

    From here on the change happens, whatever crashes: finish_swap runs now, or at the next opening.
    """
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
