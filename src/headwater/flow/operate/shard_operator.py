"""What operators have in common that keep one store and are given their rows shard by shard."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from headwater.flow.operators.changes import change_schema
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.shard import StateHandle


class Work(Protocol):
    """What is done with the rows of a shard: the key and values of its results, and what it keeps."""

    @property
    def key(self) -> pa.Schema: ...

    @property
    def values(self) -> pa.Schema: ...

    @property
    def state(self) -> StateSchema: ...


W = TypeVar("W", bound=Work)


class Worked(NamedTuple):
    """The changes that rows make in a shard, and the runs that the driver has to commit."""

    changes: pa.RecordBatch
    runs: tuple[RunInfo, ...]
    expired: int = 0
    """Rows of state that time has ended."""


@dataclass(frozen=True)
class ShardOperator(ABC, Generic[W]):
    name: str
    work: W

    @property
    def key(self) -> pa.Schema:
        return self.work.key

    @property
    def values(self) -> pa.Schema:
        return self.work.values

    @property
    def state(self) -> StateSchema:
        return self.work.state

    @property
    def output(self) -> pa.Schema:
        return change_schema(self.key, self.values)

    @property
    def fingerprint(self) -> str:
        """State of another meaning is not its own."""
        return hashlib.sha256(self.meaning.encode()).hexdigest()[:16]

    @property
    @abstractmethod
    def meaning(self) -> str:
        """Of what it keeps, beside the names and types of its columns."""

    @abstractmethod
    def step(self, handle: StateHandle, shard: int, rows: pa.RecordBatch) -> Worked:
        """Take in the rows of a shard."""

    def counted(self, rows: pa.RecordBatch) -> int:
        """How many facts they are."""
        return int(rows.num_rows)
