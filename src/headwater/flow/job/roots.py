"""Where rows end: at the first operator that keeps state, or at the output itself.

Rows are accounted for from the log to there. Beyond it no fact travels any more, only changes of a result.
"""

from dataclasses import dataclass

from headwater.flow.declare.graph import Planned
from headwater.flow.declare.nodes import STATEFUL, Node, Source, SourceStream, SourceTable, walk


@dataclass(frozen=True, eq=False)
class Root:
    """An end of rows. `node` is the stateful operator, or the output's own node where there is none."""

    node: Node
    stateful: bool

    def paths(self) -> list[Source]:
        """The source of each path to here; one that is used twice is here twice."""
        if isinstance(self.node, SourceTable):
            return [self.node]
        starts = self.node.inputs if self.stateful else (self.node,)
        return [source for start in starts for source in _paths(start)]


def _paths(node: Node) -> list[Source]:
    if isinstance(node, SourceStream | SourceTable):
        return [node]
    return [source for start in node.inputs for source in _paths(start)]


def roots_of(planned: Planned) -> list[Root]:
    found = [
        node
        for node in walk(planned.node)
        if isinstance(node, STATEFUL)
        and not any(isinstance(below, STATEFUL) for start in node.inputs for below in walk(start))
    ]
    if not found:
        return [Root(planned.node, stateful=False)]
    return [Root(node, stateful=True) for node in found]
