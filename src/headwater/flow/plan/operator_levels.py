"""Which operators of a job run together, and who uses what they emit (pure)."""

from collections.abc import Collection
from dataclasses import dataclass

from headwater.flow.declare.graph import TOPIC, Job, Planned
from headwater.flow.declare.nodes import STATEFUL, Join, Node, SourceTable, walk


@dataclass(frozen=True)
class Uses:
    """Operators whose results other operators or steps of Spark's use, and outputs that are just what one emits."""

    frames: frozenset[Node]
    plain: tuple[Planned, ...]


def uses_of(job: Job) -> Uses:
    inner = {one for planned in job.outputs for node in walk(planned.node) for one in node.inputs}
    plain = tuple(one for one in job.outputs if one.output.kind != TOPIC and _emits_table(one.node))
    others = {one.node for one in job.outputs if one not in plain}
    found = {node for planned in job.outputs for node in walk(planned.node) if isinstance(node, STATEFUL)}
    return Uses(frozenset(node for node in found if node in inner | others), plain)


def _emits_table(node: Node) -> bool:
    return isinstance(node, STATEFUL) and not isinstance(node, Join) and node.keyed


def levels_of(job: Job, direct: Collection[Node]) -> dict[Node, int]:
    """Operators with one input, by how many operators come before them. Tables that are read for a join by the join's
    own tasks are not among them."""
    taken = {one for node in direct if isinstance(node, Join) for one in node.inputs if isinstance(one, SourceTable)}
    nodes = {node: None for planned in job.outputs for node in walk(planned.node)}
    operators = [node for node in nodes if isinstance(node, STATEFUL) and not isinstance(node, Join)]
    return {node: _depth(node) for node in operators if node not in taken}


def _depth(node: Node) -> int:
    return max((_depth(one) + isinstance(one, STATEFUL) for one in node.inputs), default=0)
