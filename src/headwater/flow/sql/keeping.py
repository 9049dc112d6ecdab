"""`WITH (keep = '30 days')` of a view: what its own query keeps of streams ends; what it reads by name is as it is."""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from headwater.flow.declare.tables.keeping import kept_aggregate, kept_latest
from headwater.flow.declare.topology.nodes import Aggregate, Latest, Node
from headwater.flow.sql.environment import Provide
from headwater.flow.sql.relations import Relation


class Reads:
    """The nodes that a query is given by name."""

    def __init__(self) -> None:
        self.nodes = set[Node]()

    def of(self, named: Mapping[str, Provide]) -> dict[str, Provide]:
        return {name: self._noted(provide) for name, provide in named.items()}

    def _noted(self, provide: Provide) -> Provide:
        def noted() -> Relation:
            relation = provide()
            self.nodes.add(relation.flow.node)
            return relation

        return noted


def with_keep(node: Node, keep: str, reads: Collection[Node]) -> Node:
    """The same query, in which aggregates and newest rows of streams end; the node itself if it has none."""
    made: dict[Node, Node] = {}

    def changed(one: Node) -> Node:
        if one not in made:
            made[one] = one if one in reads else ending(_with_inputs(one, changed), keep)
        return made[one]

    return changed(node)


def ending(node: Node, keep: str) -> Node:
    if type(node) is Aggregate and node.key:
        return kept_aggregate(node.input, node.key, node.aggregates, keep, node.name)
    if isinstance(node, Latest) and not node.input.keyed:
        return kept_latest(node.input, node.key, keep, node.name)
    return node


def _with_inputs(node: Node, changed: Any) -> Node:
    found: dict[str, Any] = {}
    for one in fields(node):
        given = getattr(node, one.name)
        now: Any = given
        if isinstance(given, Node):
            now = changed(given)
        elif isinstance(given, tuple) and any(isinstance(each, Node) for each in given):
            now = tuple(map(changed, given))
        elif isinstance(given, Mapping) and any(isinstance(each, Node) for each in given.values()):
            now = {name: changed(each) for name, each in given.items()}
        if now is not given and not (isinstance(given, tuple | Mapping) and now == given):
            found[one.name] = now
    return replace(node, **found) if found else node
