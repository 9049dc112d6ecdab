"""Rows of the same key brought together (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.ordering import sorted_places
from headwater.flow.state.runs.equality import Integers, Mask, rows_equal
from headwater.flow.state.runs.run_union import followers_of
from headwater.flow.state.runs.sorting import rises, sorted_order


class Groups(NamedTuple):
    """Places of rows, those of a group side by side, and which of them are the first of theirs."""

    order: Integers
    firsts: Mask

    @property
    def numbers(self) -> Integers:
        """The number of each row's group, in order."""
        return np.cumsum(self.firsts) - 1


def grouped(same: Sequence[Integers], keys: pa.RecordBatch, within: Sequence[Integers] = ()) -> Groups:
    """Groups of rows with the same key and the same values in `same`, of which the hash of the key is one.

    They are sorted by `same`, and in a group by `within`.
    """
    columns = [*same, *within]
    order = np.arange(len(columns[0])) if rises(columns) else sorted_order(columns)
    followers, torn = _followers(same, keys, order)
    if torn:  # different keys of one hash lie between each other
        order = _untangled(same, keys, within, order)
        followers, _ = _followers(same, keys, order)
    return Groups(order, ~followers)


def _untangled(same: Sequence[Integers], keys: pa.RecordBatch, within: Sequence[Integers], order: Integers) -> Integers:
    """The order of rows with those of one hash sorted by their keys: only rows that share it with others are moved."""
    alike = followers_of([column[order] for column in same])
    several = alike.copy()
    several[:-1] |= alike[1:]
    moved = order[several]
    columns = [*(pa.array(column[moved]) for column in same), *keys.take(moved).columns]
    order = order.copy()
    order[several] = moved[sorted_places([*columns, *(pa.array(column[moved]) for column in within)])]
    return order


def _followers(same: Sequence[Integers], keys: pa.RecordBatch, order: Integers) -> tuple[Mask, bool]:
    """Which rows, in order, are of the group of the one before; and whether some hash is that of several keys."""
    followers = followers_of([column[order] for column in same])
    doubled = np.flatnonzero(followers)
    if not len(doubled) or not keys.num_columns:
        return followers, False
    before, behind = keys.take(order[doubled - 1]), keys.take(order[doubled])
    equal = rows_equal(before.columns, behind.columns, len(doubled))
    followers[doubled] = equal
    return followers, not equal.all()


def taken(rows: pa.RecordBatch, places: Integers) -> pa.RecordBatch:
    """Rows at some places; not copied where these are all, in order."""
    whole = len(places) == rows.num_rows and np.array_equal(places, np.arange(len(places)))
    return rows if whole or not rows.num_columns else rows.take(places)
