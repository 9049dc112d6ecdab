"""What the state needs from a file system: the only way it touches files.

Paths are relative to the store, separated by "/". Files are written once, under names that are new, and only
manifests are replaced. Three implementations keep the contract (tests/flow/state/files_contract.py): a disk, through
the storage interface of the log, objects of a bucket (object_files.py), and a checkpoint that is kept in objects
(checkpoint_files.py).

A missing file is FileNotFoundError; whatever else keeps a call from its work is StateUnavailable.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import pyarrow as pa

from headwater.errors import StateUnavailable
from headwater.log.storage import Buffer, File, LocalStorage, Storage, parent_of, read_whole, replace_durably


class StoredFile(NamedTuple):
    name: str
    bytes: int
    modified_ms: int


class StateWriter(Protocol):
    """A file that is being written. Nothing may rely on it before `finish` returned."""

    def write(self, buffers: list[Buffer]) -> None: ...

    def finish(self) -> None:
        """Content and name survive a power cut when this returns."""

    def abandon(self) -> None:
        """Give up; what is left of the file, if anything, is cleaned with the other leftovers."""


class StateFiles(Protocol):
    url: str
    """Where another process finds the same files; "" if it cannot."""

    def create(self, path: str) -> StateWriter: ...

    def replace(self, path: str, content: bytes) -> None:
        """After this returns the file holds `content`; after a crash before that, the old content or the new."""

    def read(self, path: str) -> bytes: ...

    def map(self, path: str) -> pa.Buffer:
        """The whole file as memory that is read where it is touched; it stays readable after the file is deleted."""

    def forget(self, path: str) -> bool:
        """Drop a local copy of a file, so that it is fetched again; False if there is none."""

    def times(self, folder: str) -> list[StoredFile]:
        """Files in a folder, and when each was written; 0 for one that the place does not list (yet)."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files of one folder; they do not come back after a power cut. Missing ones are no error."""

    def list(self, folder: str) -> list[StoredFile]:
        """Files in a folder, by name; none if it is missing. Their times may be 0."""


class DiskWriter:
    def __init__(self, storage: Storage, path: str) -> None:
        self._storage, self._path = storage, path
        self._file: File = storage.open(path, create=True)
        self._position = 0

    def write(self, buffers: list[Buffer]) -> None:
        with answering(self._path):
            self._file.write_at(self._position, buffers)
        self._position += sum(map(len, buffers))

    def finish(self) -> None:
        with answering(self._path):
            self._file.sync()
            self._file.close()
            self._storage.sync_directory(parent_of(self._path))

    def abandon(self) -> None:
        with answering(self._path):
            self._file.close()
            self._storage.delete(self._path)


class DiskFiles:
    """A folder of a disk, which need not be there yet. On local files, reading is mapping."""

    def __init__(self, storage: Storage, root: str, url: str = "") -> None:
        self._storage, self._root = storage, root
        self.url = url
        self._made: set[str] = set()

    @classmethod
    def at(cls, folder: str) -> "DiskFiles":
        absolute = os.path.abspath(folder)
        return cls(LocalStorage("/"), absolute.strip("/"), absolute)

    def create(self, path: str) -> StateWriter:
        with answering(path):
            self._make_folder_for(path)
            return DiskWriter(self._storage, self._path(path))

    def replace(self, path: str, content: bytes) -> None:
        with answering(path):
            self._make_folder_for(path)
            replace_durably(self._storage, self._path(path), content)

    def read(self, path: str) -> bytes:
        with answering(located(self, path)):
            return read_whole(self._storage, self._path(path))

    def map(self, path: str) -> pa.Buffer:
        with answering(located(self, path)):
            if isinstance(self._storage, LocalStorage):
                return map_file(f"/{self._path(path)}")
            return pa.py_buffer(read_whole(self._storage, self._path(path)))

    def forget(self, path: str) -> bool:
        return False

    def times(self, folder: str) -> list[StoredFile]:
        return [*self._listed(self._path(folder))]

    def _listed(self, folder: str) -> Iterator[StoredFile]:
        with answering(folder):
            names = self._storage.list(folder)
        for name in names:
            path = f"{folder}/{name}"
            try:
                with answering(path):
                    yield StoredFile(name, self._storage.size(path), self._storage.modified_ms(path))
            except FileNotFoundError:
                continue  # a task gave it up, or another cleaning was faster

    def delete(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in map(self._path, paths):
            with answering(path):
                self._storage.delete(path)
            folders.add(parent_of(path))
        for folder in folders:
            with answering(folder):
                self._storage.sync_directory(folder)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _make_folder_for(self, path: str) -> None:
        folder = parent_of(self._path(path))
        if not self._storage.is_directory(folder):
            self._made.clear()  # moved or removed by another object, as when a rebuilt view takes another's place
        self._make_folder(folder)

    def _make_folder(self, folder: str) -> None:
        """A folder whose name survives a power cut, and those above it."""
        if not folder or folder in self._made:
            return
        above = parent_of(folder)
        self._make_folder(above)
        # What lies above the state and was there before is not ours, and perhaps not ours to open.
        if folder.startswith(f"{self._root}/") or not self._storage.is_directory(folder):
            self._storage.make_directory(folder)
            self._storage.sync_directory(above)
        self._made.add(folder)

    def list(self, folder: str) -> list[StoredFile]:
        return self.times(folder)


def located(files: StateFiles, path: str) -> str:
    """A path as an operator finds the file."""
    return f"{files.url}/{path}" if files.url else path


def map_file(path: str) -> pa.Buffer:
    with pa.memory_map(path) as mapped:
        return mapped.read_buffer()


@contextmanager
def answering(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateUnavailable(path, str(error)) from error
