"""Mistakes of an app, gathered so that they are shown all at once and not one with each attempt."""

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import InvalidDeclaration


class Mistakes:
    """Each is kept once: a step that several outputs have is wrong once."""

    def __init__(self) -> None:
        self._found: dict[str, InvalidDeclaration] = {}

    def add(self, error: InvalidDeclaration) -> None:
        for one in (error, *error.also):
            self._found.setdefault(str(one), one)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """What is wrong within the block is kept, and the rest of the block passed over."""
        try:
            yield
        except InvalidDeclaration as error:
            self.add(error)

    def refuse(self) -> None:
        """The first mistake, with all others, if there is one."""
        if self._found:
            first, *others = self._found.values()
            first.also = tuple(others)
            raise first
