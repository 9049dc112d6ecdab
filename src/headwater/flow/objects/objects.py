"""What a checkpoint needs from the place that it is kept at: the only way it touches objects.

Objects are written whole, under names that are new, and never changed. One object of a job is replaced, its head
(checkpoint.py), and only by `swap`, which names what it replaces: of two drivers that replace the same content one
succeeds. Nothing is concluded from a list: it may lack what was just written, and names what was just deleted.

Two implementations keep the contract (tests/contracts/objects.py): a folder that machines share, and a bucket.

A missing object is FileNotFoundError; whatever else keeps a call from its work is StateUnavailable.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol


class Overtaken(Exception):
    """A swap named content that is no longer there: another one was first."""


class Tagged(NamedTuple):
    """Content, and the word by which a swap names it."""

    content: bytes
    tag: str


class Stored(NamedTuple):
    name: str
    bytes: int
    modified_ms: int
    """By the clock of the place."""


class Objects(Protocol):
    url: str
    """Where another process, on another machine, finds the same objects."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, content: bytes) -> None:
        """When this returns, the object is there for good; before, it is not there."""

    def upload(self, path: str, local: Path) -> None:
        """The same, of a file of this machine."""

    def download(self, path: str, local: Path) -> None: ...

    def copy(self, path: str, new: str) -> None:
        """Write what an object holds under another path."""

    def tagged(self, path: str) -> Tagged | None:
        """The content of an object that is swapped; None if there is none. Never older than the last swap."""

    def swap(self, path: str, content: bytes, tag: str | None) -> str:
        """Replace the content that has this tag, or make the object where it is None; returns the new tag.

        Overtaken if something else is there. After StateUnavailable the swap may have happened, or may yet.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Missing ones are no error."""

    def list(self, folder: str) -> list[Stored]:
        """A hint at the objects in a folder, by name."""
