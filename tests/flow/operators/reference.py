"""Aggregates in plain Python, row by row: what the vectorised ones are compared with."""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cmp_to_key
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, result_type


class Row(NamedTuple):
    key: int
    x: Any
    time: Any
    offset: int

    @property
    def place(self) -> dict[str, Any]:
        return {"time": self.time, "topic": "t", "partition": 0, "offset": self.offset}


def compared(one: Any, other: Any) -> int:
    """Order of values as Spark has it: null first, NaN last."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        return next((result for name in one if (result := compared(one[name], other[name]))), 0)
    if isinstance(one, float) and (math.isnan(one) or math.isnan(other)):
        return math.isnan(one) - math.isnan(other)
    return int(one > other) - int(one < other)


in_order = cmp_to_key(compared)


def distinct(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in sorted(values, key=in_order):
        if not found or compared(found[-1], value) != 0:
            found.append(value)
    return found


def total(values: Sequence[Any], kind: pa.DataType) -> Any:
    if not values:
        return None
    return sum(values, Decimal(0) if pa.types.is_decimal(kind) else 0.0 if pa.types.is_floating(kind) else 0)


def timed(rows: Iterable[Row], spec: Aggregate) -> list[dict[str, Any]]:
    kept = [row for row in rows if row.time is not None and not (spec.ignore_nulls and row.x is None)]
    return [{**row.place, "value": row.x} for row in kept]


def partial(spec: Aggregate, rows: Sequence[Row]) -> list[Any]:
    """What Spark computes for one key of a batch."""
    values = [row.x for row in rows if row.x is not None]
    kinds: dict[str, Callable[[], list[Any]]] = {
        "count": lambda: [len(rows) if spec.column is None else len(values)],
        "sum": lambda: [total(values, partials(spec)[0].type)],
        "avg": lambda: [average_sum(spec, values), len(values)],
        "min": lambda: [min(values, key=in_order, default=None)],
        "max": lambda: [max(values, key=in_order, default=None)],
        "first": lambda: [min(timed(rows, spec), key=in_order, default=None)],
        "last": lambda: [max(timed(rows, spec), key=in_order, default=None)],
        "collect": lambda: [sorted(({**row.place, "value": row.x} for row in rows if row.x is not None), key=in_order)],
        "collect_set": lambda: [distinct(values)],
    }
    return kinds[spec.kind]()


def average_sum(spec: Aggregate, values: Sequence[Any]) -> Any:
    kind = partials(spec)[0].type
    return total([Decimal(value) for value in values] if pa.types.is_decimal(kind) else values, kind)


def result(spec: Aggregate, rows: Sequence[Row]) -> Any:
    """What an aggregate of all rows of a key is."""
    state = partial(spec, rows)
    match spec.kind:
        case "avg":
            return average(state[0], state[1], result_type(spec))
        case "first" | "last":
            return None if state[0] is None else state[0]["value"]
        case "collect":
            return [element["value"] for element in state[0]]
    return state[0]


def average(sum_: Any, count: int, kind: pa.DataType) -> Any:
    if not count:
        return None
    if pa.types.is_decimal(kind):
        return (Decimal(sum_) / count).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    return float(sum_) / float(count)
