"""Which operators of a job run together, who uses what they emit, and where rows end (pure).

Rows end at the first operator that turns them into a table, or at the output itself. They are accounted for from the
log to there: beyond it no fact travels any more, only changes of a result. An operator that lets the first row of each
key through lies on the way. What joins make, and changes of tables, are facts again: an operator downstream of them is
an end of those, and also of facts from the log that come to it beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.flow.declare.topology.graph import TOPIC, Job, Planned
from headwater.flow.declare.topology.nodes import (
    MAKING,
    STATEFUL,
    Dedupe,
    Node,
    Source,
    SourceStream,
    SourceTable,
    walk,
)


@dataclass(frozen=True)
class Uses:
    """Operators whose results other operators or steps of Spark's use, and outputs that are just what one emits."""

    frames: frozenset[Node]
    plain: tuple[Planned, ...]


def uses_of(job: Job) -> Uses:
    inner = {one for planned in job.outputs for node in walk(planned.node) for one in node.inputs}
    plain = tuple(one for one in job.outputs if one.output.kind != TOPIC and _is_emitted(one.node))
    others = {one.node for one in job.outputs if one not in plain}
    found = {node for planned in job.outputs for node in walk(planned.node) if isinstance(node, STATEFUL)}
    return Uses(frozenset(node for node in found if node in inner | others), plain)


def _is_emitted(node: Node) -> bool:
    return isinstance(node, STATEFUL) and (node.keyed or isinstance(node, MAKING))


def levels_of(job: Job) -> dict[Node, int]:
    """Operators, by how many operators come before them."""
    nodes = {node: None for planned in job.outputs for node in walk(planned.node)}
    return {node: _depth(node) for node in nodes if isinstance(node, STATEFUL)}


def _depth(node: Node) -> int:
    return max((_depth(one) + isinstance(one, STATEFUL) for one in node.inputs), default=0)


@dataclass(frozen=True, eq=False)
class Root:
    """An end of rows. `node` is the operator, or the output's own node where there is none."""

    node: Node
    stateful: bool
    starts: tuple[Node, ...]
    """What of it the rows come through: a join may have a table on its other side."""

    def paths(self) -> list[Source]:
        """The source of each path to here; one that is used twice is here twice."""
        if isinstance(self.node, SourceTable):
            return [self.node]
        return [node for node in self._ways() if isinstance(node, SourceStream | SourceTable)]

    def passed(self) -> list[Dedupe]:
        """The operators on these paths, in the same way."""
        return [node for node in self._ways() if isinstance(node, Dedupe)]

    def _ways(self) -> list[Node]:
        return [node for start in self.starts for node in _ways(start)]


def _ways(node: Node) -> list[Node]:
    return [node, *(below for start in node.inputs for below in _ways(start))]


def roots_of(planned: Planned) -> list[Root]:
    return _lowest(planned, lambda node: isinstance(node, STATEFUL) and not isinstance(node, Dedupe))


def readers_of(planned: Planned) -> list[Root]:
    """Who reads the sources: operators that nothing that keeps state comes before, or the output itself."""
    return _lowest(planned, lambda node: isinstance(node, STATEFUL))


def _lowest(planned: Planned, wanted: Callable[[Node], bool]) -> list[Root]:
    """The nodes of a kind that rows come to before they come to another of it."""
    found = []
    for node in filter(wanted, walk(planned.node)):
        starts = tuple(start for one in node.inputs for start in _untouched(one, wanted))
        if starts or not node.inputs:
            found.append(Root(node, stateful=True, starts=starts))
    if not wanted(planned.node) and (others := _untouched(planned.node, wanted)):
        found.append(Root(planned.node, stateful=False, starts=tuple(others)))
    return found


def _untouched(node: Node, wanted: Callable[[Node], bool]) -> list[Node]:
    """The node, or as much of what it is made from as nothing wanted comes before."""
    if not any(map(wanted, walk(node))):
        return [node]
    return [] if wanted(node) else [start for one in node.inputs for start in _untouched(one, wanted)]
