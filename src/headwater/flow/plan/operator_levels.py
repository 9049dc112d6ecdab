"""Which operators of a job run together, and who uses what they emit (pure)."""

from dataclasses import dataclass

from headwater.flow.declare.topology.graph import TOPIC, Job, Planned
from headwater.flow.declare.topology.nodes import STATEFUL, Join, Node, walk


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
    return isinstance(node, STATEFUL) and (node.keyed or isinstance(node, Join))


def levels_of(job: Job) -> dict[Node, int]:
    """Operators, by how many operators come before them."""
    nodes = {node: None for planned in job.outputs for node in walk(planned.node)}
    return {node: _depth(node) for node in nodes if isinstance(node, STATEFUL)}


def _depth(node: Node) -> int:
    return max((_depth(one) + isinstance(one, STATEFUL) for one in node.inputs), default=0)
