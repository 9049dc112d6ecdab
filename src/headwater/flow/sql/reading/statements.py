"""Statements of SQL as plain data: what they say, and where (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token

Value = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True)
class Option:
    """Of WITH (name = value)."""

    value: Value
    start: int


Options = Mapping[str, Option]


@dataclass(frozen=True)
class QueryText:
    """The words of a query, and when its results are emitted."""

    tokens: tuple[Token, ...]
    emit: str = ""
    """updates, final or corrections; "" if it is not said."""
    corrections: str = ""
    """For how long windows are corrected."""

    @property
    def start(self) -> int:
        return self.tokens[0].start


@dataclass(frozen=True)
class Statement:
    name: str
    start: int


@dataclass(frozen=True)
class AppStatement(Statement):
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnText:
    """A column as Spark DDL says it."""

    text: str
    start: int


@dataclass(frozen=True)
class StreamStatement(Statement):
    columns: tuple[ColumnText, ...]
    key: tuple[str, ...]
    topic: str
    options: Options


@dataclass(frozen=True)
class TableStatement(Statement):
    columns: tuple[ColumnText, ...]
    key: tuple[str, ...]
    topic: str
    """Empty if it is captured."""
    url: str
    captured: str
    """The table that is captured."""
    options: Options


@dataclass(frozen=True)
class ViewStatement(Statement):
    key: tuple[str, ...]
    options: Options
    doc: str
    query: QueryText


@dataclass(frozen=True)
class NamedQuery(Statement):
    """A query that later ones read by its name, and nothing else."""

    query: QueryText


@dataclass(frozen=True)
class StreamingTable(Statement):
    """A topic of rows; without a query, flows write it."""

    options: Options
    doc: str
    query: QueryText | None


@dataclass(frozen=True)
class FlowStatement(Statement):
    target: str
    query: QueryText


@dataclass(frozen=True)
class SinkStatement(Statement):
    kind: str
    target: str
    table: str
    key: tuple[str, ...]
    options: Options
    query: QueryText


@dataclass(frozen=True)
class Notified:
    kind: str
    target: str
    options: Options
    start: int


@dataclass(frozen=True)
class AlertStatement(Statement):
    view: str
    condition: str
    condition_start: int
    options: Options
    notified: tuple[Notified, ...]


@dataclass(frozen=True)
class SelectStatement(Statement):
    query: QueryText
