"""Ranges of partitions to Spark tasks: none much larger than the others, none hardly worth its start. Pure."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from headwater.record import TopicPartition

ROWS_MIN = 50_000
"""Below this a task of its own costs more than it saves."""
ROWS_MAX = 4_000_000
"""What is read again if a task fails."""
TASKS_PER_CORE = 2
"""So that a core which is done early finds something more to do."""


class Range(NamedTuple):
    topic: str
    partition: int
    first: int
    end: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def rows(self) -> int:
        return self.end - self.first


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[Range]:
    """What lies between two positions; a partition that the first does not know begins at 0."""
    ranges = [Range(*place, start.get(place, 0), offset) for place, offset in sorted(end.items())]
    return [one for one in ranges if one.rows > 0]


def tasks_for(ranges: list[Range], *, cores: int) -> list[list[Range]]:
    """The ranges, cut and gathered; one list for each task. The same ranges give the same tasks.

    >>> [[one[2:] for one in task] for task in tasks_for([Range("a", 0, 0, 200_000), Range("b", 0, 7, 9)], cores=2)]
    [[(0, 50000)], [(50000, 100000)], [(100000, 150000)], [(150000, 200000)], [(7, 9)]]
    """
    total = sum(one.rows for one in ranges)
    wanted = min(ROWS_MAX, max(ROWS_MIN, -(-total // (TASKS_PER_CORE * max(1, cores)))))
    tasks: list[list[Range]] = []
    room = 0
    for piece in (piece for one in ranges for piece in _cut(one, wanted)):
        if not tasks or piece.rows > room:
            tasks.append([])
            room = wanted
        tasks[-1].append(piece)
        room -= piece.rows
    return tasks


def _cut(one: Range, rows: int) -> list[Range]:
    """Pieces of nearly the same size, none larger than `rows`."""
    count = -(-one.rows // rows)
    edges = [one.first + one.rows * step // count for step in range(count + 1)]
    return [one._replace(first=first, end=end) for first, end in pairwise(edges)]
