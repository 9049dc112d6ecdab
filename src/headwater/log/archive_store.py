"""Where archived segments lie: objects by name, written once as a whole, read in any range.

Two kinds of store keep the same small contract: folders (of the log's own disk, or any other local path), where what
was written is synced, names included, before it counts; and everything else that fsspec reaches, which is believed
when it says that an object is stored.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from headwater.errors import ArchiveUnavailable, HeadwaterError, InvalidSetting
from headwater.log.storage import LocalStorage, Storage, parent_of
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets

FOLDER = "archive"
LOCAL_PROTOCOLS = ("file", "local")


class ArchiveStore(Protocol):
    """Names are relative and separated by "/". Whatever keeps a call from its work is ArchiveUnavailable."""

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store an object, in place of any of that name; it survives a power cut when this returns.

        If it fails, any part of the object may be there.
        """

    def size(self, name: str) -> int: ...

    def read(self, name: str, position: int, length: int) -> bytes:
        """A range that lies within the object."""

    def delete(self, name: str) -> None:
        """Nothing happens if it is missing."""

    def delete_folder(self, name: str) -> None:
        """Delete all objects whose names begin with this one and a "/"."""


def open_store(url: str, storage: Storage) -> ArchiveStore:
    """Returns the store that a URL names; "" is a folder beside the log.

    It does not connect yet: the store may be unreachable.
    """
    if not url:
        return FolderStore(storage, FOLDER)
    for part in url.split("::"):
        if "://" in part and not part.partition("://")[2].startswith("/") and (why := ambiguity(part)):
            raise InvalidSetting("archive_url", without_secrets(url), f"it {why}. {WAY_OUT}")
    # Loaded when needed: most logs have no other archive than a folder.
    from fsspec.core import split_protocol

    protocol, _ = split_protocol(url)
    if "::" not in url and (protocol is None or protocol in LOCAL_PROTOCOLS):
        from fsspec.implementations.local import LocalFileSystem

        path = str(LocalFileSystem._strip_protocol(url))
        return FolderStore(LocalStorage("/"), path.strip("/"), shown=path)
    return FsspecStore(url)


class FolderStore:
    """A folder of a disk that is used through the log's own storage interface."""

    def __init__(self, storage: Storage, root: str, *, shown: str = "") -> None:
        self._storage, self._root = storage, root
        self._shown = shown or root
        self._made: set[str] = set()

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        path = self._path(name)
        with self._answering():
            self._make_folder(parent_of(path))
            file = self._storage.open(path, create=True)
            try:
                file.truncate(0)
                position = 0
                for piece in pieces:
                    file.write_at(position, [piece])
                    position += len(piece)
                file.sync()
            finally:
                file.close()
            self._storage.sync_directory(parent_of(path))

    def _make_folder(self, path: str) -> None:
        """Make a folder whose name survives a power cut, and those above it."""
        if not path or path in self._made:
            return
        above = parent_of(path)
        self._make_folder(above)
        # What lies above the archive and was there before is not ours, and perhaps not ours to open.
        if path.startswith(f"{self._root}/") or not self._storage.is_directory(path):
            self._storage.make_directory(path)
            self._storage.sync_directory(above)
        self._made.add(path)

    def size(self, name: str) -> int:
        with self._answering():
            return self._storage.size(self._path(name))

    def read(self, name: str, position: int, length: int) -> bytes:
        with self._answering():
            file = self._storage.open(self._path(name))
            try:
                return file.read_at(position, length)
            finally:
                file.close()

    def delete(self, name: str) -> None:
        path = self._path(name)
        with self._answering():
            if self._storage.exists(path):
                self._storage.delete(path)
                self._storage.sync_directory(parent_of(path))

    def delete_folder(self, name: str) -> None:
        path = self._path(name)
        with self._answering():
            if self._storage.is_directory(path):
                self._empty(path)
                self._storage.sync_directory(parent_of(path))

    def _empty(self, folder: str) -> None:
        for name in self._storage.list(folder):
            path = f"{folder}/{name}"
            if self._storage.is_directory(path):
                self._empty(path)
            else:
                self._storage.delete(path)
        self._storage.remove_directory(folder)
        self._made.discard(folder)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArchiveUnavailable(self._shown, str(error)) from error


class FsspecStore:
    """Any store that has an fsspec file system: object stores, servers, and chains of them.

    Its own time limits and attempts apply; they are set the way fsspec's configuration sets them.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._shown = without_secrets(url)
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None
        self._made: set[str] = set()
        check_protocols(url, self._shown)

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        with self._answering():
            files, path = self._locate(name)
            self._make_folder(files, parent_of(path))
            with files.open(path, "wb") as file:
                for piece in pieces:
                    file.write(piece)

    def _make_folder(self, files: Any, path: str) -> None:
        if path not in self._made:
            files.makedirs(path, exist_ok=True)
            self._made.add(path)

    def size(self, name: str) -> int:
        with self._answering():
            files, path = self._locate(name)
            files.invalidate_cache(parent_of(path))
            return int(files.info(path)["size"])

    def read(self, name: str, position: int, length: int) -> bytes:
        with self._answering():
            files, path = self._locate(name)
            return bytes(files.cat_file(path, start=position, end=position + length))

    def delete(self, name: str) -> None:
        with self._answering():
            files, path = self._locate(name)
            try:
                files.rm_file(path)
            except FileNotFoundError:
                return

    def delete_folder(self, name: str) -> None:
        with self._answering():
            files, path = self._locate(name)
            files.invalidate_cache()
            self._made.clear()
            try:
                files.rm(path, recursive=True)
            except FileNotFoundError:
                return

    def _locate(self, name: str) -> tuple[Any, str]:
        """The file system, opened on first use since opening may mean connecting, and the object's path there."""
        with self._lock:
            if self._opened is None:
                from fsspec.core import url_to_fs

                self._opened = url_to_fs(self._url)
            files, root = self._opened
        return files, f"{root.rstrip('/')}/{name}"

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except HeadwaterError:
            raise  # from the one who gives the pieces of an object
        except Exception as error:
            # Every file system has errors of its own; none of them may pass for an error of the log.
            raise ArchiveUnavailable(self._shown, str(error) or type(error).__name__) from error


def check_protocols(url: str, shown: str) -> None:
    """InvalidSetting if a part of the URL is of a kind that is unknown, or whose package is not installed."""
    from fsspec import get_filesystem_class

    for part in url.split("::"):
        protocol = part.partition("://")[0]
        try:
            get_filesystem_class(protocol)
        except (ImportError, ValueError) as error:
            raise InvalidSetting("archive_url", shown, str(error)) from None
