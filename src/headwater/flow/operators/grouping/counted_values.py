"""The different values of each group, and how often each is there: what a batch changes of them (pure).

Two parts of an operator's state may hold them. One says how often a value is there, and is asked for values by their
hash. The other holds them in an order, and is asked for the first ones of a group; it is written only where a value
comes or goes.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.operators.grouping.changed_rows import ChangedRows
from headwater.flow.operators.spark_hashes import xxhash64
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import ShardState

VALUE, OWN, PLACE, COUNT = "_value", "_own", "_place", "_count"


def counts_schema(key: pa.Schema, kind: pa.DataType) -> StateSchema:
    own = [pa.field(VALUE, kind), pa.field(OWN, pa.int64())]
    return StateSchema(pa.schema([*key, *own]), pa.schema([(COUNT, pa.int64())]), (OWN,))


def order_schema(key: pa.Schema, kind: pa.DataType) -> StateSchema:
    own = [pa.field(VALUE, kind), pa.field(PLACE, pa.int64()), pa.field(OWN, pa.int64())]
    return StateSchema(pa.schema([*key, *own]), pa.schema([]), (PLACE, OWN))


class Counted(NamedTuple):
    """Values of groups, each of a group once, in the order of the groups: how often each was there, and is."""

    groups: Integers
    values: pa.Array
    own: Integers
    was: Integers
    now: Integers

    @property
    def came(self) -> Mask:
        return np.asarray((self.was == 0) & (self.now > 0), np.bool_)

    @property
    def went(self) -> Mask:
        return np.asarray((self.was > 0) & (self.now == 0), np.bool_)

    def where(self, mask: Mask) -> "Counted":
        return Counted(
            self.groups[mask], self.values.filter(pa.array(mask)), self.own[mask], self.was[mask], self.now[mask]
        )  # fmt: skip


def changed_counts(state: ShardState, given: ChangedRows, values: pa.Array) -> tuple[Counted, RunInfo | None]:
    """What rows change of the values of their groups, and the run that says so. `values` are those of the rows, null
    where a row has none."""
    changed = _changed(given, normal(values))
    keys = _keys(given, changed)
    found = state.lookup(given.hashes[changed.groups], keys)
    was = np.asarray(found.values.column(COUNT).fill_null(0).to_numpy(), np.int64)
    changed = changed._replace(was=was, now=changed.now + was)
    if (changed.now < 0).any():
        raise FlowError("a batch takes a row out of a group that is not in it", "This is a bug; please report it.")
    columns = {COUNT: pa.array(changed.now), DELETED: pa.array(changed.now == 0)}
    run = state.write(_rows(given, changed, keys, columns), existed=found.mask)
    return changed, run


def write_order(state: ShardState, given: ChangedRows, counted: Counted, places: Integers) -> RunInfo | None:
    """Values that came or went, at their places."""
    moved = counted.came | counted.went
    own, at = counted.where(moved), places[moved]
    keys = _keys(given, own).append_column(PLACE, pa.array(at))
    return state.write(_rows(given, own, keys, {DELETED: pa.array(own.went)}), existed=own.went)


def all_values(state: ShardState, given: ChangedRows, changed: Counted) -> Counted:
    """All values that groups have after a batch, group by group."""
    found = state.matches(given.hashes, given.keys)
    order = np.argsort(found.places, kind="stable")
    kept = _values_of(found.rows.take(pa.array(order)), found.places[order])
    kept = kept.where(~_among(kept, changed))
    there = changed.where(changed.now > 0)
    groups = np.concatenate([kept.groups, there.groups])
    order = np.argsort(groups, kind="stable")
    both = pa.concat_arrays([kept.values, there.values]).take(pa.array(order))
    own, now = (np.concatenate([getattr(one, name) for one in (kept, there)])[order] for name in ("own", "now"))
    return Counted(groups[order], both, own, now, now)


def first_values(
    state: ShardState, given: ChangedRows, changed: Counted, groups: Integers
) -> tuple[Integers, pa.Array]:
    """Of some groups values that a batch has not touched, with the numbers of their groups: the first that there is is
    among them."""
    gone = np.bincount(changed.groups[changed.went], minlength=len(given))
    found = state.leading(given.hashes[groups], given.keys.take(pa.array(groups)), 1 + gone[groups])
    kept = _values_of(found.rows, groups[found.places])
    kept = kept.where(~_among(kept, changed))
    return kept.groups, kept.values


def normal(values: pa.Array) -> pa.Array:
    """One value for all that are equal: 0.0 for −0.0, and one that is not a number."""
    kind = values.type
    if pa.types.is_struct(kind):
        children = [normal(child) for child in values.flatten()]
        fields = [pa.field(field.name, field.type) for field in kind]
        return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())
    if not pa.types.is_floating(kind):
        return values
    plain = pc.add(values, pa.scalar(0.0, kind))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), kind), plain)


def _changed(given: ChangedRows, values: pa.Array) -> Counted:
    """Each value of a group once, and in `now` how often more it is there."""
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    groups, values = given.segments.numbers[there], values.take(pa.array(there))
    own = xxhash64([values], len(values)) >> 1  # halved: within the bounds of searches
    order, firsts = grouped([groups, own], pa.RecordBatch.from_arrays([values], names=[VALUE]))
    if not len(order):
        return Counted(groups, values, own, groups, groups)
    more = np.add.reduceat(given.weights[there][order], np.flatnonzero(firsts))
    heads = order[firsts]
    found = Counted(groups[heads], values.take(pa.array(heads)), own[heads], np.zeros(len(heads), np.int64), more)
    return found.where(more != 0)


def _among(kept: Counted, changed: Counted) -> Mask:
    """Which values of groups are among those that a batch has touched."""
    groups, own = (np.concatenate([getattr(one, name) for one in (changed, kept)]) for name in ("groups", "own"))
    values = pa.concat_arrays([changed.values, kept.values])
    order, firsts = grouped([groups, own], pa.RecordBatch.from_arrays([values], names=[VALUE]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(firsts) - 1
    touched = np.bincount(numbers[: len(changed.groups)], minlength=len(order)) > 0
    return np.asarray(touched[numbers[len(changed.groups) :]], np.bool_)


def _values_of(rows: pa.RecordBatch, groups: Integers) -> Counted:
    counts = rows.column(COUNT).to_numpy() if COUNT in rows.schema.names else np.ones(rows.num_rows, np.int64)
    return Counted(groups, rows.column(VALUE), rows.column(OWN).to_numpy(), counts, counts)


def _keys(given: ChangedRows, counted: Counted) -> pa.RecordBatch:
    keys = given.keys.take(pa.array(counted.groups))
    return keys.append_column(VALUE, counted.values).append_column(OWN, pa.array(counted.own))


def _rows(given: ChangedRows, counted: Counted, keys: pa.RecordBatch, more: dict[str, pa.Array]) -> pa.RecordBatch:
    columns = [pa.array(given.hashes[counted.groups]), *keys.columns, *more.values()]
    return pa.RecordBatch.from_arrays(columns, names=[HASH, *keys.schema.names, *more])
