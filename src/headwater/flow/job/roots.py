"""Where rows end: at the first operator that turns them into a table, or at the output itself.

Rows are accounted for from the log to there. Beyond it no fact travels any more, only changes of a result. An operator
that lets the first row of each key through lies on the way.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.flow.declare.graph import Planned
from headwater.flow.declare.nodes import STATEFUL, Dedupe, Node, Source, SourceStream, SourceTable, walk


@dataclass(frozen=True, eq=False)
class Root:
    """An end of rows. `node` is the operator, or the output's own node where there is none."""

    node: Node
    stateful: bool

    def paths(self) -> list[Source]:
        """The source of each path to here; one that is used twice is here twice."""
        if isinstance(self.node, SourceTable):
            return [self.node]
        return [node for node in self._ways() if isinstance(node, SourceStream | SourceTable)]

    def passed(self) -> list[Dedupe]:
        """The operators on these paths, in the same way."""
        return [node for node in self._ways() if isinstance(node, Dedupe)]

    def _ways(self) -> list[Node]:
        return [node for start in (self.node.inputs if self.stateful else (self.node,)) for node in _ways(start)]


def _ways(node: Node) -> list[Node]:
    return [node, *(below for start in node.inputs for below in _ways(start))]


def roots_of(planned: Planned) -> list[Root]:
    found = _lowest(planned, lambda node: isinstance(node, STATEFUL) and not isinstance(node, Dedupe))
    return [Root(node, stateful=True) for node in found] or [Root(planned.node, stateful=False)]


def readers_of(planned: Planned) -> list[Root]:
    """Who reads the sources: operators that nothing that keeps state comes before, or the output itself."""
    found = _lowest(planned, lambda node: isinstance(node, STATEFUL))
    return [Root(node, stateful=True) for node in found] or [Root(planned.node, stateful=False)]


def _lowest(planned: Planned, wanted: Callable[[Node], bool]) -> list[Node]:
    """The nodes of a kind that are not made from others of it."""
    return [
        node
        for node in walk(planned.node)
        if wanted(node) and not any(wanted(below) for start in node.inputs for below in walk(start))
    ]
