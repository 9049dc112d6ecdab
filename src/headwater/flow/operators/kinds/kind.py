"""What a kind of aggregate has to say of itself: what is kept, how two are merged, and what comes of it."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from headwater.errors import InvalidDeclaration

if TYPE_CHECKING:
    from headwater.flow.operators.aggregates import Aggregate

Columns = list[pa.Array]


class Partial(NamedTuple):
    """A column that Spark computes for each key of a batch, and that is kept for the key in the same form.

    Where Spark cannot make that form, `given` is the type of what it makes instead, and the kind absorbs it. `row` is
    what a single row is in that form, in SQL again, where rows need not be reduced before they are merged.
    """

    name: str
    type: pa.DataType
    sql: str
    given: pa.DataType | None = None
    row: str | None = None


class Kind(ABC):
    """All methods work on whole columns, a row for each key; a row of nulls is a state of nothing."""

    def check(self, spec: "Aggregate") -> None:  # noqa: B027  most have nothing to refuse
        """InvalidDeclaration if it cannot be of the column it is to be of."""

    @abstractmethod
    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]: ...

    @abstractmethod
    def result_type(self, spec: "Aggregate") -> pa.DataType: ...

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        """What Spark made, in the form in which it is kept."""
        return given

    @abstractmethod
    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns: ...

    @abstractmethod
    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array: ...


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
