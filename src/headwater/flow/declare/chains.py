"""Joins one behind the other on the same columns: chains, whose rows need to be brought together only once (pure).

    searches ─┐
    clicks ───┴─ join on session ─┐
    orders ───────────────────────┴─ join on session        one chain of two joins

What the first join tells lies where its key belongs, and the second joins on the same key: so one task can do both. Not
where more than a choice of columns stands between them, where somebody else wants what the first tells, or where the
second might find a row too late that comes from the first.
"""

import re
from collections import Counter
from collections.abc import Iterable

from headwater.flow.declare.nodes import (
    STREAM_JOINS,
    AsOfJoin,
    IntervalJoin,
    Join,
    LatestJoin,
    Node,
    Select,
    TableJoin,
    walk,
)
from headwater.flow.operators.joins.pairing import INNER

Chain = tuple[Join, ...]
"""Joins, each of which makes the left of the next."""


def chains_of(ends: Iterable[Node]) -> list[Chain]:
    """The longest there are in what some outputs are made from; `ends` has a node for each output."""
    outputs = list(ends)
    uses = Counter(outputs)
    nodes = list(dict.fromkeys(node for end in outputs for node in walk(end)))
    for node in nodes:
        uses.update(node.inputs)
    found: dict[Node, Chain] = {}
    for node in nodes:  # inputs first
        if not isinstance(node, Join):
            continue
        chosen, first = _behind(node)
        only = all(uses[one] == 1 for one in (*chosen, first))
        # Of rows without a partner all columns are told, by the last join.
        whole = not chosen or not any(map(_may_miss, found.get(first, ())))
        before = found.pop(first, ()) if only and whole and _follows(first, node) else ()
        found[node] = (*before, node)
    return [chain for chain in found.values() if len(chain) > 1]


def made_by(join: Join) -> Node:
    """What makes the left of a join, whatever columns are chosen of it."""
    return _behind(join)[1]


def chosen_before(join: Join) -> list[Node]:
    """The steps between them, in their order."""
    return _behind(join)[0][::-1]


def _behind(join: Join) -> tuple[list[Node], Node]:
    chosen: list[Node] = []
    node = join.left
    while isinstance(node, Select) and all(_is_name(column) for column in node.columns):
        chosen, node = [*chosen, node], node.input
    return chosen, node


def _is_name(column: object) -> bool:
    return isinstance(column, str) and (column == "*" or re.fullmatch(r"\w+", column) is not None)


def _follows(first: Node, join: Join) -> bool:
    """Can a task that has done the first do the other as well?"""
    if not isinstance(first, Join) or _names(first) != _names(join):
        return False
    if isinstance(first, TableJoin) and isinstance(join, TableJoin):
        return True
    streams = isinstance(first, STREAM_JOINS) and isinstance(join, STREAM_JOINS)
    return streams and not first.keyed and not join.keyed and _never_late(first, join)


def _names(join: Join) -> list[str]:
    """What it is joined on, as its result has it."""
    return [name for name, _ in join.on]


def _may_miss(join: Join) -> bool:
    """Are there rows that must have a partner, and are told to have none?"""
    return isinstance(join, LatestJoin | AsOfJoin) and join.how == INNER


def _never_late(first: Join, second: Join) -> bool:
    """What an interval join emits is never before the watermark of what follows it (plan/delays.py). A join as of a
    time answers for events as old as its versions."""
    if isinstance(second, LatestJoin) or isinstance(first, IntervalJoin):
        return True
    if isinstance(first, AsOfJoin) and isinstance(second, AsOfJoin):
        return first.versions.versions_us <= second.versions.versions_us
    return False
