"""Streams as tables of facts: a row for each record, which is never changed (pure).

What follows changes of tables (joins with them, set operations, ranks) has tables on all sides. The facts of a stream
are identified by where their records lie in the log.
"""

from dataclasses import replace

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.nodes import (
    AsOfJoin,
    Dedupe,
    IntervalJoin,
    Latest,
    LatestJoin,
    Node,
    Recognized,
    Select,
    SourceStream,
    Union,
    Where,
    WithColumns,
    generates,
)
from headwater.flow.declare.topology.stored_queries import PERCOLATES

PARTITION, OFFSET, PART = "row_partition", "row_offset", "row_part"


def facts_of(stream: Stream, key: tuple[str, ...] = ()) -> Table:
    """The stream as a table; by columns of its own if they are given, of which the newest row counts."""
    if key:
        return stream.latest(*key)
    node, names = identified(stream.node)
    return Table(Latest(calling_place(), node, names, ""))


def identified(node: Node, suffix: str = "") -> tuple[Node, tuple[str, ...]]:
    """The node with columns more that distinguish its rows, and their names."""
    match node:
        case SourceStream():
            own = {f"{PARTITION}{suffix}": "_at.partition", f"{OFFSET}{suffix}": "_at.offset"}
            return WithColumns(node.place, node, own), tuple(own)
        case Select() | WithColumns() | Where() | Dedupe() if not generates(node):
            inner, names = identified(node.input, suffix)
            if isinstance(node, Select):
                return replace(node, input=inner, columns=(*node.columns, *names)), names
            return replace(node, input=inner), names
        case Union():
            return _of_union(node, suffix)
        case LatestJoin() | AsOfJoin() if not isinstance(node, PERCOLATES):
            inner, names = identified(node.left, f"{suffix}_l")
            return replace(node, left=inner), names
        case Recognized():
            return node, node.key
        case IntervalJoin():
            return _of_pairs(node, suffix)
    raise InvalidDeclaration(
        f"rows of {type(node).__name__.lower()} at {node.place} are not identified by their records",
        "Join, rank or combine before that step; or make a materialized view of it with KEY (...) and read that.",
    )


def _of_union(node: Union, suffix: str) -> tuple[Node, tuple[str, ...]]:
    part, found, names = f"{PART}{suffix}", list[tuple[Node, tuple[str, ...]]](), dict[str, None]()
    for number, one in enumerate(node.parts):
        inner, own = identified(one, suffix)
        found.append((WithColumns(node.place, inner, {part: str(number)}), own))
        names |= dict.fromkeys(own)
    filled = tuple(
        WithColumns(node.place, one, {name: "cast(-1 as bigint)" for name in names if name not in own})
        if set(names) - set(own) else one
        for one, own in found
    )  # fmt: skip
    return replace(node, parts=filled), (part, *names)


def _of_pairs(node: IntervalJoin, suffix: str) -> tuple[Node, tuple[str, ...]]:
    """A side without a partner has no record: −1 stands for it, because a null distinguishes nothing."""
    left, ours = identified(node.left, f"{suffix}_l")
    right, theirs = identified(node.right, f"{suffix}_r")
    names = (*ours, *map(node.named, theirs))
    joined = replace(node, left=left, right=right)
    return WithColumns(node.place, joined, {name: f"coalesce({name}, -1)" for name in names}), names
