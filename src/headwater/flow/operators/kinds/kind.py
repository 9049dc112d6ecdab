"""What a kind of aggregate has to say of itself: what is kept, how two are merged, and what comes of it."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.segments import Segments

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

Columns = list[pa.Array]


class Partial(NamedTuple):
    """A column that is computed for each key of a batch, and kept for the key in the same form.

    Where rows are reduced to another form first, such as a list of values, `given` is its type, and the kind absorbs
    it. `sql` is how Spark computes the column for a group: tests compare with it.
    """

    name: str
    type: pa.DataType
    sql: str
    given: pa.DataType | None = None


class Kind(ABC):
    """All methods work on whole columns, a row for each key; a row of nulls is a state of nothing."""

    def check(self, spec: "Aggregate") -> None:  # noqa: B027  most have nothing to refuse
        """InvalidDeclaration if it cannot be of the column it is to be of."""

    @abstractmethod
    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]: ...

    @abstractmethod
    def result_type(self, spec: "Aggregate") -> pa.DataType: ...

    @abstractmethod
    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        """The partial columns, as they are given to `absorb`, of each group of rows of a batch."""

    @abstractmethod
    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        """Those of each group of rows that are such columns: what `reduce` makes of all their rows together."""

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        """What Spark made, in the form in which it is kept."""
        return given

    @abstractmethod
    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns: ...

    @abstractmethod
    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array: ...


def input_of(spec: "Aggregate", rows: pa.RecordBatch) -> pa.Array:
    """The column of a batch that an aggregate is computed from, of the type that it is declared with."""
    column = rows.column(spec.column)
    return column if column.type.equals(spec.input_type) else column.cast(spec.input_type)


def quoted(name: str) -> str:
    """A name as Spark SQL reads it, whatever is in it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def is_number(kind: pa.DataType) -> bool:
    """
    >>> is_number(pa.decimal128(3, 1)), is_number(pa.bool_())
    (True, False)
    """
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def refuse_unless(fits: bool, spec: "Aggregate", hint: str) -> None:
    if not fits:
        raise InvalidDeclaration(
            f'"{spec.name}" cannot be the {spec.kind} of `{spec.column}`, which is {spec.input_type}', hint
        )
