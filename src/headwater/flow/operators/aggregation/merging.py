"""Merge what a batch brought with what is kept, and finish what is kept into results (pure, all keys at once)."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.aggregates import (
    Aggregate,
    given_schema,
    partials,
    result_schema,
    result_type,
    state_schema,
)
from headwater.flow.operators.aggregation.averages import average
from headwater.flow.operators.aggregation.lists import closed_lists, distinct, shortened, together
from headwater.flow.operators.kinds.families import FAMILIES
from headwater.flow.operators.kinds.options import Limit
from headwater.flow.operators.kinds.placing import order_of
from headwater.flow.operators.ordering import less, rows_less
from headwater.flow.state.runs.equality import Mask, rows_equal, valid
from headwater.flow.state.shard import conformed


def merge(spec: Aggregate, incoming: pa.RecordBatch, mask: Mask, old: pa.RecordBatch) -> list[pa.Array]:
    """The new state columns of one aggregate; rows of `old` stand beside those of `incoming`.

    Where `mask` is not set there is no state yet, and `old` is null.
    """
    names = [part.name for part in partials(spec)]
    new_columns, old_columns = ([rows.column(name) for name in names] for rows in (incoming, old))
    if spec.kind in FAMILIES:
        return FAMILIES[spec.kind].merge(spec, new_columns, old_columns)
    match spec.kind:
        case "count":
            return [_sum_counts(new_columns[0], old_columns[0], spec)]
        case "sum":
            return [add(new_columns[0], old_columns[0], spec)]
        case "avg":
            return [add(new_columns[0], old_columns[0], spec), _sum_counts(new_columns[1], old_columns[1], spec)]
        case "min" | "max":
            return [_extreme(new_columns[0], old_columns[0], smallest=spec.kind == "min")]
        case "first" | "last":
            return [_first_or_last(new_columns[0], old_columns[0], order_of(spec), smallest=spec.kind == "first")]
        case "collect":
            elements = together(old_columns[0], new_columns[0], by=order_of(spec))
            if isinstance(spec.options, Limit):
                elements = shortened(elements, spec.options.limit)
            return [closed_lists(elements, incoming.num_rows, partials(spec)[0].type)]
    elements = distinct(together(old_columns[0], new_columns[0]))
    return [closed_lists(elements, incoming.num_rows, partials(spec)[0].type)]


def absorbed(specs: Sequence[Aggregate], incoming: pa.RecordBatch) -> pa.RecordBatch:
    """What Spark made of a batch, in the form in which it is kept."""
    given = conformed(incoming, given_schema(tuple(specs)))
    columns: list[pa.Array] = []
    for spec in specs:
        own = [given.column(part.name) for part in partials(spec)]
        columns += FAMILIES[spec.kind].absorb(spec, own) if spec.kind in FAMILIES else own
    return pa.RecordBatch.from_arrays(columns, schema=state_schema(tuple(specs)))


def _sum_counts(new: pa.Array, old: pa.Array, spec: Aggregate) -> pa.Array:
    return add(new.fill_null(0), old.fill_null(0), spec)


def add(new: pa.Array, old: pa.Array, spec: Aggregate) -> pa.Array:
    """The sum of both, the one that is there if only one is; NumberOverflow instead of a wrong number."""
    kind = new.type
    try:
        if pa.types.is_decimal(kind):
            wide = pa.decimal256(kind.precision, kind.scale)
            total = pc.add(new.cast(wide), old.cast(wide)).cast(kind)
        else:
            total = pc.add_checked(new, old)
    except pa.ArrowInvalid:
        raise NumberOverflow(f'"{spec.name}"', f"its type {kind}") from None
    return pc.coalesce(total, new, old)


def chosen(take_new: Mask, new: pa.Array, old: pa.Array) -> pa.Array:
    """New values where the mask is set, old ones elsewhere; of any type, nested ones too."""
    places = np.arange(len(new)) + np.where(take_new, 0, len(new))
    return pa.concat_arrays([new, old]).take(pa.array(places))


def _extreme(new: pa.Array, old: pa.Array, *, smallest: bool) -> pa.Array:
    better = less(new, old) if smallest else less(old, new)
    return chosen((better & valid(new)) | ~valid(old), new, old)


def _first_or_last(new: pa.Array, old: pa.Array, order: Sequence[str], *, smallest: bool) -> pa.Array:
    one, other = ([column.field(name) for name in order] for column in ((new, old) if smallest else (old, new)))
    better = rows_less(one, other, len(new))
    return chosen((better & valid(new)) | ~valid(old), new, old)


def finish(spec: Aggregate, state: pa.RecordBatch) -> pa.Array:
    """The result that a key's state stands for."""
    columns = [state.column(part.name) for part in partials(spec)]
    if spec.kind in FAMILIES:
        return FAMILIES[spec.kind].finish(spec, columns)
    match spec.kind:
        case "count":
            return columns[0].fill_null(0)
        case "avg":
            return average(columns[0], columns[1], result_type(spec))
        case "first" | "last":
            return pc.struct_field(columns[0], "value")
        case "collect":
            return _values_of(columns[0], result_type(spec))
        case "collect_set":
            return columns[0]
    return columns[0]


def _values_of(lists: pa.Array, kind: pa.DataType) -> pa.Array:
    offsets = lists.offsets
    start = offsets[0].as_py()
    values = pc.struct_field(lists.values, "value").slice(start, offsets[-1].as_py() - start)
    return pa.ListArray.from_arrays(pc.subtract(offsets, start), values, type=kind)


def merge_all(specs: Sequence[Aggregate], incoming: pa.RecordBatch, mask: Mask, old: pa.RecordBatch) -> pa.RecordBatch:
    """The new state of all aggregates of an operator."""
    columns = [column for spec in specs for column in merge(spec, incoming, mask, old)]
    return pa.RecordBatch.from_arrays(columns, schema=state_schema(tuple(specs)))


def finish_all(specs: Sequence[Aggregate], state: pa.RecordBatch) -> pa.RecordBatch:
    columns = [finish(spec, state) for spec in specs]
    return pa.RecordBatch.from_arrays(columns, schema=result_schema(tuple(specs)))


def changed(before: pa.RecordBatch, after: pa.RecordBatch) -> Mask:
    """Rows that are not the same in both, null and NaN being the same as themselves."""
    return ~rows_equal(before.columns, after.columns, before.num_rows)
