"""Which sealed segments a partition owns, kept as `manifest.json`: so that one that vanishes or shrinks is missed.

A small file with a copy beside it (small_file.py):

    start_offset   as it was when this was written; the checkpoint has it more exactly
    segments       rows of SealedSegment: those before the segment that was active then, on the disk or in the archive
    lost           rows of [first offset, end offset]: ranges that were stored and were not there when a start looked

It is written before a checkpoint, if the list has changed since: after a segment was sealed, retired, compacted or
moved to the archive; an append costs nothing. What keeps it right through a crash at any point:

* A start believes it only for segments before the one that the checkpoint names. Later segments are read in any case.
* Retention makes the new start offset durable before it deletes: what lies wholly below that offset is not missed.
* Compaction changes the manifest within its swap (segment_swap.py), which the next start finishes if need be.
* A segment that is not on the disk is not missed while the archive's list has it.
* The checkpoint names the manifest's version: an older one, or none, is noticed and not believed.

Segments without a row are adopted: of a log that has no manifest yet, all of them.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from headwater.errors import DamagedFile
from headwater.log.checkpoint import Say
from headwater.log.segment import Segment, segment_name
from headwater.log.storage import Read, Storage, read_small_file, write_small_file

NAME = "manifest.json"
UNKNOWN = -1  # size of an index that was not there to be measured


class SealedSegment(NamedTuple):
    base_offset: int
    next_offset: int
    size: int
    index_size: int
    time_index_size: int
    archived: bool = False
    crc32c: int | None = None  # of the log file, once it was computed


class Gap(NamedTuple):
    """Offsets that were stored and whose file is missing. Readers step over them."""

    first_offset: int
    end_offset: int
    why: str

    def __str__(self) -> str:
        return f"offsets {self.first_offset} to {self.end_offset - 1} are missing: {self.why}"


class Manifest:
    """The manifest of one partition. Not thread-safe; the partition changes it while it may reshape its segments."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage, self._directory = storage, directory
        self.start_offset = self.version = 0
        self.segments: Mapping[int, SealedSegment] = {}
        self.lost: tuple[tuple[int, int], ...] = ()
        self.is_lost = False
        """Whether there was one, and it is not there any more or cannot be believed."""
        self._written: object = None

    @property
    def path(self) -> str:
        return f"{self._directory}/{NAME}"

    @classmethod
    def read(
        cls, storage: Storage, directory: str, say: Say = lambda _: None, *, read: Read = read_small_file
    ) -> "Manifest":
        """Returns the manifest on the disk; an empty one if it is missing or damaged, which is reported to `say`."""
        manifest = cls(storage, directory)
        try:
            found = read(storage, manifest.path)
            rows = [SealedSegment._make(row) for row in found.content["segments"]]
            lost = tuple((int(first), int(end)) for first, end in found.content["lost"])
            manifest.start_offset = int(found.content["start_offset"])
        except FileNotFoundError:
            return manifest
        except DamagedFile as error:
            say(f"{error.summary}; missing segments cannot be detected")
            return manifest
        except (KeyError, TypeError, ValueError):
            say(f"{manifest.path} is not a manifest; missing segments cannot be detected")
            return manifest
        for problem in found.problems:
            say(problem)
        manifest.version, manifest.lost = found.version, lost
        manifest.segments = {row.base_offset: row for row in rows}
        manifest._written = manifest._content()
        return manifest

    # -- what is missing -----------------------------------------------------------------------------------------------

    def believed_for(self, *, version: int, below: int | None, say: Say) -> None:
        """Forget what the checkpoint does not vouch for: it names the manifest's version, and the first segment that
        was not sealed. Without a checkpoint (`below` is None) every row counts."""
        if self.version < version:
            found = f"is version {self.version} instead of {version}" if self.version else "is missing"
            say(f"{self.path} {found}; it is made again from the segments that are there")
            self.segments, self.lost, self.version, self.is_lost = {}, (), version, True
        elif below is not None:
            self.segments = {base: row for base, row in self.segments.items() if base < below}

    def gaps(self, present: Collection[int], archived: Collection[int], *, start_offset: int) -> list[Gap]:
        """Ranges of offsets from the start offset on that the partition owns and that are nowhere to be found."""
        missing = [
            Gap(max(row.base_offset, start_offset), row.next_offset, self._why(row))
            for row in self.segments.values()
            if row.next_offset > start_offset and row.base_offset not in present and row.base_offset not in archived
        ]
        lost = [
            Gap(max(first, start_offset), end, "they were not there at an earlier start") for first, end in self.lost
        ]
        return sorted([*missing, *(gap for gap in lost if gap.first_offset < gap.end_offset)])

    def _why(self, row: SealedSegment) -> str:
        if row.archived:
            return "their segment is in the archive, and archive.json no longer lists it"
        return f"{self._directory}/{segment_name(row.base_offset)}.log is missing"

    # -- keeping it ----------------------------------------------------------------------------------------------------

    def record(self, segments: Sequence[Segment], *, below: int, start_offset: int) -> None:
        """Write down the segments of a partition that are sealed for good, which are those before `below`.

        Rows of missing segments stay for as long as their offsets can be requested.
        """
        rows = {base: row for base, row in self.segments.items() if row.next_offset > start_offset and base < below}
        for segment, following in pairwise(segments):
            if segment.base_offset >= below or following.base_offset <= start_offset:
                continue
            row = rows.get(segment.base_offset) or self._row(segment, following.base_offset)
            rows[segment.base_offset] = row._replace(archived=not segment.local)
        self.segments, self.start_offset = rows, start_offset
        self.lost = tuple((first, end) for first, end in self.lost if end > start_offset)
        self._write_if_changed()

    def measure_indexes(self, segment: Segment) -> None:
        """Indexes that were made again may be of another size, if their interval has changed since."""
        if row := self.segments.get(segment.base_offset):
            index, time_index = map(self._size, segment.paths[1:])
            changed = row._replace(index_size=index, time_index_size=time_index)
            self.segments = {**self.segments, segment.base_offset: changed}

    def note_checksums(self, checksums: Mapping[int, int]) -> None:
        rows = {base: self.segments[base]._replace(crc32c=checksum) for base, checksum in checksums.items()}
        self.segments = {**self.segments, **rows}
        self._write_if_changed()

    def swapped(self, replaced: Sequence[int], replacement: SealedSegment) -> None:
        """Segments were replaced by one, whose next offset is that of the last of them."""
        rows = [self.segments[base] for base in replaced if base in self.segments]
        others = {base: row for base, row in self.segments.items() if base not in replaced}
        if len(rows) == len(replaced):
            fresh = replacement._replace(next_offset=max(row.next_offset for row in rows))
            others[fresh.base_offset] = fresh
        self.segments = others
        self._write_if_changed()

    def _row(self, segment: Segment, next_offset: int) -> SealedSegment:
        index, time_index = (self._size(path) if segment.local else UNKNOWN for path in segment.paths[1:])
        return SealedSegment(segment.base_offset, next_offset, segment.size, index, time_index)

    def _size(self, path: str) -> int:
        try:
            return self._storage.size(path)
        except OSError:
            return UNKNOWN

    def _content(self) -> dict[str, object]:
        return {
            "start_offset": self.start_offset,
            "segments": [list(self.segments[base]) for base in sorted(self.segments)],
            "lost": [list(lost) for lost in self.lost],
        }

    def _write_if_changed(self) -> None:
        content = self._content()
        if content == self._written or not (self.version or self.segments or self.lost):
            return
        self.version = write_small_file(self._storage, self.path, content, above=self.version)
        self._written = content
