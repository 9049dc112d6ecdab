"""A disk in memory: for tests, demos, and logs that may die with their process.

The names are a tree of folders; a file's content lives outside it, so that an open file stays readable after its name
was deleted or replaced. All methods may be called by any thread.
"""

import errno
import os
import threading
from collections.abc import Mapping, Sequence

from headwater.clock import Clock, SystemClock
from headwater.log.storage.storage import Buffer, parent_of


class Content:
    """The bytes of one file, whatever its name is by now."""

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = modified_ms
        # A view on a bytearray forbids it to grow: readers and the writer take turns.
        self.lock = threading.Lock()

    def read(self, position: int, length: int) -> bytes:
        with self.lock, memoryview(self.data) as view:
            return bytes(view[position : position + length])

    def write(self, position: int, buffer: Buffer) -> None:
        if not len(buffer):
            return  # an empty write past the end does not extend the file
        with self.lock:
            end = len(self.data)
            if position > end:
                self.data.extend(bytes(position - end))
            if position >= end:
                self.data += buffer
            else:
                self.data[position : position + len(buffer)] = buffer

    def truncate(self, size: int) -> None:
        with self.lock:
            end = len(self.data)
            if size <= end:
                del self.data[size:]
            else:
                self.data.extend(bytes(size - end))


class Folder:
    def __init__(self) -> None:
        self.entries: dict[str, Content | Folder] = {}

    def change(self, entries: Mapping[str, "Content | Folder | None"]) -> None:
        """Set names, or forget those that are None, all at once: the only way a folder changes."""
        for name, node in entries.items():
            if node is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = node


Node = Content | Folder


class MemoryFile:
    def __init__(self, content: Content, clock: Clock) -> None:
        self._content: Content | None = content
        self._clock = clock

    def _opened(self) -> Content:
        if self._content is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._content

    def size(self) -> int:
        return len(self._opened().data)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        content = self._opened()
        for buffer in buffers:
            content.write(position, buffer)
            position += len(buffer)
        content.modified_ms = self._clock.now_ms()

    def read_at(self, position: int, length: int) -> bytes:
        return self._opened().read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | None:
        return self.read_at(position, length)

    def send_cached(self, descriptor: int, position: int, length: int) -> int | None:
        return None

    def truncate(self, size: int) -> None:
        content = self._opened()
        content.truncate(size)
        content.modified_ms = self._clock.now_ms()

    def sync(self) -> None:
        self._opened()

    def close(self) -> None:
        self._content = None


class MemoryStorage:
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._names = threading.RLock()
        self._root = self._new_folder()
        self._locked = False

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        return MemoryFile(self._content(path, create=create), self._clock)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self._content(path).data)

    def modified_ms(self, path: str) -> int:
        return self._content(path).modified_ms

    def set_modified_ms(self, path: str, ms: int) -> None:
        self._content(path).modified_ms = ms

    def list(self, directory: str) -> list[str]:
        with self._names:
            return sorted(self._folder(directory).entries) if self._find(directory) else []

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Folder)

    def make_directory(self, path: str) -> None:
        with self._names:
            folder = self._root
            for name in filter(None, path.split("/")):
                if name not in folder.entries:
                    folder.change({name: self._new_folder()})
                node = folder.entries[name]
                if isinstance(node, Content):
                    raise error(errno.EEXIST, path)
                folder = node

    def rename(self, old: str, new: str) -> None:
        with self._names:
            node = self._find(old)
            if node is None:
                raise error(errno.ENOENT, old)
            if old == new:
                return
            source, target = self._folder(parent_of(old)), self._folder(parent_of(new))
            _check_replaceable(node, target.entries.get(name_of(new)), new)
            if source is target:
                target.change({name_of(old): None, name_of(new): node})
            else:
                target.change({name_of(new): node})
                source.change({name_of(old): None})

    def delete(self, path: str) -> None:
        with self._names:
            node = self._find(path)
            if isinstance(node, Folder):
                raise error(errno.EISDIR, path)
            if node is not None:
                self._folder(parent_of(path)).change({name_of(path): None})

    def remove_directory(self, path: str) -> None:
        with self._names:
            if self._find(path) is None:
                return
            if self._folder(path).entries:
                raise error(errno.ENOTEMPTY, path)
            self._folder(parent_of(path)).change({name_of(path): None})

    def sync_directory(self, path: str) -> None:
        self._folder(path)

    def lock(self, path: str) -> None:
        with self._names:
            if self._locked:
                raise error(errno.EWOULDBLOCK, path)
            self._content(path, create=True).data[:] = f"{os.getpid()}\n".encode()
            self._locked = True

    def close(self) -> None:
        self._locked = False

    def _new_content(self) -> Content:
        return Content(self._clock.now_ms())

    def _new_folder(self) -> Folder:
        return Folder()

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in filter(None, path.split("/")):
            node = node.entries.get(name) if isinstance(node, Folder) else None
        return node

    def _content(self, path: str, *, create: bool = False) -> Content:
        with self._names:
            node = self._find(path)
            if node is None:
                if not create:
                    raise error(errno.ENOENT, path)
                node = self._new_content()
                self._folder(parent_of(path)).change({name_of(path): node})
            if isinstance(node, Folder):
                raise error(errno.EISDIR, path)
            return node

    def _folder(self, path: str) -> Folder:
        node = self._find(path)
        if node is None:
            raise error(errno.ENOENT, path)
        if isinstance(node, Content):
            raise error(errno.ENOTDIR, path)
        return node


def _check_replaceable(node: Node, present: Node | None, path: str) -> None:
    """A rename may replace a file by a file and an empty folder by a folder, nothing else."""
    if isinstance(node, Content) and isinstance(present, Folder):
        raise error(errno.EISDIR, path)
    if isinstance(node, Folder) and isinstance(present, Content):
        raise error(errno.ENOTDIR, path)
    if isinstance(present, Folder) and present.entries:
        raise error(errno.ENOTEMPTY, path)


def error(code: int, path: str) -> OSError:
    """Returns the exception of the operating system: FileNotFoundError for ENOENT, and so on."""
    return OSError(code, os.strerror(code), path)


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
