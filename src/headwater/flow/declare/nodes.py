"""The graph a user declares: small immutable nodes that point at their inputs.

    SourceStream ─► Where ─► Aggregate ─► (a view)
    SourceTable ─► Changes ─► Select ─► (a topic)

A node holds what the user wrote and where; what it means is in job/compiling.py. Column expressions are held as they
came (text or PySpark columns), so most of the graph can be made and checked while no Spark runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.flow.declare.place import Place
from headwater.flow.formats.schema import Schema

Expression = Any
"""A PySpark column, or SQL text that Spark parses into one."""


@dataclass(frozen=True, eq=False)
class Node:
    place: Place

    @property
    def inputs(self) -> tuple["Node", ...]:
        return ()

    @property
    def keyed(self) -> bool:
        """Is it a table (the latest row per key) rather than a stream of facts?"""
        return False


@dataclass(frozen=True, eq=False)
class SourceStream(Node):
    name: str
    topic: str
    schema: Schema
    format: str
    time: str | None
    lateness_us: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SourceTable(Node):
    name: str
    topic: str
    schema: Schema
    format: str
    key: tuple[str, ...]
    versions_us: int
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def keyed(self) -> bool:
        return True


Source = SourceStream | SourceTable


@dataclass(frozen=True, eq=False)
class OneInput(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=False)
class Select(OneInput):
    columns: tuple[Expression, ...]

    @property
    def keyed(self) -> bool:
        return self.input.keyed


@dataclass(frozen=True, eq=False)
class Where(OneInput):
    condition: Expression

    @property
    def keyed(self) -> bool:
        return self.input.keyed


@dataclass(frozen=True, eq=False)
class WithColumns(OneInput):
    columns: Mapping[str, Expression]

    @property
    def keyed(self) -> bool:
        return self.input.keyed


@dataclass(frozen=True, eq=False)
class Explode(OneInput):
    column: str
    into: str
    outer: bool


@dataclass(frozen=True, eq=False)
class Apply(OneInput):
    """Any function DataFrame → DataFrame that looks at one row at a time."""

    function: Callable[..., Any]
    name: str


@dataclass(frozen=True, eq=False)
class Sql(Node):
    """SQL text over named streams."""

    text: str
    tables: Mapping[str, Node]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(self.tables.values())


@dataclass(frozen=True, eq=False)
class Union(Node):
    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


@dataclass(frozen=True, eq=False)
class Dedupe(OneInput):
    """The first row with each key; rows with the same key within the time are repetitions."""

    key: tuple[str, ...]
    within_us: int
    name: str


@dataclass(frozen=True, eq=False)
class Aggregate(OneInput):
    key: tuple[str, ...]
    aggregates: tuple[Expression, ...]
    name: str

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Latest(OneInput):
    """The newest row for each key, by event time and then by position."""

    key: tuple[str, ...]
    name: str

    @property
    def keyed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Changes(OneInput):
    """The changes of a table as a stream of facts: op, before, after."""


STATEFUL = (Aggregate, Latest, Dedupe, SourceTable)


def walk(node: Node) -> list[Node]:
    """The node and all it is made from, inputs first, each once."""
    found: list[Node] = []

    def visit(one: Node) -> None:
        if one in found:
            return
        for source in one.inputs:
            visit(source)
        found.append(one)

    visit(node)
    return found


def sources_of(node: Node) -> list[Source]:
    return [one for one in walk(node) if isinstance(one, SourceStream | SourceTable)]
