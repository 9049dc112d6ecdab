"""Aggregates that Spark has no name for: `hw.percentile("ms", 0.99).alias("p99")`; written down, no Spark runs yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.nodes import Expression
from headwater.flow.declare.place import Place, calling_place
from headwater.flow.operators.kinds.options import Limit, Options


@dataclass(frozen=True, eq=False)
class OwnAggregate:
    """One of headwater's aggregates, of columns or expressions. Give it a name with `alias`."""

    kind: str
    columns: tuple[Expression, ...]
    options: Options
    place: Place
    said: str
    """Its parameters as the user would write them."""
    name: str = ""

    def alias(self, name: str) -> "OwnAggregate":
        return replace(self, name=name)

    @property
    def call(self) -> str:
        """
        >>> print(collect("name", limit=3).alias("first_names"))
        collect(name, limit=3) as first_names
        """
        shown = ", ".join([*map(_text, self.columns), *([self.said] if self.said else [])])
        return f"{self.kind}({shown})"

    def __str__(self) -> str:
        return f"{self.call} as {self.name}" if self.name else self.call


def _text(expression: Expression) -> str:
    text = str(expression)
    return text.removeprefix("Column<'").removesuffix("'>")


def positive(given: object, what: str, most: int = 2**31 - 1) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
        raise InvalidDeclaration(f"{what} ({calling_place()}) is {given!r}", f"Take a number from 1 to {most}.")
    return given


def own(kind: str, columns: Sequence[Expression], options: Options, said: str = "") -> OwnAggregate:
    return OwnAggregate(kind, tuple(columns), options, calling_place(), said)


def collect(column: Expression, *, limit: int) -> OwnAggregate:
    """The first values of each key in the order of time, `limit` at most; the others are not kept."""
    return own("collect", [column], Limit(positive(limit, "the limit of collect")), f"limit={limit}")
