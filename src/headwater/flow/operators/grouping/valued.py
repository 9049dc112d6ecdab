"""Extremes and distinct values over tables: the different values of a group are kept, each with how often it is there.

The extreme itself is a column of the group. Only where a batch takes the last of it away, the first values behind it
are read, as many as the batch takes. What is counted or added up over distinct values changes where one comes or goes.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.extremes import extreme, extreme_places, taken_or_null
from headwater.flow.operators.aggregation.kinds.kind import Columns, Partial
from headwater.flow.operators.aggregation.kinds.ordered import ordered_type
from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.grouping.changed_rows import ChangedRows
from headwater.flow.operators.grouping.counted_values import (
    Counted,
    changed_counts,
    counts_schema,
    first_values,
    order_schema,
    write_order,
)
from headwater.flow.operators.grouping.held import Changed, Held, Parts
from headwater.flow.operators.grouping.weighed import added_columns, old_counts, sum_columns, summed
from headwater.flow.operators.keyed import TIME
from headwater.flow.operators.order_codes import HIGHEST, Order, order_codes
from headwater.flow.operators.ordering import has_order
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, equal, valid

COUNTS, ORDER = "counts", "order"


class Extremes(Held):
    """min and max."""

    def refusal(self, spec: Aggregate) -> InvalidDeclaration | None:
        if can_hash(self._type(spec)):
            return None
        return InvalidDeclaration(f'"{spec.name}" is of a column with a map, which has no order', "Use a part of it.")

    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__extreme", self._type(spec)),)

    def parts(self, spec: Aggregate, key: pa.Schema) -> Mapping[str, StateSchema]:
        kind = self._type(spec)
        return {COUNTS: counts_schema(key, kind), ORDER: order_schema(key, kind)}

    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        changed, run = changed_counts(parts[COUNTS], given, self._values(spec, given))
        order = write_order(parts[ORDER], given, changed, self._places(spec, changed.values))
        lost = _lost(changed, old[0])
        kept = np.flatnonzero(valid(old[0]) & ~lost)
        groups, values = [kept], [old[0].take(pa.array(kept))]
        if lost.any():
            numbers, others = first_values(parts[ORDER], given, changed, np.flatnonzero(lost))
            groups, values = [*groups, numbers], [*values, others]
        there = changed.where(changed.now > 0)
        groups, values = [*groups, there.groups], [*values, there.values]
        found = self._extreme(spec, np.concatenate(groups), pa.concat_arrays(values), len(given))
        return Changed([found], {COUNTS: run, ORDER: order})

    def _extreme(self, spec: Aggregate, groups: Integers, values: pa.Array, length: int) -> pa.Array:
        if not len(groups):
            return pa.nulls(length, values.type)
        order = np.argsort(groups, kind="stable")
        segments = Segments.of(np.append(True, np.diff(groups[order]) > 0))
        own = values.take(pa.array(order))
        found = self._of_segments(own, segments, smallest=self._smallest(spec))
        places = np.full(length, -1)
        places[groups[order][segments.begins]] = np.arange(len(segments))
        return taken_or_null(found, places)

    def _of_segments(self, values: pa.Array, segments: Segments, *, smallest: bool) -> pa.Array:
        return extreme(values, segments, smallest=smallest)

    def _type(self, spec: Aggregate) -> pa.DataType:
        return spec.input_type

    def _values(self, spec: Aggregate, given: ChangedRows) -> pa.Array:
        return given.column(str(spec.column), spec.input_type)

    def _places(self, spec: Aggregate, values: pa.Array) -> Integers:
        falling = order_codes([values], [Order("", descending=True, nulls_first=False)])
        return np.minimum(np.invert(falling), HIGHEST - 1) if self._smallest(spec) else falling

    def _smallest(self, spec: Aggregate) -> bool:
        return spec.kind == "min"


class Outermost(Extremes):
    """min_by and max_by: the extreme of both columns, the one that is looked for behind the one it is ordered by."""

    def refusal(self, spec: Aggregate) -> InvalidDeclaration | None:
        if spec.time == TIME:  # which rows of a stream have
            by = "min_by" if spec.kind == "first" else "max_by"
            return InvalidDeclaration(
                f'"{spec.name}" is the {spec.kind} of a table\'s rows, which have no order', f"Use {by}(value, order)."
            )
        if not has_order(spec.input_type):
            return InvalidDeclaration(
                f'"{spec.name}" is of a column of {spec.input_type}: of several rows of one place none would be first',
                "Use one with an order.",
            )
        return super().refusal(spec)

    def finish(self, spec: Aggregate, kept: Columns) -> pa.Array:
        return pc.struct_field(kept[0], "value")

    def _type(self, spec: Aggregate) -> pa.DataType:
        return pa.struct({"by": ordered_type(spec).field("time").type, "value": spec.input_type})

    def _values(self, spec: Aggregate, given: ChangedRows) -> pa.Array:
        """Rows without what they are ordered by are passed over."""
        kind = self._type(spec)
        by, value = given.column(str(spec.time), kind.field("by").type), given.column(str(spec.column), spec.input_type)
        return pa.StructArray.from_arrays([by, value], fields=list(kind), mask=by.is_null())

    def _of_segments(self, values: pa.Array, segments: Segments, *, smallest: bool) -> pa.Array:
        return taken_or_null(values, extreme_places([values], segments, smallest=smallest))

    def _places(self, spec: Aggregate, values: pa.Array) -> Integers:
        return super()._places(spec, values.field("by"))

    def _smallest(self, spec: Aggregate) -> bool:
        return spec.kind == "first"


class Distinct(Held):
    """Counts, sums and averages over distinct values."""

    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        if spec.kind == "count_distinct":
            return (Partial(f"{spec.name}__distinct", pa.int64()),)
        return sum_columns(spec, "distinct")

    def parts(self, spec: Aggregate, key: pa.Schema) -> Mapping[str, StateSchema]:
        return {COUNTS: counts_schema(key, spec.input_type)}

    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        values = given.column(str(spec.column), spec.input_type)
        changed, run = changed_counts(parts[COUNTS], given, values)
        weights = changed.came.astype(np.int64) - changed.went
        if spec.kind == "count_distinct":
            more = np.zeros(len(given), np.int64)
            np.add.at(more, changed.groups, weights)
            return Changed([pa.array(old_counts(old[0]) + more)], {COUNTS: run})
        # A null for each group: none of the groups is without a row, and nothing is added.
        groups = np.concatenate([np.arange(len(given)), changed.groups])
        order = np.argsort(groups, kind="stable")
        segments = Segments.of(np.append(True, np.diff(groups[order]) > 0))
        column = pa.concat_arrays([pa.nulls(len(given), changed.values.type), changed.values]).take(pa.array(order))
        own = np.concatenate([np.zeros(len(given), np.int64), weights])[order]
        return Changed(added_columns(spec, column, own, segments, old), {COUNTS: run})

    def finish(self, spec: Aggregate, kept: Columns) -> pa.Array:
        return kept[0].fill_null(0) if spec.kind == "count_distinct" else summed(spec, kept)


def _lost(changed: Counted, extremes: pa.Array) -> Mask:
    """The groups whose extreme is there no more."""
    went = changed.where(changed.went)
    lost = np.zeros(len(extremes), np.bool_)
    lost[went.groups[equal(went.values, extremes.take(pa.array(went.groups)))]] = True
    return lost
