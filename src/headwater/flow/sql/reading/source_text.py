"""SQL text and where it stands, so that every complaint names file, line and column (pure)."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place


class Spot(NamedTuple):
    """Line and column, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class SourceText:
    """The text of a file, or one that is given to `app.sql` at a line of Python."""

    text: str
    place: Place
    in_python: bool

    def spot(self, start: int) -> Spot:
        """
        >>> SourceText("select 1;\\nselect x", Place("a.sql", 1), in_python=False).spot(17)
        Spot(line=2, column=8)
        """
        before = self.text[: max(start, 0)]
        return Spot(before.count("\n") + 1, len(before) - before.rfind("\n"))

    def place_at(self, start: int) -> Place:
        """What steps that are made of the text there are said to be declared at."""
        if self.in_python:
            return self.place
        return Place(self.place.file, *self.spot(start))

    def refusal(self, start: int, message: str, hint: str = "") -> InvalidDeclaration:
        """
        >>> str(SourceText("x", Place("a.sql", 1), in_python=False).refusal(0, "x is no statement", "Write CREATE."))
        'a.sql:1:1: x is no statement. Write CREATE.'
        """
        if not self.in_python:
            return InvalidDeclaration(f"{self.place_at(start)}: {message}", hint)
        spot = self.spot(start)
        said = message.removeprefix("it") if message.startswith("it ") else f": {message}"
        return InvalidDeclaration(f"sql at {self.place}{said} (line {spot.line}, column {spot.column} of it)", hint)


def start_of(node: exp.Expr) -> int:
    """Where in the text a part of a query begins, as far as its names and values say; 0 if none does."""
    starts = [int(one.meta["start"]) for one in node.walk() if "start" in one.meta]
    return min(starts, default=0)
