"""Where the rows of a job come from: tasks that read the log, or frames that Spark evaluates first; and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.flow.declare.graph import Job
from headwater.flow.declare.nodes import Join, Node
from headwater.flow.joins.direct_reading import direct_nodes
from headwater.flow.plan.resolution import Resolved
from headwater.flow.plan.roots import readers_of


@dataclass(frozen=True)
class RowSource:
    """`nodes` are the operators whose rows tasks read themselves: all that read the job's sources, or none."""

    nodes: frozenset[Node]
    reasons: tuple[str, ...] = ()
    """Why Spark evaluates rows, for people; empty if it does not."""

    def __str__(self) -> str:
        if not self.reasons:
            return "rows are read and evaluated by the tasks that decode them"
        return f"rows are evaluated by Spark: {'; '.join(self.reasons)}"


def row_source(job: Job, resolved: Mapping[str, Resolved]) -> RowSource:
    operators = {node: one for output in resolved.values() for node, one in output.operators.items()}
    steps = {node: one for output in resolved.values() for node, one in output.steps.items()}
    inputs = {node: one for output in resolved.values() for node, one in output.inputs.items()}
    nodes = direct_nodes(job, operators, steps, inputs)
    return RowSource(nodes, () if nodes else tuple(_reasons(job, resolved)))


def _reasons(job: Job, resolved: Mapping[str, Resolved]) -> dict[str, None]:
    """One for each operator or output that tasks cannot read for."""
    found: dict[str, None] = {}
    for planned in job.outputs:
        known = resolved[planned.name]
        for root in readers_of(planned):
            if not root.stateful:
                found[f"{planned.name} has no operator"] = None
            elif root.node not in known.inputs:
                found[f"{job.operators[root.node]} {_why(root.node, known)}"] = None
    return found or {"inputs of its joins are read by several": None}


def _why(node: Node, known: Resolved) -> str:
    if isinstance(node, Join):
        return "is a join"
    return f"needs {known.by_spark.get(node, 'it')}"
