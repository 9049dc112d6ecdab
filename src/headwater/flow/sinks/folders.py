"""A folder in which files appear whole: on a disk, or in whatever fsspec reaches."""

from contextlib import suppress
from pathlib import Path
from typing import Protocol

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headwater.errors import StoreUnavailable
from headwater.log.storage import LocalStorage, Storage, parent_of, read_whole, replace_durably


class Folder(Protocol):
    url: str

    def put(self, path: str, content: bytes) -> None:
        """When this returns, the file holds `content` for good; until then it is as it was before."""

    def get(self, path: str) -> bytes | None: ...


class DiskFolder:
    def __init__(self, storage: Storage, url: str) -> None:
        self.url = url
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
        self.url = url
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


def folder_at(url: str) -> Folder:
    files, path = fsspec.url_to_fs(url)
    if not isinstance(files, LocalFileSystem):
        return ObjectFolder(url)
    Path(path).mkdir(parents=True, exist_ok=True)
    return DiskFolder(LocalStorage(path), url)
