"""What operators have in common that are given both sides of the changes of tables.

A row of the result may go from one shard to another, with the columns that it is grouped by. Then both emit a side of
it, and the next operator or the driver joins the two (rows/evaluation.py, commit/collection.py).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import Emitted
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.emission import SIDE
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.prepare.table_sides import PrepareSides
from headwater.flow.rows.result_rows import both_sides
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.shard import ShardState, StateHandle


class OfTables(Protocol):
    """What is kept of tables, a store for each part, and the columns of the result."""

    @property
    def parts(self) -> Mapping[str, StateSchema]: ...

    @property
    def columns(self) -> pa.Schema: ...


W = TypeVar("W", bound=OfTables, covariant=True)


@dataclass(frozen=True)
class KeptTable(ABC, Generic[W]):
    """`own_key` names columns of the result."""

    name: str
    own_key: tuple[str, ...]
    work: W

    @property
    def key(self) -> pa.Schema:
        return pa.schema([self.work.columns.field(name) for name in self.own_key])

    @property
    def values(self) -> pa.Schema:
        return pa.schema([field for field in self.work.columns if field.name not in self.own_key])

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return self.work.parts

    @property
    def output(self) -> pa.Schema:
        return change_schema(self.key, self.values)

    @property
    def sides(self) -> pa.Schema:
        """Rows that are no longer and rows that are, distinguished by `_side`."""
        return pa.schema([*self.key, *self.values, pa.field(SIDE, pa.int32())])

    @property
    def fingerprint(self) -> str:
        """State of another meaning is not its own."""
        return hashlib.sha256(self.meaning.encode()).hexdigest()[:16]

    @property
    @abstractmethod
    def prepares(self) -> Sequence[PrepareSides]:
        """How the rows of each input are prepared."""

    @property
    @abstractmethod
    def meaning(self) -> str:
        """Of what it keeps, beside the names and types of its columns."""

    @abstractmethod
    def step(self, states: Mapping[str, ShardState], given: Inputs, shard: int) -> TableStep:
        """Take in the rows of a shard."""


@dataclass(frozen=True)
class KeptTableWork:
    """The work of such an operator on one shard."""

    operator: KeptTable[OfTables]
    handles: Mapping[str, str]
    paired: bool
    """Whether changes are emitted, which the driver alone reads, or both sides of them."""

    visits_all = False

    @property
    def inputs(self) -> Sequence[pa.Schema]:
        return [one.schema for one in self.operator.prepares]

    @property
    def results(self) -> pa.Schema:
        return self.operator.output if self.paired else self.operator.sides

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        operator = self.operator
        if all(rows is None for rows in inputs):
            return
        states = {part: ShardState(StateHandle.from_json(text), shard) for part, text in self.handles.items()}
        step = operator.step(states, inputs, shard)
        # It is given changes of tables, which have counted their facts.
        reports = [
            ShardReport(operator.name, shard, 0, (run,) if run else (), part=part) for part, run in step.runs.items()
        ]
        for rows, report in zip(self._emitted(step.changes), (reports[0], None), strict=False):
            yield Emitted(rows, report)
        for report in reports[1:]:
            yield Emitted(None, report)

    def _emitted(self, changes: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [changes] if self.paired else list(both_sides(changes, self.operator.own_key))
