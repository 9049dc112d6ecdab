"""Where rows lie in event time, as columns of microseconds, and how those of a group become one (pure).

What each kind of window wants is `columns` of its class:

    tumbling, calendar   window_start
    hopping              pane_start               of the range of time that windows have as a whole or not at all
    session              first_time, last_time    of a single row both are its event time
    sliding              time
    count                time, source, partition, offset
"""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.flow.state.runs.equality import Integers

Places = Mapping[str, Integers]


class Spans(NamedTuple):
    """Windows as [start, end), one for each row."""

    starts: Integers
    ends: Integers


def floored(times_us: Integers, step_us: int, offset_us: int = 0) -> Integers:
    """The latest of the times `offset_us + n * step_us` that is not after each event time.

    >>> import numpy as np
    >>> floored(np.array([-1, 0, 9, 10]), 10).tolist()
    [-10, 0, 0, 10]
    """
    if not offset_us:
        return times_us // step_us * step_us
    return (times_us - offset_us) // step_us * step_us + offset_us


def of_groups(places: Places, order: Integers, begins: Integers) -> Places:
    """Places of groups whose rows all have the same.

    `order` has the rows sorted by group, and `begins` the positions in it at which groups begin.
    """
    first = order[begins]
    return {name: column[first] for name, column in places.items()}
