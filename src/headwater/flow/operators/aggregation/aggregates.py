"""Aggregates whose state merges: a batch is reduced to one row per key, and that row is merged with the key's state.

What a batch is reduced to (a *partial*) and the state of a key have the same columns, so that merging is the same
operation for the first batch and the thousandth, and any split of rows into batches gives the same result (of
floating-point sums up to rounding, which depends on the order of additions, in Spark as well). What is kept of each
kind is in kinds/.
"""

from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.kinds.kind import Kind, Options, Partial
from headwater.flow.operators.aggregation.kinds.registry import KINDS


@dataclass(frozen=True)
class Aggregate:
    """`name` is the column of the result; `column` and its type what it is computed from, None for count(*).

    `time` is the column of the event time, for aggregates that depend on order.
    """

    kind: str
    name: str
    column: str | None = None
    type: pa.DataType | None = None
    time: str | None = None
    time_type: pa.DataType | None = None
    ignore_nulls: bool = False
    other: str | None = None
    """The second column, of those that compare two."""
    options: Options | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidDeclaration(
                f'"{self.name}" is of an unknown kind "{self.kind}"', f"Known: {', '.join(KINDS)}."
            )
        if self.column is None and self.kind != "count":
            raise InvalidDeclaration(f'"{self.name}" has no column to compute the {self.kind} of')
        if self.time is None and self.rules.timed:
            raise InvalidDeclaration(
                f'"{self.name}" is the {self.kind} by time of a stream without a time', "Name the stream's time column."
            )
        self.rules.check(self)

    @property
    def rules(self) -> Kind:
        """What its kind does."""
        return KINDS[self.kind]

    @property
    def input_type(self) -> pa.DataType:
        return pa.null() if self.type is None else self.type

    @property
    def meaning(self) -> tuple[object, ...]:
        """What distinguishes its state from that of another; fingerprints of state hold it."""
        return (self.kind, self.name) if self.options is None else (self.kind, self.name, self.options)


def partials(spec: Aggregate) -> tuple[Partial, ...]:
    """The columns of an aggregate in a batch and in the state, and how Spark SQL computes them for a group."""
    return spec.rules.partials(spec)


def result_type(spec: Aggregate) -> pa.DataType:
    return spec.rules.result_type(spec)


def state_schema(specs: tuple[Aggregate, ...]) -> pa.Schema:
    """The columns kept for a key by several aggregates."""
    return pa.schema([pa.field(part.name, part.type) for spec in specs for part in partials(spec)])


def given_schema(specs: tuple[Aggregate, ...]) -> pa.Schema:
    """The columns that a batch is reduced to for them."""
    parts = [part for spec in specs for part in partials(spec)]
    return pa.schema([pa.field(part.name, part.type if part.given is None else part.given) for part in parts])


def result_schema(specs: tuple[Aggregate, ...]) -> pa.Schema:
    return pa.schema([pa.field(spec.name, result_type(spec)) for spec in specs])
