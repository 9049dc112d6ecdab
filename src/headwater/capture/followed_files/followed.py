"""A file that is followed: which one it is, whatever its name is now, and how far it was read.

A name says little: files are renamed away (and are still written to for a while), or copied and cut to nothing. A
file is known by its number on the disk, and by the checksum of what was read of it: a file that begins with the same
bytes, as many as were read, is the same one or a copy of it.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headwater.capture.notes import Note

HEAD_BYTES = 1024
PIECE_BYTES = 1024 * 1024


@dataclass
class Followed:
    id: int
    path: Path
    device: int
    inode: int
    offset: int = 0
    checksum: int = 0
    """Of all bytes before `offset`."""

    head: int = 0
    """Of the first ones of them."""

    rotated: bool = False
    """It has lost its name: nothing new is going to be found in it for long."""

    def note(self) -> Note:
        return {
            "path": str(self.path), "device": self.device, "inode": self.inode, "offset": self.offset,
            "checksum": self.checksum, "head": self.head, "rotated": self.rotated,
        }  # fmt: skip

    @classmethod
    def from_note(cls, id: int, note: Note) -> "Followed":
        numbers = {name: int(str(note[name])) for name in ("device", "inode", "offset", "checksum", "head")}
        return cls(id, Path(str(note["path"])), rotated=bool(note["rotated"]), **numbers)

    def advance(self, data: bytes) -> None:
        """These bytes were read after `offset`."""
        if self.offset < HEAD_BYTES:
            self.head = zlib.crc32(data[: HEAD_BYTES - self.offset], self.head)
        self.checksum = zlib.crc32(data, self.checksum)
        self.offset += len(data)

    def skip(self, file: BinaryIO) -> None:
        """All whole lines that are there now count as read."""
        left = size_of(file)
        file.seek(0)
        while left > 0 and (piece := file.read(min(left, PIECE_BYTES))):
            left -= len(piece)
            self.advance(piece if left else piece[: piece.rfind(b"\n") + 1])

    def restart(self) -> None:
        self.offset = self.checksum = self.head = 0

    def is_at(self, file: BinaryIO) -> bool:
        """Whether an open file has its number, and begins as it did."""
        found = os.fstat(file.fileno())
        return (found.st_dev, found.st_ino) == (self.device, self.inode) and self.begins(file)

    def begins(self, file: BinaryIO) -> bool:
        length = min(self.offset, HEAD_BYTES)
        file.seek(0)
        head = file.read(length)
        return len(head) == length and zlib.crc32(head) == self.head and size_of(file) >= self.offset

    def is_copied_in(self, file: BinaryIO) -> bool:
        """Whether an open file begins with all that was read of this one."""
        return self.begins(file) and checksum_of(file, self.offset) == self.checksum


def size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def checksum_of(file: BinaryIO, length: int) -> int:
    file.seek(0)
    checksum, left = 0, length
    while left > 0 and (piece := file.read(min(left, PIECE_BYTES))):
        checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    return checksum


def named_after(path: Path, original: Path) -> bool:
    """Whether a file is called as rotation calls what it makes of another.

    >>> named_after(Path("/log/app.log.1"), Path("/log/app.log")), named_after(Path("/log/b.log"), Path("/log/app.log"))
    (True, False)
    """
    return path.parent == original.parent and path.name != original.name and path.name.startswith(original.name)


def neighbours(path: Path) -> Iterator[Path]:
    """Files beside it whose name begins with its name, the newest first: what rotation makes of it."""
    try:
        found = [
            (entry.stat().st_mtime_ns, entry.path)
            for entry in os.scandir(path.parent)
            if named_after(Path(entry.path), path) and entry.is_file()
        ]
    except OSError:
        return
    for _, name in sorted(found, reverse=True):
        yield Path(name)


def find(followed: Followed) -> BinaryIO | None:
    """The file, wherever it is now: under its name, under another, or as a copy that was made before it was cut."""
    for path in (followed.path, *neighbours(followed.path)):
        if (file := open_file(path)) is not None:
            if followed.is_at(file):
                return file
            file.close()
    return find_copy(followed)


def find_copy(followed: Followed) -> BinaryIO | None:
    for path in neighbours(followed.path):
        if (file := open_file(path)) is not None:
            if followed.offset and os.fstat(file.fileno()).st_ino != followed.inode and followed.is_copied_in(file):
                return file
            file.close()
    return None


def open_file(path: Path) -> BinaryIO | None:
    """None if it cannot be read, or is no file: opening a pipe would wait for its writer."""
    try:
        return path.open("rb", buffering=0) if path.is_file() else None
    except OSError:
        return None
