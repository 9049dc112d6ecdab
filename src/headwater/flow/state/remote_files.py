"""State on any file system that fsspec reaches, with a cache on the local disk.

Files are written locally, then put as a whole; an object store shows an object when all of it is there, and is believed
when it says so. Where names are changed by renaming, a file is put under another name first. Runs are read through the
cache: a copy is fetched once and mapped. The cache is bounded, shared by the processes of a machine, and may be deleted
at any time.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from headwater.errors import HeadwaterError, StateUnavailable
from headwater.flow.state.files import StateWriter, StoredFile, map_file
from headwater.log.storage import Buffer, parent_of

CACHE_BYTES_MAX = 8 * 1024**3
RENAMING_PROTOCOLS = {"file", "local", "hdfs", "webhdfs", "arrow_hdfs", "sftp", "ssh", "smb", "dbfs", "ftp"}
TIMES = ("mtime", "modified", "LastModified", "last_modified", "updated", "created")


class RemoteFiles:
    def __init__(self, url: str, *, cache: Path | None = None, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.url = url
        self._opened: tuple[Any, str] | None = None
        self._made: set[str] = set()
        self._cache = cache or Path(tempfile.gettempdir()) / f"headwater-state-{os.getuid()}"
        self._cache_bytes_max = cache_bytes_max

    def create(self, path: str) -> StateWriter:
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        return RemoteWriter(self._cache / f"{uuid4().hex}.new", lambda local: self._put(local, path))

    def replace(self, path: str, content: bytes) -> None:
        with self._answering(path):
            files, remote = self._place(path)
            self._make_folder(files, remote)
            if self._renames(files):
                fresh = f"{remote}.{uuid4().hex}.new"
                files.pipe_file(fresh, content)
                files.mv(fresh, remote)
            else:
                files.pipe_file(remote, content)

    def read(self, path: str) -> bytes:
        with self._answering(path):
            files, remote = self._place(path)
            return bytes(files.cat_file(remote))

    def map(self, path: str) -> pa.Buffer:
        copy = self._copy_of(path)
        with self._answering(path):
            try:
                buffer = map_file(str(copy))
                os.utime(copy)  # the ones used least recently go first
            except FileNotFoundError:
                self._fetch(path, copy)
                buffer = map_file(str(copy))
            return buffer

    def forget(self, path: str) -> bool:
        copy = self._copy_of(path)
        present = copy.exists()
        copy.unlink(missing_ok=True)
        return present

    def list(self, folder: str) -> list[StoredFile]:
        with self._answering(folder):
            files, remote = self._place(folder)
            files.invalidate_cache()
            try:
                found = [info for info in files.ls(remote, detail=True) if info["type"] == "file"]
            except FileNotFoundError:
                return []
            listed = [StoredFile(_name(info), int(info["size"]), _modified_ms(files, info)) for info in found]
            return sorted(listed)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._answering(path):
                files, remote = self._place(path)
                try:
                    files.rm_file(remote)
                except FileNotFoundError:
                    pass
            self.forget(path)

    def _put(self, local: Path, path: str) -> None:
        with self._answering(path):
            files, remote = self._place(path)
            self._make_folder(files, remote)
            if self._renames(files):
                fresh = f"{remote}.new"
                files.put_file(str(local), fresh)
                files.mv(fresh, remote)
            else:
                files.put_file(str(local), remote)
            local.replace(self._copy_of(path))
        self._bound_cache()

    def _fetch(self, path: str, copy: Path) -> None:
        files, remote = self._place(path)
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._cache / f"{uuid4().hex}.new"
        try:
            files.get_file(remote, str(fresh))
            # Under its name only as a whole, for other processes fetch and read the same.
            fresh.replace(copy)
        finally:
            fresh.unlink(missing_ok=True)
        self._bound_cache(spare=copy)

    def _bound_cache(self, spare: Path | None = None) -> None:
        """Delete the copies used least recently until the rest fits; a process that has mapped one keeps it."""
        entries = sorted(_sizes_and_ages(self._cache))
        total = sum(size for _, size, _ in entries)
        for _, size, copy in entries:
            if total <= self._cache_bytes_max:
                return
            if copy != spare:
                copy.unlink(missing_ok=True)
                total -= size

    def _copy_of(self, path: str) -> Path:
        return self._cache / f"{hashlib.sha256(f'{self.url}/{path}'.encode()).hexdigest()}.copy"

    def _place(self, path: str) -> tuple[Any, str]:
        if self._opened is None:
            from fsspec.core import url_to_fs

            self._opened = url_to_fs(self.url)
        files, root = self._opened
        return files, f"{root.rstrip('/')}/{path}"

    def _make_folder(self, files: Any, remote: str) -> None:
        folder = parent_of(remote)
        if folder not in self._made:
            files.makedirs(folder, exist_ok=True)
            self._made.add(folder)

    @staticmethod
    def _renames(files: Any) -> bool:
        protocols = files.protocol if isinstance(files.protocol, list | tuple) else [files.protocol]
        return not RENAMING_PROTOCOLS.isdisjoint(protocols)

    @contextmanager
    def _answering(self, path: str) -> Iterator[None]:
        try:
            yield
        except (HeadwaterError, FileNotFoundError):
            raise
        except Exception as error:
            # Every file system has errors of its own.
            raise StateUnavailable(f"{self.url}/{path}", str(error) or type(error).__name__) from error


class RemoteWriter:
    """A file on the local disk that is handed on when it is complete."""

    def __init__(self, local: Path, put: Callable[[Path], None]) -> None:
        self._local, self._put = local, put
        self._file = local.open("wb")

    def write(self, buffers: list[Buffer]) -> None:
        try:
            self._file.writelines(buffers)
        except OSError as error:
            raise StateUnavailable(str(self._local), str(error)) from error

    def finish(self) -> None:
        self._file.close()
        try:
            self._put(self._local)
        finally:
            self._local.unlink(missing_ok=True)

    def abandon(self) -> None:
        self._file.close()
        self._local.unlink(missing_ok=True)


def _sizes_and_ages(cache: Path) -> Iterator[tuple[float, int, Path]]:
    for copy in cache.glob("*.copy"):
        try:
            status = copy.stat()
        except FileNotFoundError:
            continue  # another process made room
        yield status.st_mtime, status.st_size, copy


def _name(info: dict[str, Any]) -> str:
    return str(info["name"]).rstrip("/").rpartition("/")[2]


def _modified_ms(files: Any, info: dict[str, Any]) -> int:
    """When a file was written, by the clock of its own file system; each kind says it in its own way."""
    said = next((info[name] for name in TIMES if info.get(name) is not None), None)
    if not isinstance(said, int | float | datetime):
        said = files.modified(info["name"])
    seconds = said.timestamp() if isinstance(said, datetime) else float(said)
    return int(seconds * 1000)
