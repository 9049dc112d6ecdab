"""Joins whose inputs lie in partitions as their state lies in shards (pure).

Where producers put records by the very text that a join is on, a partition holds rows of one shard alone, and a task
that reads the partitions of a shard, of both topics, has all that the shard needs: nothing is shuffled. Nobody says so
of a topic, and no producer has to go on as it began. So it is counted in every batch: behind one in which all rows were
at home, tasks read the partitions of their shards, and where they find a row that is not, the batch is done once more,
with a shuffle. State and results are the same either way.
"""

from collections.abc import Iterable, Mapping, Sequence

from headwater.errors import FlowError
from headwater.flow.operate.reports import ShardReport
from headwater.flow.source.splitting import Range

UNEVEN = 1.5
"""A shard that has so many times its share of a batch is not read by one task alone."""


class MisplacedRow(FlowError):
    """A row lies in a partition of another shard, and its task has not looked for it there."""


def check_co_partitioned(home: frozenset[str], told: Iterable[ShardReport]) -> None:
    """MisplacedRow if a join was done as if all its rows were at home, and they were not."""
    for one in told:
        if one.operator in home and one.astray:
            raise MisplacedRow(f"{one.astray} rows of {one.operator} lie in partitions of other shards")


def co_partitioned_after(known: frozenset[str], told: Iterable[ShardReport]) -> frozenset[str]:
    """The joins all of whose rows were at home in this batch. Those that had none stay what they were.

    >>> found = ("one", 0, 0), ("two", 0, 0), ("two", 1, 1)
    >>> told = [ShardReport(name, shard, 5, (), astray=astray) for name, shard, astray in found]
    >>> sorted(co_partitioned_after(frozenset({"two", "three"}), told))
    ['one', 'three']
    """
    asked = {one.operator for one in told if one.astray is not None and one.rows}
    astray = {one.operator for one in told if one.astray}
    return (known | asked) - astray


def by_home(ranges: Sequence[Range], partitions: Mapping[str, int], shards: int) -> list[list[Range]] | None:
    """What the task of each shard reads; None if partitions are not dealt out evenly to shards, or rows are not.

    >>> ranges = [Range("a", 0, 0, 10), Range("a", 1, 0, 12), Range("b", 1, 5, 7)]
    >>> [[(one.topic, one.partition) for one in task] for task in by_home(ranges, {"a": 4, "b": 2}, 2)]
    [[('a', 0)], [('a', 1), ('b', 1)]]
    >>> by_home(ranges, {"a": 3, "b": 2}, 2)
    """
    if shards == 1 or any(count % shards for count in partitions.values()):
        return None
    tasks = [[one for one in ranges if one.partition % shards == shard] for shard in range(shards)]
    rows = [sum(one.rows for one in task) for task in tasks]
    return tasks if max(rows) * shards <= UNEVEN * sum(rows) else None
