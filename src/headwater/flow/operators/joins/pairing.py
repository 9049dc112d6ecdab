"""What two rows that meet make together (pure): the columns of the result, and which of them comes from where.

Columns that are joined on are there once, under the left's name. All others keep their names; those of the right may
have a prefix. Those of the right that are called like one of the left are together in one column with the right's name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.state.runs.equality import Integers, Mask, as_mask, valid

INNER, LEFT, RIGHT, FULL = HOWS = ("inner", "left", "right", "full")
SEMI, ANTI = EXISTENCE = ("semi", "anti")
"""Rows of the left that meet some of the right, or none; of tables alone."""
EQUAL_OR_UNKNOWN = "=?"
"""Equal, or one of them null: what NOT IN must not meet."""
COMPARED: dict[str, Callable[..., Any]] = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip

MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", EQUAL_OR_UNKNOWN: EQUAL_OR_UNKNOWN}


class Condition(NamedTuple):
    """A column of the left, a sign, a column of the right."""

    left: str
    sign: str
    right: str


@dataclass(frozen=True)
class Pairing:
    """`on` are names of both sides; the other columns of the right are called prefix and name, but for `shared` ones:
    they are fields of column `under`."""

    left: pa.Schema
    right: pa.Schema
    on: tuple[tuple[str, str], ...]
    how: str = INNER
    further: tuple[Condition, ...] = ()
    prefix: str = ""
    shared: tuple[str, ...] = ()
    under: str = ""

    @property
    def keeps_left(self) -> bool:
        """Whether rows of the left are there depends on whether they meet any."""
        return self.how in (LEFT, FULL, *EXISTENCE)

    @property
    def keeps_right(self) -> bool:
        return self.how in (RIGHT, FULL)

    @property
    def mirrored(self) -> "Pairing":
        """With the right on the left; only to ask which rows meet."""
        how = {LEFT: RIGHT, RIGHT: LEFT}.get(self.how, self.how)
        further = tuple(Condition(one.right, MIRRORED[one.sign], one.left) for one in self.further)
        return Pairing(
            self.right, self.left, tuple((right, left) for left, right in self.on), how, further, self.prefix
        )

    @property
    def others(self) -> list[str]:
        """Columns of the right that are not joined on, and not shared."""
        joined = {*(right for _, right in self.on), *self.shared}
        return [name for name in self.right.names if name not in joined]

    @property
    def columns(self) -> pa.Schema:
        own = [pa.field(field.name, field.type) for field in self.left]
        if self.how in EXISTENCE:
            return pa.schema(own)
        others = [pa.field(self.prefix + name, self.right.field(name).type) for name in self.others]
        return pa.schema([*own, *others, *([pa.field(self.under, pa.struct(self._fields))] if self.shared else [])])

    @property
    def _fields(self) -> list[pa.Field]:
        return [pa.field(name, self.right.field(name).type) for name in self.shared]

    def made(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_at: Integers, right_at: Integers
    ) -> list[pa.Array]:
        """The columns of pairs; a place of −1 stands for no row."""
        ours, theirs = taken_or_null(left, left_at), taken_or_null(right, right_at)
        columns = {name: ours.column(name) for name in self.left.names}
        if self.keeps_right:
            columns |= {one: pc.coalesce(columns[one], theirs.column(other)) for one, other in self.on}
        made = [*columns.values(), *(theirs.column(name) for name in self.others)]
        if self.shared:
            made.append(pa.StructArray.from_arrays(list(map(theirs.column, self.shared)), fields=self._fields))
        return made

    def meets(self, left: pa.RecordBatch, right: pa.RecordBatch, left_at: Integers, right_at: Integers) -> Mask:
        """Of pairs whose keys are equal and where both rows are there: is all else as it must be?"""
        result = np.ones(len(left_at), np.bool_)
        for one, sign, other in self.further:
            ours, theirs = left.column(one).take(pa.array(left_at)), right.column(other).take(pa.array(right_at))
            result &= _compared(sign, ours, theirs)
        return result


def _compared(sign: str, one: pa.Array, other: pa.Array) -> Mask:
    """As Spark compares: a null is like nothing, NaN equals itself and is above all numbers."""
    if sign == EQUAL_OR_UNKNOWN:
        return _compared("==", one, other) | ~valid(one) | ~valid(other)
    said = as_mask(pc.fill_null(COMPARED[sign](one, other), False))
    if not pa.types.is_floating(one.type):
        return said
    ours, theirs = (as_mask(pc.fill_null(pc.is_nan(column), False)) for column in (one, other))
    ranks = COMPARED[sign](pa.array(ours.astype(np.int8)), pa.array(theirs.astype(np.int8)))
    return np.where(ours | theirs, as_mask(ranks) & valid(one) & valid(other), said)


def taken_or_null(rows: pa.RecordBatch, places: Integers) -> pa.RecordBatch:
    if not rows.num_columns:
        return rows
    missing = places < 0
    if not rows.num_rows:
        return pa.RecordBatch.from_arrays(
            [pa.nulls(len(places), field.type) for field in rows.schema], rows.schema.names
        )
    return rows.take(pa.array(places, mask=missing) if missing.any() else pa.array(places))


def without_nulls(keys: pa.RecordBatch) -> Mask:
    """Keys that can meet others: a null is equal to nothing."""
    result = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        result &= valid(column)
    return result


def renamed(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return rows.rename_columns(list(names))
