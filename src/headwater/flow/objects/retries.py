"""Objects at a place that is slow or fails now and then: each call is repeated, for a bounded time.

A swap is repeated only after a look at what is there: it may have happened although its answer was lost, or be on its
way. Every content that is swapped is unlike any other (checkpoint.py sees to that), so that the look decides.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import TypeVar

from headwater.errors import StateUnavailable
from headwater.flow.objects.objects import Objects, Overtaken, Stored, Tagged

PAUSES_MS = (100, 200, 400, 800, 1600, 3200)

Result = TypeVar("Result")
Wait = Callable[[float], object]


class RetriedObjects:
    def __init__(self, objects: Objects, *, pauses_ms: tuple[int, ...] = PAUSES_MS, wait: Wait | None = None) -> None:
        self._objects, self._pauses_ms = objects, pauses_ms
        self._wait = wait or Event().wait
        self.url = objects.url

    def read(self, path: str) -> bytes:
        return self._repeated(lambda: self._objects.read(path))

    def write(self, path: str, content: bytes) -> None:
        self._repeated(lambda: self._objects.write(path, content))

    def upload(self, path: str, local: Path) -> None:
        self._repeated(lambda: self._objects.upload(path, local))

    def download(self, path: str, local: Path) -> None:
        self._repeated(lambda: self._objects.download(path, local))

    def copy(self, path: str, new: str) -> None:
        self._repeated(lambda: self._objects.copy(path, new))

    def tagged(self, path: str) -> Tagged | None:
        return self._repeated(lambda: self._objects.tagged(path))

    def delete(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        self._repeated(lambda: self._objects.delete(wanted))

    def list(self, folder: str) -> list[Stored]:
        return self._repeated(lambda: self._objects.list(folder))

    def swap(self, path: str, content: bytes, tag: str | None) -> str:
        def swapped() -> str:
            try:
                return self._objects.swap(path, content, tag)
            except Overtaken:
                found = self._objects.tagged(path)
                if found is None or found.content != content:
                    raise
                return found.tag  # by an attempt before, whose answer was lost

        return self._repeated(swapped)

    def _repeated(self, call: Callable[[], Result]) -> Result:
        for pause_ms in self._pauses_ms:
            try:
                return call()
            except StateUnavailable:
                self._wait(pause_ms / 1000)
        try:
            return call()
        except StateUnavailable as error:
            raise StateUnavailable(error.path, f"{error.cause} ({len(self._pauses_ms) + 1} attempts)") from error


def open_objects(url: str) -> Objects:
    """The objects at a path of this machine, or at a URL."""
    from headwater.flow.objects.bucket_objects import BucketObjects
    from headwater.flow.objects.folder_objects import FolderObjects

    if "://" not in url or url.startswith("file://"):
        return RetriedObjects(FolderObjects(url.removeprefix("file://")))
    return RetriedObjects(BucketObjects(url))
