"""Files followed like `tail -F`: every line once, through rotation and crashes.

What is going to be read is decided and noted first: a number, and ranges of bytes in files. Then the ranges are read
and emitted, at positions that the number and the lines give. After a crash in between, the same ranges are read again
and make the same records, and the topic says which of them it has.
"""

import glob
import logging
import os
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headwater.capture.change import (
    CREATE,
    RECORDS_PER_CHANGE,
    CapturedTable,
    Change,
    Plain,
    SourcePosition,
    next_generation,
)
from headwater.capture.followed_files.followed import (
    Followed,
    find,
    find_copy,
    named_after,
    neighbours,
    open_file,
    size_of,
)
from headwater.capture.followed_files.lines import LINE_BYTES_MAX, as_text, lines, whole
from headwater.capture.notes import Note
from headwater.capture.source import Batch, SourceStatus
from headwater.clock import Clock
from headwater.errors import InvalidCapture
from headwater.record import Header

_logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
READ_BYTES = LINE_BYTES_MAX + 1  # with the end of the longest line
PLAN_BYTES = 1024**2
"""At once, from all files: lines may be of a few bytes, and a record of each takes a hundred times as much."""

LINGER_MS = 30_000
FILE_NOTE = "file/"


@dataclass(frozen=True, kw_only=True)
class FilesSettings:
    capture: str
    pattern: str
    topic: str
    encoding: str = "utf-8"
    from_start: bool = True
    """Files that are there when the capture begins are read from their first line on."""


@dataclass
class Range:
    """Bytes that are to be emitted: all lines of them, or a last line without an end."""

    index: int
    """In its plan."""

    followed: Followed
    start: int
    end: int
    checksum: int
    data: bytes | None = None
    """As long as the process that planned it lives."""


