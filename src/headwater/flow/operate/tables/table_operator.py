"""What operators have in common that are given both sides of the changes of tables, and keep one store.

A row of the result may go from one shard to another, with the columns that it is grouped by. Then both emit a side of
it, and whoever is given them puts them together (rows/evaluation.py, commit/collection.py).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import Emitted
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.emission import SIDE
from headwater.flow.operators.ranks.rank import TableStep
from headwater.flow.rows.result_rows import both_sides
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.shard import ShardState, StateHandle


class OfTables(Protocol):
    """What is kept of tables, and the columns of the result."""

    @property
    def state(self) -> StateSchema: ...

    @property
    def columns(self) -> pa.Schema: ...


W = TypeVar("W", bound=OfTables)


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
    def state(self) -> StateSchema:
        return self.work.state

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
    def meaning(self) -> str:
        """Of what it keeps, beside the names and types of its columns."""

    @abstractmethod
    def step(self, state: ShardState, given: Inputs) -> TableStep:
        """Take in the rows of a shard."""


@dataclass(frozen=True)
class KeptTableWork:
    """The work of such an operator on one shard."""

    operator: KeptTable[OfTables]
    handle: str
    inputs: Sequence[pa.Schema]
    paired: bool
    """Whether changes are emitted, which the driver alone reads, or both sides of them."""

    visits_all = False

    @property
    def results(self) -> pa.Schema:
        return self.operator.output if self.paired else self.operator.sides

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        operator = self.operator
        if all(rows is None for rows in inputs):
            return
        step = operator.step(ShardState(StateHandle.from_json(self.handle), shard), inputs)
        # It is given changes of tables, which have counted their facts.
        report = ShardReport(operator.name, shard, 0, (step.run,) if step.run else ())
        if self.paired:
            yield Emitted(step.changes, report)
            return
        before, after = both_sides(step.changes, operator.own_key)
        yield Emitted(before, report)
        yield Emitted(after, None)
