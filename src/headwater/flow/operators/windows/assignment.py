"""Window assignment: arithmetic on event times that several kinds of windows share (pure).

All times are int64 microseconds since 1970 in UTC, without nulls: sources fall back on the record's timestamp, and
windows after `changes()`, whose rows have no event time, are refused when they are declared. Should a column have nulls
all the same, `times_of` says which rows have a time. Spark SQL computes null for the others, so that they are neither
counted as late nor let through by `where(not late)`.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.state.runs.equality import Integers, Mask, valid

Assigned = Mapping[str, Integers]
"""Columns that say where in event time rows lie; which ones is `columns` of the kind of window."""

POSITION = ("source", "partition", "offset")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 86_400_000_000


class Spans(NamedTuple):
    """Windows as [start, end), one for each row."""

    starts: Integers
    ends: Integers


def times_of(column: pa.Array) -> tuple[Integers, Mask]:
    """Event times in microseconds, 0 where there is none, and a mask of the rows that have one.

    >>> times, known = times_of(pa.array([None, 7], pa.timestamp("us", "UTC")))
    >>> times.tolist(), known.tolist()
    ([0, 7], [False, True])
    """
    micros = column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
    return micros.cast(pa.int64()).fill_null(0).to_numpy(), valid(column)


def floored(times_us: Integers, step_us: int, offset_us: int = 0) -> Integers:
    """The latest of the times `offset_us + n * step_us` that is not after each event time.

    >>> floored(np.array([-1, 0, 9, 10]), 10).tolist()
    [-10, 0, 0, 10]
    """
    if not offset_us:
        return times_us // step_us * step_us
    return (times_us - offset_us) // step_us * step_us + offset_us


def aligned(times_us: Integers, width_us: int, step_us: int = 1, offset_us: int = 0) -> tuple[Integers, Integers]:
    """For each time the range that it lies in, of those that are side by side and of a whole number of steps each."""
    width = -(-width_us // step_us) * step_us
    begins = times_us - np.mod(times_us - offset_us, width)
    return begins, begins + width


def of_groups(assigned: Assigned, order: Integers, begins: Integers) -> Assigned:
    """The columns of groups whose rows all have the same values.

    `order` has the rows sorted by group, and `begins` the indexes in it at which groups begin.
    """
    first = order[begins]
    return {name: column[first] for name, column in assigned.items()}


def moment_of(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


def micros_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def for_distinct(values: Integers, function: Callable[[int], int]) -> Integers:
    """A function of values of which few are distinct, computed once for each of those."""
    found = pa.array(values, pa.int64()).dictionary_encode()
    distinct = found.dictionary.to_pylist()
    results: Integers = np.fromiter(map(function, distinct), np.int64, len(distinct))[found.indices.to_numpy()]
    return results
