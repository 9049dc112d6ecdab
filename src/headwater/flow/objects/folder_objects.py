"""Objects in a folder that several machines may share.

    <folder>/runs/00003-9f…c2.arrow      written under another name, synced, renamed
    <folder>/head.json/000000000041      the content after the 41st swap

A swap makes the file with the next number, by a link that fails if there is one: no lock is held, so that a process
that is stopped in the middle of a swap holds nobody up. The last contents stay, so that a number that is linked late
is seen to be late.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from headwater.errors import StateUnavailable
from headwater.flow.objects.objects import Overtaken, Stored, Tagged

KEPT = 8
ATTEMPTS = 100


class FolderObjects:
    def __init__(self, folder: str) -> None:
        self._root = Path(os.path.abspath(folder))
        self.url = str(self._root)

    def read(self, path: str) -> bytes:
        with self._answering(path):
            return (self._root / path).read_bytes()

    def write(self, path: str, content: bytes) -> None:
        with self._answering(path), self._fresh(path) as fresh:
            fresh.write_bytes(content)
            self._publish(fresh, self._root / path)

    def upload(self, path: str, local: Path) -> None:
        with self._answering(path), self._fresh(path) as fresh:
            shutil.copyfile(local, fresh)
            self._publish(fresh, self._root / path)

    def download(self, path: str, local: Path) -> None:
        with self._answering(path):
            shutil.copyfile(self._root / path, local)

    def copy(self, path: str, new: str) -> None:
        self.upload(new, self._root / path)

    def tagged(self, path: str) -> Tagged | None:
        with self._answering(path):
            for _ in range(ATTEMPTS):  # while we look, others swap and remove what was there
                numbers = self._numbers(path)
                if not numbers:
                    return None
                with suppress(FileNotFoundError):
                    return Tagged((self._root / path / _name(numbers[-1])).read_bytes(), str(numbers[-1]))
            raise StateUnavailable(f"{self.url}/{path}", "it changes all the time")

    def swap(self, path: str, content: bytes, tag: str | None) -> str:
        number = 1 if tag is None else int(tag) + 1
        place = self._root / path / _name(number)
        with self._answering(path), self._fresh(f"{path}/{_name(number)}") as fresh:
            fresh.write_bytes(content)
            _sync(fresh)
            try:
                os.link(fresh, place)
            except FileExistsError:
                raise Overtaken(path) from None
            _sync(place.parent)
            numbers = self._numbers(path)
            if numbers[-1] != number:  # its number was free because it is long past, or another one is newer already
                raise Overtaken(path)
            for old in numbers[:-KEPT]:
                (self._root / path / _name(old)).unlink(missing_ok=True)
        return str(number)

    def delete(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            with self._answering(path):
                (self._root / path).unlink(missing_ok=True)
                folders.add((self._root / path).parent)
        for folder in folders:
            with self._answering(str(folder)), suppress(FileNotFoundError):
                _sync(folder)

    def _numbers(self, path: str) -> list[int]:
        with suppress(FileNotFoundError):
            return sorted(int(name) for name in os.listdir(self._root / path) if name.isdigit())
        return []

    @contextmanager
    def _fresh(self, path: str) -> Iterator[Path]:
        """A name beside an object's that nobody else writes to; what is left under it is removed."""
        place = self._root / path
        _make(place.parent)
        fresh = place.parent / f".{uuid4().hex}.new"
        try:
            yield fresh
        finally:
            fresh.unlink(missing_ok=True)

    @staticmethod
    def _publish(fresh: Path, place: Path) -> None:
        _sync(fresh)
        fresh.replace(place)
        _sync(place.parent)

    @contextmanager
    def _answering(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StateUnavailable(f"{self.url}/{path}", str(error)) from error

    def list(self, folder: str) -> list[Stored]:
        found = []
        with self._answering(folder), suppress(FileNotFoundError):
            for entry in os.scandir(self._root / folder):
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        status = entry.stat()
                        found.append(Stored(entry.name, status.st_size, status.st_mtime_ns // 1_000_000))
        return sorted(found)


def _name(number: int) -> str:
    return f"{number:012d}"


def _make(folder: Path) -> None:
    """A folder whose name survives a power cut, and those above it."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
