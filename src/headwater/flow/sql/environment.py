"""Names that queries may read: streams and tables of the app, views, and queries that have a name (pure)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.flow.declare.checks.columns import names_of
from headwater.flow.declare.topology.nodes import Node, SourceStream, SourceTable, walk
from headwater.flow.declare.topology.registered import Registered
from headwater.flow.formats.schema import nearest
from headwater.flow.sql.reading.source_text import SourceText, start_of
from headwater.flow.sql.relations import Column, Relation, flow_of

Provide = Callable[[], Relation]


@dataclass(frozen=True)
class Environment:
    source: SourceText
    named: Mapping[str, Provide]
    """By small letters."""
    within: Mapping[str, Relation] = field(default_factory=dict)
    """Common table expressions, which come first."""

    def find(self, name: exp.Expr, said: str) -> Relation:
        """InvalidDeclaration if nothing is called so."""
        if (own := self.within.get(said.lower())) is not None:
            return own
        provide = self.named.get(said.lower())
        if provide is None:
            hint = nearest(said, [*self.within, *self.named]) if self.named or self.within else "Declare one first."
            raise self.source.refusal(start_of(name), f"there is no stream, table or view {said}", hint)
        return provide()

    def having(self, name: str, relation: Relation) -> "Environment":
        return replace(self, within={**self.within, name.lower(): relation})


def relation_of(node: Node) -> Relation:
    """A node with the columns that are known of it."""
    names = names_of(node)
    if names is None:
        return Relation(flow_of(node), None)
    kinds = {}
    if isinstance(node, SourceStream | SourceTable) and not _unsettled(node):
        kinds = {one.name: one.type for one in node.schema.fields}
    time = event_time_of(node)
    columns = (Column(name, name, kinds.get(name), name == time) for name in names if not name.startswith("_"))
    return Relation(flow_of(node), tuple(columns))


def _unsettled(node: SourceStream | SourceTable) -> bool:
    return isinstance(node.contents, Registered) and node.contents.found is None


def event_time_of(node: Node) -> str | None:
    """The column of the time of a stream's rows, if a step has not given it another name."""
    streams = [one for one in walk(node) if isinstance(one, SourceStream)]
    return streams[0].time if not node.keyed and streams else None
