"""Rows that a query can name: which columns of a frame its names mean (pure).

A frame may have more columns than a query can name: those that distinguish the rows of a table are never dropped
before the end. Names of a query are resolved here, and what is handed to Spark has names of the frame only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from sqlglot import exp

from headwater.flow.declare.checks.columns import no_such_column
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.nodes import Node, key_of
from headwater.flow.operators.windows.window import Window
from headwater.flow.sql.reading.dialect import as_written, name_text, written
from headwater.flow.sql.reading.source_text import SourceText, start_of

Flow: TypeAlias = Stream | Table


def flow_of(node: Node) -> Flow:
    return Table(node) if node.keyed else Stream(node)


@dataclass(frozen=True)
class Column:
    """What a query calls `name` and the frame `flat`."""

    name: str
    flat: str
    type: pa.DataType | None = None
    """None where only Spark knows it."""
    event_time: bool = False
    """It is the time of the rows, which windows and joins in time go by."""
    said: bool = True
    """The query gave it its name."""


@dataclass(frozen=True)
class Relation:
    """What a query or a name in FROM stands for. Without `columns` only Spark knows which there are."""

    flow: Flow
    columns: tuple[Column, ...] | None
    one_row: bool = False
    """It is an aggregate of all rows."""
    unique: tuple[str, ...] = ()
    """Columns of the frame that distinguish its rows beside those of its key: those of a rank."""


@dataclass(frozen=True)
class Item:
    """A relation in FROM, under the name it has there."""

    alias: str
    columns: tuple[Column, ...] | None
    start: int = 0
    merged: frozenset[str] = frozenset()
    """Columns of USING: `*` has them once, as those of an earlier item."""

    def find(self, name: str) -> Column | None:
        for one in self.columns or ():
            if one.name.lower() == name.lower():
                return one
        return Column(name, name) if self.columns is None else None


class Resolved(NamedTuple):
    item: int
    column: Column
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """What FROM has made so far: a flow, and the items whose columns are in it."""

    flow: Flow
    items: tuple[Item, ...]
    source: SourceText
    window: Window | None = None
    """Its rows are grouped by the windows of a table function."""
    processing: bool = False
    """Those windows go by when rows are processed, and not by when they happened."""
    unique: tuple[str, ...] = ()
    shared: Mapping[frozenset[str], str] = field(default_factory=dict)
    """Of outer joins: the column that has what either side has, by those of both sides."""

    # -- names ---------------------------------------------------------------------------------------------------------

    def resolve(self, node: exp.Column) -> Resolved:
        """InvalidDeclaration if there is no such column, or if several items have it."""
        found = self.find(node)
        if found is None:
            raise self.source.refusal(start_of(node), self._unknown(node))
        return found

    def find(self, node: exp.Column) -> Resolved | None:
        parts = [one.name for one in node.parts]
        for number, item in enumerate(self.items):
            if len(parts) > 1 and item.alias.lower() == parts[0].lower() and (found := item.find(parts[1])):
                return Resolved(number, found, tuple(parts[2:]))
        among = [(number, item.find(parts[0])) for number, item in enumerate(self.items)]
        named = [(number, one) for number, one in among if one and parts[0].lower() not in self.items[number].merged]
        if len(named) > 1 and len({one.flat for _, one in named}) > 1:
            several = " and ".join(self.items[number].alias for number, _ in named)
            raise self.source.refusal(
                start_of(node), f"{parts[0]} may be that of {several}", f"Write {self.items[named[0][0]].alias}."
                f"{parts[0]}, for example.",
            )  # fmt: skip
        return Resolved(named[0][0], named[0][1], tuple(parts[1:])) if named else None

    def _unknown(self, node: exp.Column) -> str:
        parts = [one.name for one in node.parts]
        aliases = [item.alias for item in self.items]
        under = next((item for item in self.items if item.alias.lower() == parts[0].lower()), None)
        if len(parts) > 1 and under is not None:
            return no_such_column(
                f"{parts[0]}.{parts[1]}", [f"{under.alias}.{one.name}" for one in under.columns or ()]
            )
        names = [one.name for item in self.items for one in item.columns or ()]
        if len(parts) > 1:
            return no_such_column(".".join(parts), [*aliases, *names])
        return no_such_column(parts[0], dict.fromkeys(names))

    @property
    def known(self) -> bool:
        return all(item.columns is not None for item in self.items)

    @property
    def taken(self) -> set[str]:
        """Names of the frame, in small letters."""
        names = {one.flat.lower() for item in self.items for one in item.columns or ()}
        return names | {name.lower() for name in self.key}

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.flow.node) if self.flow.node.keyed else ()

    def fresh(self, name: str, also: Iterable[str] = ()) -> str:
        return fresh(name, {*self.taken, *(one.lower() for one in also)})

    # -- expressions ---------------------------------------------------------------------------------------------------

    def columns_in(self, node: exp.Expr) -> Iterator[Resolved]:
        for one in columns_of(node):
            yield self.resolve(one)

    def items_in(self, node: exp.Expr) -> set[int]:
        return {one.item for one in self.columns_in(node)}

    def text(self, node: exp.Expr) -> str:
        """The expression with names of the frame, as Spark reads it."""
        return written(self.rewritten(node))

    def rewritten(self, node: exp.Expr, replaced: "Callable[[exp.Expr], exp.Expr | None] | None" = None) -> exp.Expr:
        """`replaced` may give another expression for a part, in which nothing is resolved any more."""

        def step(one: exp.Expr) -> exp.Expr:
            if replaced is not None and (other := replaced(one)) is not None:
                return other
            if isinstance(one, exp.Column) and not isinstance(one.this, exp.Star):
                return column_tree(self.resolve(one))
            if isinstance(one, exp.Query):
                raise self.source.refusal(
                    start_of(one), "a query stands within an expression",
                    "Compare it in WHERE with AND only, or join with it.",
                )  # fmt: skip
            return one

        return transformed(as_written(node, self.source), step)

    def plain(self, node: exp.Expr) -> Column | None:
        """The column that an expression is, if it is nothing else."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        if not isinstance(inner, exp.Column) or isinstance(inner.this, exp.Star):
            return None
        found = self.resolve(inner)
        return None if found.fields else found.column

    def shared_key(self, node: exp.Expr) -> str | None:
        """The text of the column that coalesce(a.id, b.id) is, where these were joined on: it is part of their key."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        if not isinstance(inner, exp.Anonymous) or str(inner.this).lower() != "coalesce" or not self.shared:
            return None
        sides = [self.plain(one) for one in inner.expressions]
        flat = self.shared.get(frozenset(one.flat for one in sides if one is not None))
        return None if flat is None or len(sides) != 2 else name_text(flat)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def where(self, text: str) -> "Rows":
        return replace(self, flow=self.flow.where(text))

    def with_column(self, name: str, text: str) -> "Rows":
        """A column more, that no name of the query means."""
        return replace(self, flow=self.flow.with_columns(**{name: text}))

    def exposed(self) -> list[Column] | None:
        """What `*` stands for."""
        if not self.known:
            return None
        return [
            one for item in self.items for one in item.columns or () if one.name.lower() not in item.merged
        ]  # fmt: skip


def transformed(node: exp.Expr, step: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Each part replaced by what `step` makes of it; what is new is not looked into."""
    made = step(node)
    if made is not node:
        return made
    for name, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(name, transformed(value, step))
        elif isinstance(value, list):
            node.set(name, [transformed(one, step) if isinstance(one, exp.Expr) else one for one in value])
    return node


