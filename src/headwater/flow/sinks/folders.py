"""A folder in which files appear whole: on a disk, or in whatever fsspec reaches; and what sinks note in one."""

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headwater.errors import JobRefused, StoreUnavailable
from headwater.log.storage import Buffer, File, LocalStorage, Storage, parent_of, read_whole, replace_durably
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.small_file import SmallFile, copy_path, read_newest, seal


class NoteFolder(Protocol):
    url: str

    def put(self, path: str, content: bytes) -> None:
        """When this returns, the file holds `content` for good; until then it is as it was before."""

    def get(self, path: str) -> bytes | None: ...


class Folder(NoteFolder, Protocol):
    def writing(self, path: str) -> AbstractContextManager[io.RawIOBase]:
        """A new file to write to, piece by piece; it holds all of it for good when the context ends."""

    def rename(self, path: str, new: str) -> None:
        """For good, and in place of a file that has that name."""

    def remove(self, path: str) -> None:
        """For good; one that is missing is no error."""

    def names(self, path: str) -> list[str]:
        """The files in a folder in it; none if it is missing."""


class _AppendedFile(io.RawIOBase):
    """A file of a storage, as Python's libraries write one."""

    def __init__(self, file: File) -> None:
        self._file, self._end = file, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._end

    def write(self, data: Buffer, /) -> int:  # type: ignore[override]  # of all that Python knows as buffers, ours
        content = memoryview(data).cast("B")
        self._file.write_at(self._end, [content])
        self._end += len(content)
        return len(content)


class DiskFolder:
    def __init__(self, storage: Storage, url: str) -> None:
        self.url = without_secrets(url)
        self._storage = storage

    def put(self, path: str, content: bytes) -> None:
        folder, _, name = path.rpartition("/")
        # A name with a dot in front: readers of the folder pass over what a crash leaves.
        hidden = f"{folder}/.{name}.new".lstrip("/")
        with self._translated():
            self._make(folder)
            replace_durably(self._storage, path, content, fresh=hidden)

    def get(self, path: str) -> bytes | None:
        try:
            return read_whole(self._storage, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error

    @contextmanager
    def writing(self, path: str) -> Iterator[io.RawIOBase]:
        with self._translated():
            self._make(parent_of(path))
            file = self._storage.open(path, create=True)
            try:
                file.truncate(0)
                yield _AppendedFile(file)
                file.sync()
            finally:
                file.close()
            self._storage.sync_directory(parent_of(path))

    def rename(self, path: str, new: str) -> None:
        with self._translated():
            self._make(parent_of(new))
            self._storage.rename(path, new)
            self._storage.sync_directory(parent_of(new))

    def remove(self, path: str) -> None:
        with self._translated():
            if self._storage.exists(path):
                self._storage.delete(path)
                self._storage.sync_directory(parent_of(path))

    def names(self, path: str) -> list[str]:
        with self._translated():
            return self._storage.list(path)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error

    def _make(self, folder: str) -> None:
        if not folder or self._storage.is_directory(folder):
            return
        self._make(parent_of(folder))
        self._storage.make_directory(folder)
        self._storage.sync_directory(parent_of(folder))


class ObjectFolder:
    """Object stores show an object when all of it is there, and keep it then."""

    def __init__(self, url: str) -> None:
        self.url = without_secrets(url)
        self._files, self._root = fsspec.url_to_fs(url)

    def put(self, path: str, content: bytes) -> None:
        with self._translated():
            self._files.pipe_file(self._made(path), content)

    def get(self, path: str) -> bytes | None:
        try:
            content: bytes = self._files.cat_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error
        return content

    @contextmanager
    def writing(self, path: str) -> Iterator[io.RawIOBase]:
        with self._translated(), self._files.open(self._made(path), "wb") as file:
            yield file

    def rename(self, path: str, new: str) -> None:
        with self._translated():
            self._files.mv(f"{self._root}/{path}", self._made(new))

    def remove(self, path: str) -> None:
        with self._translated(), suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{path}")

    def names(self, path: str) -> list[str]:
        with self._translated():
            try:
                found = self._files.ls(f"{self._root}/{path}", detail=False, refresh=True)
            except FileNotFoundError:
                return []
        return sorted(str(one).rstrip("/").rpartition("/")[2] for one in found)

    def _made(self, path: str) -> str:
        """Where a file goes. Some file systems behind fsspec have folders, and want them made."""
        whole = f"{self._root}/{path}"
        with suppress(NotImplementedError):
            self._files.makedirs(parent_of(whole), exist_ok=True)
        return whole

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error


class Note:
    """A small file (small_file.py) in a folder: it has a checksum, and a copy from which it is read if damaged."""

    def __init__(self, folder: NoteFolder, path: str) -> None:
        self._folder, self._path = folder, path

    @property
    def url(self) -> str:
        return f"{self._folder.url}/{self._path}"

    def read(self) -> Any:
        """What was noted last; None if nothing was. JobRefused, which names the file, if it is not known any more."""
        found = self._read()
        return None if found is None else found.content

    def write(self, content: object) -> None:
        found = self._read()
        data = seal(content, version=found.version + 1 if found else 1)
        self._folder.put(self._path, data)
        self._folder.put(copy_path(self._path), data)

    def _read(self) -> SmallFile | None:
        unavailable: list[StoreUnavailable] = []

        def read(path: str) -> bytes:
            try:
                content = self._folder.get(path)
            except StoreUnavailable as error:
                unavailable.append(error)
                raise OSError(str(error)) from None
            if content is None:
                raise FileNotFoundError(path)
            return content

        try:
            return read_newest(self._path, read)
        except FileNotFoundError:
            return None
        except ValueError as error:
            if len(unavailable) == 2:  # not the file: the store
                raise unavailable[0] from None
            raise self.damaged(str(error)) from None

    def damaged(self, why: str) -> JobRefused:
        return JobRefused(
            f"{self.url} is damaged ({why}), and which batches are in is not known",
            "Restore that file from a backup, or let the output begin elsewhere.",
        )


def absolute(url: str) -> str:
    """The same folder for a process that works in another."""
    files, path = fsspec.url_to_fs(url)
    return path if isinstance(files, LocalFileSystem) else url


def folder_at(url: str) -> Folder:
    if "://" in url and not url.partition("://")[2].startswith("/") and (why := ambiguity(url)):
        raise JobRefused(f"the URL of a folder for files {why}", WAY_OUT)
    files, path = fsspec.url_to_fs(url)
    if not isinstance(files, LocalFileSystem):
        return ObjectFolder(url)
    Path(path).mkdir(parents=True, exist_ok=True)
    return DiskFolder(LocalStorage(path), url)
