"""One moment of several views: what is promised about what they reflect together. Pure.

A view's position says for each partition of each topic that its job reads how far that was read. Views are *at one
position* if no two of them differ about a partition: then there is one position of the topics, and each view is what it
is at that position. It can only be promised of views that hang together, each sharing a topic with another: nothing
says which record of one topic came before which of another.
"""

from collections.abc import Iterable, Mapping

from headwater.errors import NotComparable
from headwater.record import TopicPartition
from headwater.views.mark import Offsets, covers

Positions = Mapping[str, Offsets]
"""By the name of a view."""


def joint(positions: Positions) -> dict[str, dict[int, int]] | None:
    """The one position at which all of them are; None if there is none.

    >>> joint({"a": {"orders": {0: 5}}, "b": {"orders": {0: 5}, "rates": {0: 1}}})
    {'orders': {0: 5}, 'rates': {0: 1}}
    >>> joint({"a": {"orders": {0: 5}}, "b": {"orders": {0: 6}}}) is None
    True
    >>> joint({"a": {"orders": {0: 5}}, "b": {}}) is None
    True
    """
    if unlinked(positions) or (len(positions) > 1 and not all(positions.values())):
        return None  # before its first batch, what a view is going to read is not known
    found: dict[TopicPartition, int] = {}
    for position in positions.values():
        for topic, offsets in position.items():
            for partition, offset in offsets.items():
                if found.setdefault(TopicPartition(topic, partition), offset) != offset:
                    return None
    if any(_lacks(position, found) for position in positions.values()):
        return None
    together: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(found.items()):
        together.setdefault(topic, {})[partition] = offset
    return together


def _lacks(position: Offsets, found: Mapping[TopicPartition, int]) -> bool:
    """Whether a view has not read a partition of its topics yet that another has: a topic has grown by one."""
    return any(
        topic in position and number not in position[topic] and offset for (topic, number), offset in found.items()
    )


def unlinked(positions: Positions) -> tuple[str, str] | None:
    """Two views that do not hang together by the topics that they and the others read; None if all do.

    >>> unlinked({"a": {"orders": {0: 5}}, "b": {"orders": {0: 6}, "rates": {}}, "c": {"rates": {}}})
    >>> unlinked({"a": {"orders": {0: 5}}, "b": {"rates": {0: 6}}})
    ('a', 'b')
    """
    begun = {name: set(position) for name, position in positions.items() if position}
    if not begun:
        return None
    first, *others = begun
    linked, rest = set(begun[first]), dict.fromkeys(others)
    while rest and (more := [name for name in rest if begun[name] & linked]):
        for name in more:
            linked |= begun[name]
            del rest[name]
    return (first, next(iter(rest))) if rest else None


def check_comparable(positions: Positions) -> None:
    """NotComparable if the views do not hang together by the topics that they read."""
    found = unlinked(positions)
    if found is not None:
        first, other = found
        raise NotComparable(
            f'views "{first}" and "{other}" cannot be at one position: they read different topics '
            f"({_listed(positions[first])}; {_listed(positions[other])})",
            "Ask each at its own position, or keep both in one job with App(..., one_job=True).",
        )


def check_reachable(positions: Positions, wanted: Offsets) -> None:
    """NotComparable if no view reads a topic of the position that is waited for."""
    if not all(positions.values()):
        return
    read = {topic for position in positions.values() for topic in position}
    for topic in wanted:
        if topic not in read:
            raise NotComparable(
                f'none of the views reads topic "{topic}", so they never reach a position of it',
                f"They read {_listed(read)}.",
            )


def reached(positions: Positions, wanted: Offsets) -> bool:
    """Whether each view includes what is wanted of the topics that it reads."""
    return all(
        bool(position) and covers(position, {topic: offsets for topic, offsets in wanted.items() if topic in position})
        for position in positions.values()
    )


def slowest(positions: Positions) -> str:
    """A sentence's part: which views are where, of partitions that they differ about.

    >>> slowest({"a": {"orders": {0: 5}}, "b": {"orders": {0: 6}}})
    'orders/0: a up to 5, b up to 6'
    """
    said: dict[TopicPartition, dict[str, int]] = {}
    for name, position in positions.items():
        for topic, offsets in position.items():
            for partition, offset in offsets.items():
                said.setdefault(TopicPartition(topic, partition), {})[name] = offset
    parts = [
        f"{topic}/{partition}: {', '.join(f'{name} up to {offset}' for name, offset in at.items())}"
        for (topic, partition), at in sorted(said.items())
        if len(set(at.values())) > 1
    ]
    empty = [name for name, position in positions.items() if not position]
    return "; ".join([*parts[:5], *(f"{name} has nothing yet" for name in empty)])


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics))