def column_tree(found: Resolved) -> exp.Expr:
    return flat_tree(found.column.flat, found.fields)


def flat_tree(flat: str, fields: Sequence[str] = ()) -> exp.Expr:
    """A column of the frame, and fields of it, that nothing is to resolve any more."""
    return exp.Var(this=".".join(map(name_text, (flat, *fields))))


def columns_of(node: exp.Expr) -> Iterator[exp.Column]:
    """Columns that an expression names, without those of queries in it."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Column):
        if not isinstance(node.this, exp.Star):
            yield node
        return
    for one in node.iter_expressions():
        yield from columns_of(one)


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """
    >>> from sqlglot import parse_one
    >>> [one.sql() for one in conjuncts(parse_one("a = 1 and (b = 2 and c or d)"))]
    ['a = 1', 'b = 2 AND c OR d']
    """
    if node is None:
        return []
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.And):
        return [*conjuncts(inner.this), *conjuncts(inner.expression)]
    return [inner]


def fresh(name: str, taken: set[str]) -> str:
    """
    >>> fresh("id", {"id", "id_2"})
    'id_3'
    """
    number, found = 1, name
    while found.lower() in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def as_column(text: str, name: str) -> str:
    """
    >>> as_column("amount", "amount"), as_column("a + 1", "more")
    ('amount', 'a + 1 as more')
    """
    quoted = name_text(name)
    return text if text == quoted else f"{text} as {quoted}"
