"""The contract of a kind of aggregate: the columns of its state, how two states merge, the result, and its proof.

A kind is one class in one module here, listed in registry.py with the functions of Spark that users write it with. An
object of the class may stand for several kinds that differ in little; `spec.kind` says which one is meant.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.segments import Segments

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headwater.flow.operators.aggregation.aggregates import Aggregate

Columns = list[pa.Array]
ANY, NUMBER, AS_DOUBLE, FLAG = "any", "number", "double", "flag"
NUMBERS, WHOLE, ORDERED = "numbers", "whole", "ordered"


class Options:
    """What a user may choose about an aggregate beside its column: frozen, with a `repr` that says all of it, because
    fingerprints of state hold that."""


class Function(NamedTuple):
    """A function of Spark that a kind is written with. `takes` is what it can be given where there is no Spark; None:
    only Spark reads it."""

    kind: str
    takes: str | None = None
    distinct: str | None = None
    """The kind that it is over distinct values."""
    arguments: int = 1
    """Two: by the second, rows are ordered."""


class Partial(NamedTuple):
    """A column that is computed for each key of a batch, and kept for the key in the same form.

    Where rows are reduced to another form first, such as a list of values, `given` is its type, and the kind absorbs
    it.
    """

    name: str
    type: pa.DataType
    given: pa.DataType | None = None


class Tolerance(NamedTuple):
    """What is accepted beside the very same result: a rule of proof/tolerances.py, and SQL for what it needs."""

    rule: str
    accepted: str


class Kind(ABC):
    """All methods work on whole columns, a row for each key; a row of nulls is a state of nothing."""

    timed: ClassVar[bool] = False
    """Depends on the order of rows by event time and position."""
    of_two: ClassVar[bool] = False
    """Compares two columns."""
    normal_zeros: ClassVar[bool] = False
    """−0.0 has to be the same as 0.0."""

    over_tables: str = "recomputed"
    """How it is kept of a table's rows, which change and go: a name in operators/grouping/registry.py."""
    needs: ClassVar[str | None] = None
    """Of its column: NUMBER, NUMBERS, WHOLE or ORDERED."""
    form: ClassVar[str] = "plain"
    """In which of the forms of prepare/aggregate_inputs.py an aggregate of headwater's own is given its columns."""

    def check(self, spec: "Aggregate") -> None:
        """InvalidDeclaration if it cannot be of the column it is to be of."""
        fits, hint = CHECKS[self.needs] if self.needs else (None, "")
        if fits is not None and not fits(spec.input_type):
            raise InvalidDeclaration(
                f'"{spec.name}" cannot be the {spec.kind} of `{spec.column}`, which is {spec.input_type}', hint
            )

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        """The columns of a batch and of the state."""
        return (Partial(f"{spec.name}__{spec.kind}", self.result_type(spec)),)

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return spec.input_type

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        """The partial columns, as they are given to `absorb`, of each group of rows of a batch."""
        return self.combine(spec, [input_of(spec, rows)], segments)

    @abstractmethod
    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        """Those of each group of rows that are such columns: what `reduce` makes of all their rows together."""

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        """What a batch was reduced to, in the form in which it is kept."""
        return given

    @abstractmethod
    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns: ...

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        """The result that a state stands for."""
        return kept[0]

    def reference_sql(self, spec: "Aggregate") -> str:
        """The result over all rows of a group at once, as Spark computes it: nothing is merged."""
        return f"{spec.kind}({column_sql(spec)})"

    def reference(self, spec: "Aggregate") -> "Column":
        from pyspark.sql import functions as f

        return f.expr(self.reference_sql(spec))

    def tolerance(self, spec: "Aggregate") -> Tolerance | None:
        """None: the result has to be the very same."""
        return None


def column_sql(spec: "Aggregate") -> str:
    return "1" if spec.column is None else quoted(spec.column)


def input_of(spec: "Aggregate", rows: pa.RecordBatch) -> pa.Array:
    """The column of a batch that an aggregate is computed from, of the type that it is declared with."""
    column = rows.column(spec.column)
    return column if column.type.equals(spec.input_type) else column.cast(spec.input_type)


def is_number(kind: pa.DataType) -> bool:
    """
    >>> is_number(pa.decimal128(3, 1)), is_number(pa.bool_())
    (True, False)
    """
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


CHECKS: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    NUMBER: (is_number, "Use a column of numbers."),
    NUMBERS: (is_number, "Use two columns of numbers."),
    WHOLE: (pa.types.is_integer, "Use a column of whole numbers."),
    ORDERED: (lambda kind: not pa.types.is_map(kind) and not pa.types.is_list(kind), "Use an ordered type."),
}
