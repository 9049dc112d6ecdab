"""Nodes of operators that are given tables, beside joins."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.columns import names_of
from headwater.flow.declare.topology.nodes import Names, Node, OneInput, TableOperator, Using, key_of
from headwater.flow.operators.order_codes import Order
from headwater.flow.operators.ranks.neighbours import Neighbour
from headwater.flow.operators.tables.sets import INTERSECT


@dataclass(frozen=True, eq=False)
class Rank(OneInput, TableOperator):
    """The first rows of each group of a table, with their places."""

    by: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    how: str
    into: str
    name: str

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.input)

    @property
    def using(self) -> Sequence[Using]:
        return (Using("rank", (*self.by, *(one.column for one in self.order))),)

    @property
    def in_words(self) -> tuple[str, str]:
        of = f" by {', '.join(self.by)}" if self.by else ""
        return "rank", f"{self.limit}{of}, in the order of {in_order(self.order)}: {self.into} = {self.how}()"

    def gives(self, given: Sequence[Names | None]) -> Names | None:
        return None if given[0] is None else tuple(dict.fromkeys((*given[0], self.into)))


@dataclass(frozen=True, eq=False)
class Neighbours(OneInput, TableOperator):
    """A table with values of other rows of the group beside each row."""

    by: tuple[str, ...]
    order: tuple[Order, ...]
    values: tuple[Neighbour, ...]
    name: str

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.input)

    @property
    def using(self) -> Sequence[Using]:
        named = [name for one in self.values for name in (one.column, one.default) if name]
        return (Using(self.values[0].how, (*self.by, *(one.column for one in self.order), *named)),)

    @property
    def in_words(self) -> tuple[str, str]:
        of = f" by {', '.join(self.by)}" if self.by else ""
        made = ", ".join(f"{one.into} = {one.how}({one.column})" for one in self.values)
        return "neighbours", f"{made}{of}, in the order of {in_order(self.order)}"

    def gives(self, given: Sequence[Names | None]) -> Names | None:
        return None if given[0] is None else tuple(dict.fromkeys((*given[0], *(one.into for one in self.values))))


def in_order(order: tuple[Order, ...]) -> str:
    return ", ".join(map(str, order))


@dataclass(frozen=True, eq=False)
class SetOperation(TableOperator):
    """Rows that are in both tables, or in the one and not in the other."""

    left: Node
    right: Node
    how: str
    copy: str
    """The column with the number of a copy; empty if each row is there once."""
    name: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def key(self) -> tuple[str, ...]:
        names = names_of(self.left)
        if names is None:
            raise InvalidDeclaration(
                f"the columns of {self.method} at {self.place} are not known before Spark reads it, "
                "and they are its key",
                'Name them with select("...") before it.',
            )
        return (*names, *([self.copy] if self.copy else []))

    @property
    def method(self) -> str:
        return "intersect()" if self.how == INTERSECT else "except_()"

    @property
    def in_words(self) -> tuple[str, str]:
        return self.how, f"all, copies numbered as {self.copy}" if self.copy else "rows that are the same count once"

    def gives(self, given: Sequence[Names | None]) -> Names | None:
        return None if given[0] is None else (*given[0], *([self.copy] if self.copy else []))


@dataclass(frozen=True, eq=False)
class Beside(TableOperator):
    """A table beside the single row of another; with a column that is guarded, what is left of NOT IN."""

    left: Node
    right: Node
    prefix: str
    guarded: str
    name: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.left)

    @property
    def in_words(self) -> tuple[str, str]:
        if self.guarded:
            return (
                "not in",
                f"{self.guarded}: a null on the right lets nothing through, and a null is in anything but nothing",
            )
        return "with scalar", "the columns of a single row"

    def gives(self, given: Sequence[Names | None]) -> Names | None:
        if self.guarded or None in given:
            return given[0]
        left, right = given
        return (*(left or ()), *(self.prefix + name for name in right or ()))
