"""Operators by key, and what tasks report to the driver of each shard.

Runs in Spark's Python workers, once per task; all values at once, none by itself.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, result_schema, state_schema
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.keyed import Step, aggregate_step, first_step, inner_key, latest_step
from headwater.flow.operators.latest import Latest
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.shard import ShardState

ROWS = "_rows"


@dataclass(frozen=True)
class Operator:
    """Aggregates, or the latest row, for each key."""

    name: str
    key: pa.Schema
    work: tuple[Aggregate, ...] | Latest

    @property
    def values(self) -> pa.Schema:
        return self.work.values if isinstance(self.work, Latest) else result_schema(self.work)

    @property
    def state(self) -> StateSchema:
        kept = self.work.state if isinstance(self.work, Latest) else state_schema(self.work)
        return StateSchema(inner_key(self.key), kept)

    @property
    def output(self) -> pa.Schema:
        return change_schema(self.key, self.values)

    @property
    def fingerprint(self) -> str:
        """Distinguishes operators whose state has columns of the same names and types with another meaning."""
        said = repr(self.work) if isinstance(self.work, Latest) else repr([spec.meaning for spec in self.work])
        return hashlib.sha256(f"{self.key.names} {said}".encode()).hexdigest()[:16]

    def step(self, state: ShardState, rows: pa.RecordBatch | None) -> Step:
        """Without rows: the first step of what has no key."""
        if isinstance(self.work, Latest):
            assert rows is not None
            return latest_step(state, self.work, rows)
        if rows is None:
            return first_step(state, self.work)
        return aggregate_step(state, self.work, rows)


NO_SHARD = -1
"""Of the report of a task that has worked on rows of many shards, and written to none."""


@dataclass(frozen=True)
class ShardReport:
    """What a task reports to the driver of one shard."""

    operator: str
    shard: int
    rows: int
    """Facts that went into the state, or were let through."""
    runs: tuple[RunInfo, ...]
    duplicates: int = 0
    late: int = 0
    filtered: int = 0
    missing: int = 0
    """Rows that had to have a partner in a join, and have none."""
    made: int = 0
    """Rows that another join in the same task has made for it."""
    expired: int = 0
    """Rows of state that time has ended (keep=)."""
    part: str = ""
    """Of an operator that keeps its state in several stores, which one was written to."""
    hot: tuple[HotKey, ...] = ()
    """Keys with very many rows."""
    notes: tuple[str, ...] = ()
    """Sentences for the operator of the job."""
    misplaced: int | None = None
    """How many rows lay in partitions of other shards, where that is counted (exchange/co_partitioning.py)."""

    @property
    def store(self) -> str:
        return store_name(self.operator, self.part)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ShardReport":
        row = json.loads(text)
        hot = tuple(HotKey(**one) for one in row["hot"])
        runs, notes = tuple(RunInfo.of(run) for run in row["runs"]), tuple(row["notes"])
        return cls(**{**row, "runs": runs, "hot": hot, "notes": notes})


def store_name(operator: str, part: str = "") -> str:
    """The folder in which state lies.

    >>> store_name("timeline", "left")
    'timeline.left'
    """
    return f"{operator}.{part}" if part else operator
