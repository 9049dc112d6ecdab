"""What measures are of the matches that were found: for each row of the result the value of each slot (pure).

Values of rows are taken from the columns as they are, of whatever type; only counts, sums and averages are computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.patterns.columns import decimals
from headwater.flow.operators.patterns.conditions import is_real
from headwater.flow.operators.patterns.machine import (
    AVERAGE,
    COUNT,
    FIRST,
    GREATEST,
    LABEL,
    LAST,
    LEAST,
    NULL,
    NUMBER,
    ROW,
    SUM,
    VALUE,
    Conditions,
    Flags,
    Kept,
    Limits,
    Real,
    Whole,
    _compiled,
    _push,
    navigated,
    take,
)
from headwater.flow.operators.patterns.search import (
    FIRST_ROW,
    GROUP,
    HIDDEN,
    LABELS,
    LENGTH,
    LIMIT,
    MATCH_NUMBER,
    floor_of,
)


@dataclass(frozen=True)
class Measure:
    """A slot under a name; `column` is that of the argument among the rows, empty where there is none."""

    name: str
    kind: int
    type: pa.DataType
    column: str
    final: bool


class Shown(NamedTuple):
    """Rows of results: the number of the match among those found, which of its rows; -1 of a match without rows."""

    matches: Whole
    depths: Whole


class Values(NamedTuple):
    """For each slot and row of the result: the row that it is taken from, or the value, and whether there is one."""

    rows: Whole
    whole: Whole
    real: Real
    state: Whole


def shown_rows(found: Whole, labels: Whole, *, all_rows: bool, show_empty: bool) -> Shown:
    """One row for each match, or all that are not excluded."""
    lengths, begins = found[:, LENGTH], found[:, LABELS]
    if not all_rows:
        return Shown(np.arange(len(found)), lengths - 1)
    matches = np.repeat(np.arange(len(found)), np.maximum(lengths, 1))
    firsts = np.cumsum(np.maximum(lengths, 1)) - np.maximum(lengths, 1)
    depths = np.arange(len(matches)) - firsts[matches]
    empty = lengths[matches] == 0
    places = np.minimum(begins[matches] + depths, max(len(labels) - 1, 0))
    hidden = (labels[places] & HIDDEN) != 0 if len(labels) else np.zeros(len(matches), np.bool_)
    kept = np.where(empty, show_empty, ~hidden)
    return Shown(matches[kept], np.where(empty, -1, depths)[kept])


@_compiled
def values_of(
    conditions: Conditions, limits: Limits, begins: Whole, found: Whole, labels: Whole, matches: Whole, depths: Whole,
    finals: Flags, longest: int,
) -> Values:  # fmt: skip
    """The slots of `conditions` for some rows of results, which are sorted by match and depth."""
    slots = conditions.slots
    count = len(slots)
    kept = Kept(
        np.zeros(longest, np.int64), np.zeros(longest, np.bool_), np.zeros((longest, count), np.int64),
        np.zeros((longest, count), np.float64), np.zeros((longest, count), np.int64),
    )  # fmt: skip
    rows, whole = np.full((count, len(matches)), -1, np.int64), np.zeros((count, len(matches)), np.int64)
    real, state = np.zeros((count, len(matches)), np.float64), np.zeros((count, len(matches)), np.int64)
    one_state, one_whole, one_real = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.float64)
    taken = -1
    for place in range(len(matches)):
        match = matches[place]
        first, length, limit = found[match, FIRST_ROW], found[match, LENGTH], found[match, LIMIT]
        begin = begins[found[match, GROUP]]
        if match != taken:
            taken = match
            floor = floor_of(conditions.times, first, begin, limits)
            for depth in range(length):
                label = labels[found[match, LABELS] + depth] & (HIDDEN - 1)
                take(kept, depth, first + depth, label, slots, conditions.whole, conditions.real, conditions.there)
        for slot in range(count):
            kind = slots[slot, 0]
            depth = length - 1 if finals[slot] else depths[place]
            if kind == NUMBER:
                whole[slot, place] = found[match, MATCH_NUMBER]
            elif depth < 0:
                state[slot, place] = VALUE if kind == COUNT else NULL
            elif kind == LABEL:
                row = labelled(slots, slot, depth, labels, found[match, LABELS])
                state[slot, place] = VALUE if row >= 0 else NULL
                if row >= 0:
                    whole[slot, place] = labels[row] & (HIDDEN - 1)
            elif kind in (LAST, FIRST):
                rows[slot, place] = navigated(kept, slots, slot, depth, first, begin, limit, floor)
            elif kind == ROW:
                rows[slot, place] = first + depth
            elif kind in (LEAST, GREATEST):
                rows[slot, place] = kept.whole[depth, slot] if kept.counts[depth, slot] else -1
            else:
                _push(
                    conditions, kept, slot, depth, first, first, begin, limit, floor, one_state, one_whole, one_real, 0
                )
                state[slot, place], whole[slot, place], real[slot, place] = one_state[0], one_whole[0], one_real[0]
    return Values(rows, whole, real, state)


@_compiled
def labelled(slots: Whole, slot: int, depth: int, labels: Whole, begin: int) -> int:
    """Where among all labels that of CLASSIFIER() stands, or -1."""
    bits, offset, from_first = slots[slot, 1], slots[slot, 3], slots[slot, 5] == 1
    for place in range(depth + 1):
        at = begin + (place if from_first else depth - place)
        if (bits >> (labels[at] & (HIDDEN - 1))) & 1:
            if offset == 0:
                return int(at)
            offset -= 1
    return -1


def columns_of(
    measures: Sequence[Measure], values: Values, rows: pa.RecordBatch, names: Sequence[str]
) -> list[pa.Array]:
    """The values as columns; `names` are those of variables."""
    made = []
    for number, one in enumerate(measures):
        state, whole, real = values.state[number], values.whole[number], values.real[number]
        there = state == VALUE
        if one.kind in (ROW, LAST, FIRST, LEAST, GREATEST):
            places = values.rows[number]
            made.append(rows.column(one.column).take(pa.array(places, mask=places < 0)))
        elif one.kind == LABEL:
            made.append(pa.array(names, pa.string()).take(pa.array(whole, mask=~there)))
        elif one.kind in (COUNT, NUMBER):
            made.append(pa.array(whole, pa.int64(), mask=~there))
        elif is_real(one.type):
            made.append(pa.array(real, pa.float64(), mask=~there))
        elif pa.types.is_decimal(one.type):
            made.append(decimals(whole, one.type, there))
        else:
            made.append(pa.array(whole, one.type, mask=~there))
    return made


__all__ = ["AVERAGE", "SUM", "Measure", "Shown", "Values", "columns_of", "shown_rows", "values_of"]
