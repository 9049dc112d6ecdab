"""Objects in memory, at a place that does with calls what networks do: requests and answers are lost, requests come
late or twice, and processes die in between."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headwater.errors import StateUnavailable
from headwater.flow.objects.objects import Overtaken, Stored, Tagged

Result = TypeVar("Result")
KINDS = ["lost", "unanswered", "late", "twice", "killed before", "killed after"]


class Killed(Exception):
    """The process ends here."""


@dataclass
class Place:
    """What several processes reach."""

    contents: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    under_way: list[Callable[[], object]] = field(default_factory=list)
    number: int = 0

    def write(self, path: str, content: bytes) -> str:
        self.number += 1
        self.contents[path], self.tags[path] = content, self.number
        return str(self.number)

    def swap(self, path: str, content: bytes, tag: str | None) -> str:
        there = str(self.tags[path]) if path in self.contents else None
        if there != tag:
            raise Overtaken(path)
        return self.write(path, content)


class SimulatedObjects:
    """One process's way to the place; `faults` says of its n-th request what happens to it."""

    def __init__(self, place: Place, seed: int = 0, *, faults: float = 0.0, deadly: bool = False) -> None:
        self.url = "simulated"
        self.place, self._random, self._faults = place, random.Random(seed), faults
        self._kinds = KINDS if deadly else KINDS[:4]

    def read(self, path: str) -> bytes:
        return self._request(lambda: self._there(path), changes=False)

    def write(self, path: str, content: bytes) -> None:
        self._request(lambda: self.place.write(path, content))

    def upload(self, path: str, local: Path) -> None:
        self.write(path, local.read_bytes())

    def download(self, path: str, local: Path) -> None:
        local.write_bytes(self.read(path))

    def copy(self, path: str, new: str) -> None:
        self.write(new, self.read(path))

    def tagged(self, path: str) -> Tagged | None:
        def look() -> Tagged | None:
            found = self.place.contents.get(path)
            return None if found is None else Tagged(found, str(self.place.tags[path]))

        return self._request(look, changes=False)

    def swap(self, path: str, content: bytes, tag: str | None) -> str:
        return self._request(lambda: self.place.swap(path, content, tag))

    def delete(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        self._request(lambda: [self.place.contents.pop(path, None) for path in wanted])

    def list(self, folder: str) -> list[Stored]:
        """Lacks what was written last, and has what was deleted."""
        names = [path.removeprefix(f"{folder}/") for path in self.place.contents if path.startswith(f"{folder}/")]
        return [*(Stored(name, 1, 1) for name in sorted(names)[:-1]), Stored("000000000000-deleted.json", 1, 1)]

    def _there(self, path: str) -> bytes:
        if path not in self.place.contents:
            raise FileNotFoundError(path)
        return self.place.contents[path]

    def _request(self, call: Callable[[], Result], *, changes: bool = True) -> Result:
        if self.place.under_way and self._random.random() < 0.5:
            self._arrives(self.place.under_way.pop(0))
        if self._random.random() >= self._faults:
            return call()
        kind = self._random.choice(self._kinds)
        if kind == "killed before":
            raise Killed
        if kind == "twice" and changes:
            self.place.under_way.append(call)
            return call()
        if kind == "late" and changes:
            self.place.under_way.append(call)
        if kind in ("unanswered", "killed after"):
            self._arrives(call)
        if kind == "killed after":
            raise Killed
        raise StateUnavailable("simulated", kind)

    @staticmethod
    def _arrives(call: Callable[[], object]) -> None:
        """Nobody hears the answer."""
        try:
            call()
        except (Overtaken, FileNotFoundError):
            return
