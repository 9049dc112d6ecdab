"""Files of the operating system."""

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from headwater.log.storage.storage import Buffer

BUFFERS_PER_CALL_MAX = 512  # Linux takes 1,024


class LocalFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        pending = [memoryview(buffer) for buffer in buffers]
        while pending:
            written = os.pwritev(self._descriptor, pending[:BUFFERS_PER_CALL_MAX], position)
            position += written
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if written:
                pending[0] = pending[0][written:]

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        while data and (missing := length - sum(map(len, parts))):
            data = os.pread(self._descriptor, missing, position + length - missing)
            parts.append(data)
        return b"".join(parts)

    def read_cached(self, position: int, length: int) -> Buffer | None:
        target = bytearray(length)
        try:
            count = os.preadv(self._descriptor, [target], position, os.RWF_NOWAIT)
        except OSError:
            # EAGAIN: not in memory. EOPNOTSUPP: a file system that cannot say.
            return None
        del target[count:]
        return target

    def send_cached(self, descriptor: int, position: int, length: int) -> int | None:
        if not self._in_memory(position) or not self._in_memory(position + length - 1):
            return None  # if both ends are in memory, so is what lies between, almost always
        try:
            return os.sendfile(descriptor, self._descriptor, position, length)
        except BlockingIOError:
            return 0
        except OSError:
            return None  # a closed socket, or a file system without sendfile: the ordinary write reports it

    def _in_memory(self, position: int) -> bool:
        try:
            return os.preadv(self._descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
        except OSError:
            return False

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        if self._descriptor < 0:
            # os.fdatasync would raise ValueError, which no caller expects from a disk.
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # Readers may still hold a file whose segment was deleted: the last of them closes it.
        self.close()


class LocalStorage:
    def __init__(self, root: Path | str, *, private: bool = False) -> None:
        """With `private`, what it makes can be read by its owner alone, from the first byte on."""
        self._root = Path(root)
        self._file_mode, self._folder_mode = (0o600, 0o700) if private else (0o640, 0o750)
        self._lock: int | None = None

    @property
    def root(self) -> Path:
        return self._root

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else str(self._root)

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LocalFile(os.open(self._path(path), flags, self._file_mode))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def size(self, path: str) -> int:
        return os.stat(self._path(path)).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(self._path(path)).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, ms: int) -> None:
        os.utime(self._path(path), ns=(ms * 1_000_000, ms * 1_000_000))

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(directory)))
        except FileNotFoundError:
            return []

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._path(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(self._path(path), mode=self._folder_mode, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._path(old), self._path(new))

    def delete(self, path: str) -> None:
        try:
            os.unlink(self._path(path))
        except FileNotFoundError:
            return

    def remove_directory(self, path: str) -> None:
        try:
            os.rmdir(self._path(path))
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self._path(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._root).free

    def lock(self, path: str) -> None:
        descriptor = os.open(self._path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._file_mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock = descriptor

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
