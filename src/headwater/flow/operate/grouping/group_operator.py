"""Aggregates over a table, as an operator of a job, and its work on one shard."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import Emitted
from headwater.flow.operators.grouping.grouped import GROUPS, Grouped, first_step, grouped_step
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.shard import ShardState, StateHandle


@dataclass(frozen=True)
class GroupOperator:
    name: str
    work: Grouped

    @property
    def key(self) -> pa.Schema:
        return self.work.key

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        """A store for each."""
        return self.work.parts

    @property
    def output(self) -> pa.Schema:
        return self.work.output

    @property
    def fingerprint(self) -> str:
        """State of another meaning is not its own."""
        said = f"grouped {self.work.key.names} {[spec.meaning for spec in self.work.specs]}"
        return hashlib.sha256(said.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class GroupWork:
    """Both sides of the changes of a table, at the shards of their groups."""

    operator: GroupOperator
    handles: Mapping[str, str]
    schema: pa.Schema

    @property
    def inputs(self) -> Sequence[pa.Schema]:
        return (self.schema,)

    @property
    def results(self) -> pa.Schema:
        return self.operator.output

    @property
    def visits_all(self) -> bool:
        """A table without a key has its row before anything comes."""
        if len(self.operator.key):
            return False
        return not any(StateHandle.from_json(self.handles[GROUPS]).runs)

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        (rows,) = inputs
        operator = self.operator
        if rows is None and (shard or len(operator.key)):
            return
        states = {part: ShardState(StateHandle.from_json(text), shard) for part, text in self.handles.items()}
        step = first_step(operator.work, states) if rows is None else grouped_step(operator.work, states, rows)
        reports = [
            ShardReport(operator.name, shard, 0, (run,) if run is not None else (), part=part)
            for part, run in step.runs.items()
        ]
        yield Emitted(step.changes, reports[0])
        for report in reports[1:]:
            yield Emitted(None, report)
