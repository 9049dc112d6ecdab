"""The storage protocol: the only way in which the log touches files.

Paths are relative, separated by "/", and never start or end with one. Three implementations keep this contract
(tests/contracts/storage.py): local files, memory, and a simulated disk that crashes, tears, fills up and fails.

Durability, in the words of a disk that keeps no promise it did not make:

* bytes written are durable after `File.sync` returned;
* a name that was created, renamed or deleted is durable after `sync_directory` of its folder returned;
* until then a crash may keep any part of either, in any order.

A failed `sync` must be taken as final: the operating system may have dropped the pages it could not write, and the
next sync may claim success. Errors are OSError, as from the operating system (ENOSPC, EIO, ...).
"""

import errno
from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Reads at any position by any thread; one writer at a time, which its owner sees to.

    A file stays readable through this object after its name was deleted or renamed.
    """

    def size(self) -> int: ...

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after the other. On an error any part of them may have been written."""

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def read_cached(self, position: int, length: int) -> Buffer | None:
        """Like read_at, but None (or fewer bytes) instead of waiting for the disk."""

    def send_cached(self, descriptor: int, position: int, length: int) -> int | None:
        """Hand bytes to a socket without copying them; returns how many it took, 0 if it is full.

        None if they would have to be waited for, or cannot be handed over: then read them.
        """

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make content and size durable."""

    def close(self) -> None: ...


class Storage(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. FileNotFoundError if it is missing and `create` is not set."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, or what `set_modified_ms` said later."""

    def set_modified_ms(self, path: str, ms: int) -> None: ...

    def list(self, directory: str) -> list[str]:
        """Names in a folder, sorted; "" is the root. Empty if the folder is missing."""

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Make a folder (and its parents); nothing happens if it is there. Follow with sync_directory(parent)."""

    def rename(self, old: str, new: str) -> None:
        """Replace `new` atomically. Follow with sync_directory."""

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens if it is missing. Follow with sync_directory."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder; nothing happens if it is missing."""

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> None:
        """Own this storage until close; BlockingIOError if another process does. The lock dies with the process."""

    def close(self) -> None:
        """Give up the lock."""


def read_whole(storage: Storage, path: str) -> bytes:
    file = storage.open(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def out_of_space(error: OSError) -> bool:
    """Whether it would have succeeded with more room on the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def replace_durably(storage: Storage, path: str, content: bytes, *, fresh: str = "") -> None:
    """After this returns the file holds `content`; after a crash before that, the old content or the new.

    It is written under the name `fresh` (the path with ".new" appended), in the same folder, and renamed.
    """
    fresh = fresh or path + ".new"
    file = storage.open(fresh, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [content])
        # Without this sync the rename may become durable before the content: an empty file under the real name.
        file.sync()
    finally:
        file.close()
    storage.rename(fresh, path)
    storage.sync_directory(parent_of(path))
