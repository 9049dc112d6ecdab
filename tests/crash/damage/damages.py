"""What may become of a file."""

import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random

DELETED, EMPTY, TRUNCATED, FLIPPED, OLDER, UNREADABLE = (
    "deleted", "empty", "truncated", "flipped", "older", "unreadable",
)  # fmt: skip
FLIPS = 6


def _delete(file: Path) -> None:
    file.unlink()


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _truncate(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])


def positions(file: Path) -> list[int]:
    """Where a bit is flipped, one after the other: the middle, both ends, and some that the file's name chooses."""
    size = file.stat().st_size
    chance = Random(f"{file.parent.name}/{file.name}")
    found = [size // 2, 0, size - 1, *(chance.randrange(size) for _ in range(FLIPS - 3))]
    return list(dict.fromkeys(found))


def flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 0x04
    file.write_bytes(content)


def _flip(file: Path) -> None:
    flip(file, positions(file)[0])


def _unreadable(file: Path) -> None:
    """As a file that the disk does not give back: it is there, and opening it is an error (a mode would not keep root
    out, a socket does)."""
    file.unlink()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(f"/proc/self/fd/{folder}/{file.name}")  # its own path may be longer than a socket's can be
    finally:
        os.close(folder)


DAMAGES: dict[str, Callable[[Path], None]] = {
    DELETED: _delete, EMPTY: _empty, TRUNCATED: _truncate, FLIPPED: _flip, UNREADABLE: _unreadable,
}  # fmt: skip


def possible(damage: str, file: Path, older: Path) -> bool:
    """Is there something to damage, and another version to replace it with?"""
    if damage == OLDER:
        return older.is_file() and older.read_bytes() != file.read_bytes()
    return damage in (DELETED, UNREADABLE) or file.stat().st_size > 0


def like_a_crash(damage: str, file: Path, older: Path) -> bool:
    """Between the two renames with which a small file and its copy are replaced (small_file.py), a crash leaves one of
    them a version behind, or the first without a copy: nothing is lost by it, and it cannot be distinguished from
    damage."""
    if damage == OLDER and version_of(file) >= 0:
        return older.is_file() and version_of(older) >= 0 and version_of(file) - version_of(older) == 1
    if file.suffix in (".index", ".timeindex") and file == max(file.parent.glob(f"*{file.suffix}")):
        # That of the active segment is written now and then: a start believes no entry after the checkpoint, and
        # reads the segment for those that it does not have.
        return damage != UNREADABLE
    if file.suffix == ".sqlite" and damage in (TRUNCATED, OLDER):
        journal = file.with_name(f"{file.name}-wal")
        # What it holds is not read from the file; should it not hold all, the rows are other than they were.
        return journal.is_file() and journal.stat().st_size > 0
    if file.suffix == ".log" and not file.stat().st_size and [*file.parent.glob("*.log")] == [file]:
        return damage == DELETED  # a topic that nothing was written to: made, and its first segment not yet
    return damage == DELETED and file.suffix == ".copy" and version_of(file) == 1


def version_of(file: Path) -> int:
    found = re.match(rb'{"checksum":"[0-9a-f]{8}","version":(\d+),', file.read_bytes())
    return int(found[1]) if found else -1


def inflict(damage: str, file: Path, older: Path, *, position: int | None = None) -> None:
    """`position`: of the byte that is flipped."""
    if damage == OLDER:
        shutil.copyfile(older, file)
    elif position is not None:
        flip(file, position)
    else:
        DAMAGES[damage](file)
