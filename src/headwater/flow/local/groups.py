"""The first known values of each group of rows (pure)."""

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def first_of_groups(columns: Sequence[pa.Array], keys: int) -> list[pa.Array]:
    """The first `keys` columns are the key; of each other column, the first value of each key that is not null."""
    if not keys:  # all of them are one group; Spark has a row for it also where there are none
        firsts_of = [column.drop_null() for column in columns]
        return [one.slice(0, 1) if len(one) else pa.nulls(1, one.type) for one in firsts_of]
    rows = zip(*(column.to_pylist() for column in columns[:keys]), strict=True)
    groups: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(tuple(map(_comparable, row)), []).append(index)
    begins = [indexes[0] for indexes in groups.values()]
    found = [column.take(pa.array(begins, pa.int64())) for column in columns[:keys]]
    for column in columns[keys:]:
        there = column.is_valid().to_pylist()
        firsts = [next((index for index in indexes if there[index]), None) for indexes in groups.values()]
        found.append(column.take(pa.array(firsts, pa.int64())))
    return found


def _comparable(value: Any) -> Any:
    """NaN is the same as itself, and what has no hash is compared as text."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN", None
    return repr(value) if isinstance(value, dict | list) else value
