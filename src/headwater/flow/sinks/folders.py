"""A folder in which files appear whole: on a disk, or in whatever fsspec reaches; and what sinks note in one."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headwater.errors import JobRefused, StoreUnavailable
from headwater.log.storage import LocalStorage, Storage, parent_of, read_whole, replace_durably
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.small_file import SmallFile, copy_path, read_newest, seal


class Folder(Protocol):
    url: str

    def put(self, path: str, content: bytes) -> None:
        """When this returns, the file holds `content` for good; until then it is as it was before."""

    def get(self, path: str) -> bytes | None: ...


class DiskFolder:
    def __init__(self, storage: Storage, url: str) -> None:
        self.url = without_secrets(url)
        self._storage = storage

    def put(self, path: str, content: bytes) -> None:
        folder, _, name = path.rpartition("/")
        # A name with a dot in front: whoever reads the folder passes over what a crash leaves behind.
        hidden = f"{folder}/.{name}.new".lstrip("/")
        try:
            self._make(folder)
            replace_durably(self._storage, path, content, fresh=hidden)
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error

    def get(self, path: str) -> bytes | None:
        try:
            return read_whole(self._storage, path)
        except FileNotFoundError:
            return None
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
        try:
            # Some file systems behind fsspec have folders, and want them made.
            with suppress(NotImplementedError):
                self._files.makedirs(parent_of(f"{self._root}/{path}"), exist_ok=True)
            self._files.pipe_file(f"{self._root}/{path}", content)
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error

    def get(self, path: str) -> bytes | None:
        try:
            content: bytes = self._files.cat_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(self.url, str(error)) from error
        return content


class Note:
    """A small file (small_file.py) in a folder: it has a checksum, and a copy from which it is read if damaged."""

    def __init__(self, folder: Folder, path: str) -> None:
        self._folder, self._path = folder, path

    @property
    def url(self) -> str:
        return f"{self._folder.url}/{self._path}"

    def read(self) -> Any:
        """What was noted last; None if nothing was. JobRefused, which names the file, if nobody knows any more."""
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
            f"{self.url} is damaged ({why}), and nobody knows which batches are in",
            "Restore that file from a backup, or let the output begin elsewhere.",
        )


def folder_at(url: str) -> Folder:
    if "://" in url and not url.partition("://")[2].startswith("/") and (why := ambiguity(url)):
        raise JobRefused(f"the URL of a folder for files {why}", WAY_OUT)
    files, path = fsspec.url_to_fs(url)
    if not isinstance(files, LocalFileSystem):
        return ObjectFolder(url)
    Path(path).mkdir(parents=True, exist_ok=True)
    return DiskFolder(LocalStorage(path), url)
