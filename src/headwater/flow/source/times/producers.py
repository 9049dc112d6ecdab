"""How far each producer in a partition has come in time, as ranges count it. Pure."""

from collections.abc import Iterator

import pyarrow as pa

from headwater.log.record_columns import Int64Array

NAMELESS = ""
"""Rows that name no producer have one together."""

Counted = dict[str, list[int | None]]
"""Newest event time (µs), newest timestamp of a record (ms), and time before which nothing more comes (µs)."""


def hear_all(counted: Counted, names: pa.Array, times_us: pa.Array, timestamps_ms: Int64Array) -> None:
    """Rows of any producers."""
    for name, newest_us, arrived_ms in _newest(names, times_us, timestamps_ms):
        hear(counted, name, arrived_ms=arrived_ms, newest_us=newest_us)


def hear(
    counted: Counted, name: str, *, arrived_ms: int, newest_us: int | None = None, promised_us: int | None = None
) -> None:
    """
    >>> counted: Counted = {}
    >>> hear(counted, "pump", arrived_ms=7, newest_us=5)
    >>> hear(counted, "pump", arrived_ms=6, promised_us=9)
    >>> counted
    {'pump': [5, 7, 9]}
    """
    before = counted.get(name, [None, None, None])
    counted[name] = [_most(*pair) for pair in zip(before, (newest_us, arrived_ms, promised_us), strict=True)]


def _newest(names: pa.Array, times_us: pa.Array, timestamps_ms: Int64Array) -> Iterator[tuple[str, int, int]]:
    rows = pa.table(
        [names.cast(pa.string()).fill_null(NAMELESS), times_us, pa.array(timestamps_ms)], ["name", "time", "at"]
    )
    grouped = rows.group_by("name", use_threads=False).aggregate([("time", "max"), ("at", "max")])
    columns = (grouped.column(column).to_pylist() for column in ("name", "time_max", "at_max"))
    yield from zip(*columns, strict=True)


def _most(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
