"""Whether Spark reduces the rows of a batch before they come to their shards, or they come there one by one (pure).

Spark's aggregation pays where rows repeat: of many rows of a group one is shuffled and handed to Python. Where they
hardly do, it costs more than all the rest. How much they repeat is counted in every batch and stands in its record, and
how many rows a batch has is known before it runs: a batch that comes again goes the same way. That matters, as sums of
floating-point numbers depend on the order in which they are added.
"""

from collections.abc import Iterable, Mapping

from headwater.flow.job.merging import Told

MANY_ROWS = 20_000
"""Below this (an estimate as well), one step less for tasks is worth more than any aggregation."""
ROWS_A_GROUP = 4
"""From about so many on Spark's own aggregation should be cheaper: an estimate from what each step costs a row."""


def rows_between(start: Mapping[str, Mapping[int, int]], end: Mapping[str, Mapping[int, int]]) -> int:
    """
    >>> rows_between({"orders": {0: 5}}, {"orders": {0: 7, 1: 1}})
    3
    """
    return sum(at - start.get(topic, {}).get(number, 0) for topic, parts in end.items() for number, at in parts.items())


def repeating_after(known: frozenset[str], told: Iterable[Told]) -> frozenset[str]:
    """The operators whose rows the next batch is to reduce. Those that had no rows stay what they were.

    >>> told = [Told("two", 0, 100, (), groups=80), Told("new", 0, 9, (), groups=1)]
    >>> sorted(repeating_after(frozenset({"one", "two"}), told))
    ['new', 'one']
    """
    rows: dict[str, int] = {}
    groups: dict[str, int] = {}
    for one in (one for one in told if one.groups):
        rows[one.operator] = rows.get(one.operator, 0) + one.rows
        groups[one.operator] = groups.get(one.operator, 0) + one.groups
    repeats = {name for name, count in groups.items() if rows[name] >= ROWS_A_GROUP * count}
    return frozenset((known - groups.keys()) | repeats)
