"""Where the rows of a job come from, tasks that read the log or frames that Spark evaluates first, and whether they are
shuffled; and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import STATEFUL, Node, SourceStream
from headwater.flow.operate.join_operators import StreamJoinOperator
from headwater.flow.operate.level_blocks import InputKey
from headwater.flow.plan.operator_levels import levels_of, readers_of
from headwater.flow.plan.resolution import Resolved
from headwater.flow.prepare.inputs import InputSteps, LogSteps


@dataclass(frozen=True)
class RowSource:
    """`inputs` are the inputs of operators that tasks make themselves. Of those that read the job's sources it has all
    or none, because what Spark reads is all of them together."""

    inputs: Mapping[InputKey, InputSteps]
    reasons: tuple[str, ...] = ()
    """Why Spark evaluates rows, for people; empty if it does not."""

    def __str__(self) -> str:
        if not self.reasons:
            return "rows are read and evaluated by the tasks that decode them"
        return f"rows are evaluated by Spark: {'; '.join(self.reasons)}"

    @property
    def logged(self) -> frozenset[InputKey]:
        return frozenset(one for one, steps in self.inputs.items() if isinstance(steps, LogSteps))


def row_source(job: Job, resolved: Mapping[str, Resolved]) -> RowSource:
    inputs = {one: steps for output in resolved.values() for one, steps in output.inputs.items()}
    reasons = tuple(_reasons(job, resolved))
    if reasons:
        inputs = {one: steps for one, steps in inputs.items() if not isinstance(steps, LogSteps)}
    return RowSource(inputs, reasons)


def exchanges(job: Job, resolved: Mapping[str, Resolved]) -> tuple[str, ...]:
    """For each operator, level by level, whether its rows are shuffled; for a join of streams also why. For people."""
    inputs, levels, names = row_source(job, resolved).inputs, levels_of(job), job.operators
    operators = {node: one for output in resolved.values() for node, one in output.operators.items()}

    def why(node: Node) -> str | None:
        join = operators[node]
        if not isinstance(join, StreamJoinOperator):
            return ""
        if not all(isinstance(inputs.get((node, number)), LogSteps) for number in range(2)):
            return ": its tasks do not read both inputs from the log themselves"
        return None if join.by_partition else ": it is not on one column of text, which producers partition by"

    found = {node: why(node) for node in sorted(operators, key=levels.__getitem__)}
    lines = []
    for node, reason in found.items():
        others = [one for one in found if levels[one] == levels[node] and found[one] is not None]
        if reason is None and others:
            reason = f": it runs in the same tasks as {names[others[0]]}"
        skips = f"{names[node]} skips the shuffle while its inputs are co-partitioned"
        lines.append(skips if reason is None else f"{names[node]} is shuffled by key{reason}")
    return tuple(lines)


def _reasons(job: Job, resolved: Mapping[str, Resolved]) -> dict[str, None]:
    """One for each input or output that tasks cannot read for."""
    found: dict[str, None] = {}
    for planned in job.outputs:
        known = resolved[planned.name]
        for root in readers_of(planned):
            if not root.stateful:
                found[f"{planned.name} has no operator"] = None
                continue
            for number, start in enumerate(root.node.inputs or (root.node,)):
                key = root.node, number
                if _reads(start, root.node) and not isinstance(known.inputs.get(key), LogSteps):
                    found[f"{job.operators[root.node]} needs {known.by_spark.get(key, 'it')}"] = None
    return found


def _reads(start: Node, node: Node) -> bool:
    """Whether an input of an operator has rows of a source that come to it through steps alone."""
    if start is node or isinstance(start, SourceStream):
        return True
    return not isinstance(start, STATEFUL) and any(_reads(one, node) for one in start.inputs)