class FilesSource:
    """A ChangeSource; see source.py for the contract."""

    def __init__(self, settings: FilesSettings, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._table = CapturedTable("file", "lines", settings.topic, ("line",), (), plain=True)
        self._pause = threading.Event()
        self._files: dict[int, Followed] = {}
        self._open: dict[int, BinaryIO] = {}
        self._quiet_since: dict[int, tuple[int, int]] = {}
        self._undecided: dict[Path, tuple[int, int]] = {}
        self._notes: dict[str, Note | None] = {}
        self._generation = self._number = self._last_id = 0
        self._plan: list[Range] | None = None
        self._new = self._begun = True
        self._copies: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._visible: set[tuple[int, int]] = set()
        self._status = SourceStatus()
        self._undecodable = 0
        self._lost = ""

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, notes: Mapping[str, Note]) -> None:
        plan = notes.get("plan", {})
        self._new, self._begun = not plan, bool(plan)
        self._number = int(str(plan.get("number", 0)))
        self._generation = int(str(plan.get("generation", 0))) or next_generation(0, self._clock.now_ms())
        for what, note in notes.items():
            if what.startswith(FILE_NOTE):
                followed = Followed.from_note(int(what.removeprefix(FILE_NOTE)), note)
                self._files[followed.id] = followed
        self._last_id = max([int(str(plan.get("last_id", 0))), *self._files])
        for followed in list(self._files.values()):
            self._find(followed)
        ranges = plan.get("ranges")
        if isinstance(ranges, list) and ranges:
            self._plan = [
                Range(index, self._files[id], start, end, checksum)
                for index, (id, start, end, checksum) in enumerate(ranges)
            ]

    def _find(self, followed: Followed) -> None:
        file = find(followed)
        if file is not None:
            self._open[followed.id] = file
            found = os.fstat(file.fileno())
            # A copy is a file of its own; the file now at that name is another one, and is found as a new file.
            followed.rotated = followed.rotated or (found.st_dev, found.st_ino) != (followed.device, followed.inode)
            followed.device, followed.inode = found.st_dev, found.st_ino

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open = {}

    def tables(self) -> Sequence[CapturedTable]:
        return [self._table]

    # -- deciding what to read ---------------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float) -> Batch:
        if self._plan is not None:
            return self._tell(self._plan)
        deadline_ms = self._clock.elapsed_ms() + int(timeout_seconds * 1000)
        while True:
            self._look()
            ranges = self._ranges()
            if ranges or self._notes or self._clock.elapsed_ms() >= deadline_ms:
                break
            self._pause.wait(LOOK_SECONDS)
        notes, self._notes = self._notes, {}
        if ranges:
            self._number += 1
            self._plan = ranges
        if ranges or notes or not self._begun:
            self._begun = True
            notes["plan"] = self._plan_note(ranges)
        return Batch(notes=notes)

    def _plan_note(self, ranges: Sequence[Range]) -> Note:
        planned = [[one.followed.id, one.start, one.end, one.checksum] for one in ranges]
        return {"generation": self._generation, "number": self._number, "last_id": self._last_id, "ranges": planned}

    def _look(self) -> None:
        """Which files there are now, and what has become of those that were."""
        for followed in list(self._files.values()):
            self._look_at(followed)
        known = {(one.device, one.inode) for one in self._files.values()}
        self._visible = set()
        for name in sorted(glob.glob(self.settings.pattern, recursive=True)):
            path = Path(name)
            file = open_file(path)
            if file is None:
                continue
            found = os.fstat(file.fileno())
            self._visible.add((found.st_dev, found.st_ino))
            if (found.st_dev, found.st_ino) in known or self._is_copy(path, file):
                file.close()
                continue
            self._follow(path, file)
        self._new = False

    def _follow(self, path: Path, file: BinaryIO, beginning_as: Followed | None = None) -> None:
        self._last_id += 1
        found = os.fstat(file.fileno())
        followed = Followed(self._last_id, path, found.st_dev, found.st_ino)
        if beginning_as is not None:
            followed.offset, followed.checksum = beginning_as.offset, beginning_as.checksum
            followed.head, followed.rotated = beginning_as.head, True
        elif self._new and not self.settings.from_start:
            followed.skip(file)
        self._files[followed.id], self._open[followed.id] = followed, file
        self._keep(followed)

    def _look_at(self, followed: Followed) -> None:
        file = self._open.get(followed.id)
        if file is None:
            self._lose(followed, "was deleted, and no file beside it begins as it did")
            return
        try:
            now = os.stat(followed.path)
            rotated = (now.st_dev, now.st_ino) != (followed.device, followed.inode)
        except OSError:
            rotated = True
        if rotated and not followed.rotated:
            followed.rotated = True
            self._keep(followed)
        if not followed.begins(file):
            copy = find_copy(followed)
            if copy is not None:
                self._follow(followed.path, copy, followed)
            elif followed.offset:
                _logger.warning("%s was cut; what was written to it just before may be lost", followed.path)
            followed.restart()
            self._keep(followed)

    def _is_copy(self, path: Path, file: BinaryIO) -> bool:
        """Whether an unknown file is a copy of one that is followed, made to truncate that one: then it is not
        read, or only from where the other one ends. One that is still being written is waited for."""
        for followed in self._files.values():
            if followed.offset and named_after(path, followed.path):
                found, size, now_ms = os.fstat(file.fileno()), size_of(file), self._clock.elapsed_ms()
                compared = (followed.id, followed.offset, size)  # once is enough, as long as nothing has grown
                if self._copies.get((found.st_dev, found.st_ino)) == compared or followed.is_copied_in(file):
                    self._copies[found.st_dev, found.st_ino] = compared
                    return True
                if size < followed.offset and _same_beginning(self._open.get(followed.id), file, size):
                    seen, since_ms = self._undecided.get(path, (-1, now_ms))
                    self._undecided[path] = (size, now_ms if seen != size else since_ms)
                    if now_ms - self._undecided[path][1] < LINGER_MS:
                        return True
        return False

    def _ranges(self) -> list[Range]:
        ranges, room = list[Range](), PLAN_BYTES
        lag = 0
        for followed in list(self._files.values()):
            file = self._open[followed.id]
            size = size_of(file)
            lag += max(0, size - followed.offset)
            final = self._over(followed, file, size)
            if size > followed.offset and room > 0:
                file.seek(followed.offset)
                data = file.read(min(READ_BYTES, size - followed.offset))
                data = data[: whole(data, final=final and followed.offset + len(data) >= size)]
                if data:
                    end = followed.offset + len(data)
                    ranges.append(Range(len(ranges), followed, followed.offset, end, zlib.crc32(data), data))
                    room -= len(data)
            # One that the pattern still names would be found as a new one, and be read again.
            if final and size <= followed.offset and (followed.device, followed.inode) not in self._visible:
                self._forget(followed)
        self._status.lag_bytes, self._status.position = lag, f"{len(self._files)} files"
        self._status.warning = self._lost or (
            f"{self._undecodable:,} lines were not in {self.settings.encoding}" if self._undecodable else ""
        )
        return ranges

    def _over(self, followed: Followed, file: BinaryIO, size: int) -> bool:
        """Whether a file that has lost its name has not grown for so long that no program writes to it any more.

        As long as
        no other has its name, its program may still have it open."""
        if not followed.rotated or (not followed.path.exists() and os.fstat(file.fileno()).st_nlink):
            return False
        now_ms = self._clock.elapsed_ms()
        seen, since_ms = self._quiet_since.get(followed.id, (-1, now_ms))
        self._quiet_since[followed.id] = (size, now_ms if seen != size else since_ms)
        return now_ms - self._quiet_since[followed.id][1] >= LINGER_MS

    def _keep(self, followed: Followed) -> None:
        self._notes[f"{FILE_NOTE}{followed.id}"] = followed.note()

    def _forget(self, followed: Followed) -> None:
        self._notes[f"{FILE_NOTE}{followed.id}"] = None
        del self._files[followed.id]
        self._quiet_since.pop(followed.id, None)
        if (file := self._open.pop(followed.id, None)) is not None:
            file.close()

    def _lose(self, followed: Followed, why: str) -> None:
        self._lost = f"{followed.path}, read up to byte {followed.offset:,}, {why}: lines may be lost"
        _logger.warning("capture %s: %s", self.settings.capture, self._lost)
        self._forget(followed)

    # -- emitting lines
    # --------------------------------------------------------------------------------------------------

    def _tell(self, plan: Sequence[Range]) -> Batch:
        changes: list[Change] = []
        notes, self._notes = self._notes, {}
        now_ms = self._clock.now_ms()
        for one in plan:
            data = one.data if one.data is not None else self._again(one)
            if data is None:
                self._lose(one.followed, f"no longer has its bytes {one.start:,} to {one.end:,}")
                continue
            changes += self._changes(one, data, now_ms)
            one.followed.advance(data)
            notes[f"{FILE_NOTE}{one.followed.id}"] = one.followed.note()
        self._plan = None
        return Batch(changes, {**notes, **self._notes, "plan": self._plan_note([])})

    def _again(self, one: Range) -> bytes | None:
        """The bytes of a range that was planned before a crash, if they are still anywhere."""
        followed = one.followed
        if (file := self._open.get(followed.id)) is not None and (data := _bytes(file, one)) is not None:
            return data
        # It was truncated before any of its lines were emitted: then only what was planned says which file is its copy.
        for path in neighbours(followed.path):
            if (copy := open_file(path)) is None:
                continue
            if (data := _bytes(copy, one)) is None:
                copy.close()
                continue
            if file is not None:
                file.close()
            found = os.fstat(copy.fileno())
            self._open[followed.id] = copy
            followed.device, followed.inode, followed.rotated = found.st_dev, found.st_ino, True
            return data
        return None

    def _changes(self, one: Range, data: bytes, now_ms: int) -> list[Change]:
        path, found = os.fsencode(one.followed.path), []
        for number, line in enumerate(lines(data)):
            value, raw = as_text(line.content, self.settings.encoding)
            headers: list[Header] = [("file", path), ("offset", b"%d" % (one.start + line.start))]
            if line.cut:
                headers.append(("cut", b"true"))
            if raw is not None:
                self._undecodable += 1
                headers.append(("undecodable", raw))
            position = SourcePosition((self._generation << 64) + self._number, one.index, number * RECORDS_PER_CHANGE)
            plain = Plain(path, value, tuple(headers))
            found.append(Change(self._table, CREATE, position, b"", time_ms=now_ms, plain=plain))
        return found

    # -- what there is no need for -----------------------------------------------------------------------------------

    def confirm(self, address: int) -> None:
        """No one waits for a confirmation: the notes say all."""

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        """There are no rows."""

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        raise InvalidCapture("lines are emitted once, and cannot be copied again")

    def status(self) -> SourceStatus:
        return self._status


def _bytes(file: BinaryIO, one: Range) -> bytes | None:
    file.seek(one.start)
    data = file.read(one.end - one.start)
    return data if zlib.crc32(data) == one.checksum else None


def _same_beginning(one: BinaryIO | None, other: BinaryIO, length: int) -> bool:
    if one is None:
        return False
    one.seek(0)
    other.seek(0)
    length = min(length, 64 * 1024)
    return one.read(length) == other.read(length)
