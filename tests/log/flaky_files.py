"""An fsspec file system in memory that breaks when told to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

URL = "flaky://archive"


class Killed(BaseException):
    """The process ends here, as if by kill -9."""


class FlakyFiles(MemoryFileSystem):  # type: ignore[misc]
    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    on_call: ClassVar[Callable[[str, str], None] | None] = None
    damage: ClassVar[Callable[[bytes], bytes] | None] = None

    def _called(self, operation: str, path: str) -> None:
        if FlakyFiles.on_call is not None:
            FlakyFiles.on_call(operation, path)

    def _open(self, path: str, mode: str = "rb", **named: Any) -> Any:
        if mode == "wb":
            self._called("begin", path)
        file = super()._open(path, mode, **named)
        if mode == "wb":
            plain_write = file.write

            def write(piece: bytes) -> int:
                plain_write(piece[: len(piece) // 2])
                self._called("write", path)
                return int(plain_write(piece[len(piece) // 2 :]))

            file.write = write
        return file

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **named: Any) -> bytes:
        self._called("read", path)
        data = bytes(super().cat_file(path, start=start, end=end, **named))
        return data if FlakyFiles.damage is None else FlakyFiles.damage(data)

    def info(self, path: str, **named: Any) -> Any:
        self._called("info", path)
        return super().info(path, **named)

    def rm_file(self, path: str) -> None:
        self._called("delete", path)
        super().rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        self._called("delete", str(path))
        super().rm(path, recursive=recursive, maxdepth=maxdepth)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._called("make", path)
        super().makedirs(path, exist_ok=exist_ok)


@contextmanager
def flaky_files() -> Iterator[type[FlakyFiles]]:
    """An empty one, sound until told otherwise."""
    fsspec.register_implementation("flaky", FlakyFiles, clobber=True)
    _make_whole()
    try:
        yield FlakyFiles
    finally:
        _make_whole()


def _make_whole() -> None:
    FlakyFiles.store.clear()
    FlakyFiles.pseudo_dirs[:] = [""]
    FlakyFiles.on_call = FlakyFiles.damage = None


def away(operation: str, path: str) -> None:
    """An `on_call` for a place that does not answer."""
    raise ConnectionError("no route to host")
