"""State in objects of a bucket, with a cache on the local disk.

Files are written locally, then uploaded as a whole: an object is there when all of it is. Runs are read through the
cache: a copy is fetched once, checked against the checksum of its manifest (runs/run.py) and mapped. The cache is
bounded, shared by the processes of a machine, and may be deleted at any time.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from headwater.errors import StateUnavailable
from headwater.flow.objects.objects import Objects
from headwater.flow.state.files import StateWriter, StoredFile, map_file
from headwater.log.storage import Buffer

CACHE_BYTES_MAX = 8 * 1024**3


class ObjectFiles:
    def __init__(self, objects: Objects, *, cache: Path | None = None, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._objects, self.url = objects, objects.url
        self._cache = cache or Path(tempfile.gettempdir()) / f"headwater-state-{os.getuid()}"
        self._cache_bytes_max = cache_bytes_max

    def create(self, path: str) -> StateWriter:
        with _of_the_cache(self._cache):
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            return ObjectWriter(self._cache / f"{uuid4().hex}.new", lambda local: self._put(local, path))

    def replace(self, path: str, content: bytes) -> None:
        self._objects.write(path, content)

    def read(self, path: str) -> bytes:
        return self._objects.read(path)

    def map(self, path: str) -> pa.Buffer:
        copy = self._copy_of(path)
        with _of_the_cache(copy):
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

    def times(self, folder: str) -> list[StoredFile]:
        return [StoredFile(*one) for one in self._objects.list(folder)]

    def delete(self, paths: Iterable[str]) -> None:
        wanted = [*paths]
        self._objects.delete(wanted)
        for path in wanted:
            self.forget(path)

    def _put(self, local: Path, path: str) -> None:
        self._objects.upload(path, local)
        with _of_the_cache(local):
            local.replace(self._copy_of(path))
        self._bound_cache()

    def _fetch(self, path: str, copy: Path) -> None:
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._cache / f"{uuid4().hex}.new"
        try:
            self._objects.download(path, fresh)
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

    def list(self, folder: str) -> list[StoredFile]:
        return self.times(folder)


@contextmanager
def _of_the_cache(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateUnavailable(str(path), str(error)) from error


class ObjectWriter:
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
