"""Nodes of streams that meet stored queries: joins with a table in which the index of queries finds the partners."""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.flow.declare.topology.nodes import AsOfJoin, LatestJoin, Node
from headwater.flow.operators.search.fields import Point


class Searching(NamedTuple):
    """`text` has the columns that are analyzed with the names of their analyzers, `query` the column of the table."""

    text: tuple[tuple[str, str], ...]
    query: str
    points: tuple[Point, ...] = ()
    default: str = "OR"
    highlight: bool = False
    explain: bool = False

    @property
    def hit_names(self) -> tuple[str, ...]:
        """Columns of hits that neither side has."""
        return ("score", *(("highlights",) if self.highlight else ()), *(("explanation",) if self.explain else ()))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the documents that are named."""
        return (*(name for name, _ in self.text), *(name for one in self.points for name in one[1:]))


NO_SEARCH = Searching((), "")


@dataclass(frozen=True, eq=False)
class Percolate(LatestJoin):
    """Documents with the queries that are stored when they come."""

    search: Searching = NO_SEARCH


@dataclass(frozen=True, eq=False)
class AsOfPercolate(AsOfJoin):
    """Documents with the queries that were stored at their time."""

    search: Searching = NO_SEARCH


PERCOLATES = (Percolate, AsOfPercolate)


def search_of(node: Node) -> Searching:
    assert isinstance(node, PERCOLATES)
    return node.search
