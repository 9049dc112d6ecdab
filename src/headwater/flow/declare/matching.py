"""What rows of two inputs must have in common to be joined: `orders.user_id == users.id`, and more with `&`.

An equality of a column of each is what rows are brought together by; other comparisons are looked at when they are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.topology.nodes import STREAM_JOINS, Node, walk
from headwater.flow.operators.joins.pairing import MIRRORED, Condition

if TYPE_CHECKING:
    from headwater.flow.declare.stream import Flowing


OF_STREAMS = ("count", "window", "latest", "dedupe")


class ColumnOf:
    """A column of a stream or a table, to be compared with one of another."""

    __hash__ = object.__hash__

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.name = node, name

    def __call__(self, *_: object, **__: object) -> Any:
        what = "table" if self.node.keyed else "stream"
        hint = "Look for it in the guide."
        if self.node.keyed and self.name in OF_STREAMS:
            hint = (
                'Rows of a table are grouped by their columns: by(...).agg(...), agg("count(*) as n"), or by a window '
                "that with_columns(...) makes of a time."
            )
        if isinstance(self.node, STREAM_JOINS) and self.name in ("window", "dedupe"):
            hint = "Rows of a join with corrections= may be retracted: leave that out, and allow more lateness."
        raise InvalidDeclaration(f"a {what} has no method {self.name} ({calling_place()})", hint)

    def __eq__(self, other: object) -> "Match":  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> "Match":  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> "Match":
        return self._compared("<", other)

    def __le__(self, other: object) -> "Match":
        return self._compared("<=", other)

    def __gt__(self, other: object) -> "Match":
        return self._compared(">", other)

    def __ge__(self, other: object) -> "Match":
        return self._compared(">=", other)

    def _compared(self, sign: str, other: object) -> "Match":
        if not isinstance(other, ColumnOf):
            raise InvalidDeclaration(
                f"column {self.name} ({calling_place()}) is compared with {other!r}",
                "Columns of what is joined are compared with each other; for anything else use where(...).",
            )
        return Match((Facing(self, sign, other),))


class Facing(NamedTuple):
    one: ColumnOf
    sign: str
    other: ColumnOf


class Match:
    """Comparisons that must all hold."""

    def __init__(self, parts: tuple[Facing, ...]) -> None:
        self.parts = parts

    def __and__(self, other: "Match") -> "Match":
        return Match((*self.parts, *other.parts))

    def __bool__(self) -> bool:
        raise InvalidDeclaration(f"conditions of a join ({calling_place()}) are connected by & in brackets, not by and")


class Matching(NamedTuple):
    """Pairs of columns that are equal, and what else must hold."""

    on: tuple[tuple[str, str], ...]
    further: tuple[Condition, ...]


def matching_of(on: "str | Sequence[str] | Match", left: "Flowing", right: "Flowing") -> Matching:
    """InvalidDeclaration if it is not about columns of both."""
    given: object = on
    if isinstance(given, Match):
        sided = [_sided(part, left.node, right.node) for part in given.parts]
        equal = tuple((one.left, one.right) for one in sided if one.sign == "==")
        further = tuple(one for one in sided if one.sign != "==")
    else:
        names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
        equal, further = tuple((name, name) for name in names if isinstance(name, str)), ()
    if not equal:
        raise InvalidDeclaration(
            f"join() at {calling_place()} does not say which columns are equal",
            'Use on="user_id", or on=orders.user_id == users.id.',
        )
    for place, pair in enumerate(equal):
        for name, side, earlier in zip(pair, ("left", "right"), zip(*equal[:place], strict=True), strict=False):
            if name in earlier:
                raise InvalidDeclaration(
                    f"join() at {calling_place()} compares column {name} of the {side} twice",
                    "Once is enough; for a second comparison make a copy of it with with_columns(...).",
                )
    return Matching(equal, further)


def _sided(part: Facing, left: Node, right: Node) -> Condition:
    """With the column of the left first. Where both inputs are made from one, the order of the words decides."""
    one, other = part.one, part.other
    sides = [[side for side, node in enumerate((left, right)) if column.node in walk(node)] for column in (one, other)]
    exact = [[side for side, node in enumerate((left, right)) if column.node is node] for column in (one, other)]
    found = [chosen if len(chosen) == 1 else some for chosen, some in zip(exact, sides, strict=True)]
    if 0 in found[0] and 1 in found[1]:
        return Condition(one.name, part.sign, other.name)
    if 1 in found[0] and 0 in found[1]:
        return Condition(other.name, MIRRORED[part.sign], one.name)
    wrong = next((column for column, some in zip((one, other), sides, strict=True) if not some), other)
    raise InvalidDeclaration(
        f"the condition of join() at {calling_place()} compares {one.name} with {other.name}, "
        f"and {wrong.name} is not of the {'other' if any(sides) else 'two'} that are joined",
        "Compare a column of the one with a column of the other.",
    )
