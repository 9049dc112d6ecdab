"""Where in the user's file something was declared."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2]


class Place(NamedTuple):
    file: str
    line: int
    column: int = 0
    """Counted from 1, of SQL; 0 in Python, where a line says enough."""

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{Path(self.file).name}:{self.line}{column}"


_DECLARED: ContextVar[Place | None] = ContextVar("declared", default=None)


@contextmanager
def declared_at(place: Place) -> Iterator[None]:
    """What is found out later about something is reported with the line where it was declared."""
    token = _DECLARED.set(place)
    try:
        yield
    finally:
        _DECLARED.reset(token)


def calling_place() -> Place:
    """The nearest line up the stack that is not headwater's own."""
    if (declared := _DECLARED.get()) is not None:
        return declared
    frame = sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
