"""The first row of each key within a time, as an operator of a job."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.flow.operators.dedupe import state_of
from headwater.flow.operators.joins.events import OFFSET, PARTITION, SOURCE, TIME
from headwater.flow.rows.row_batch import AT, AT_TYPE, POSITION
from headwater.flow.state.manifest import HASH, StateSchema
from headwater.flow.state.runs.equality import Integers

LATE = "_late"
"""Whether a row is late: it is emitted, and not let through."""
APART = "_apart"
"""Orders rows that a join has made of one record."""
EXPIRE_EVERY = 50
"""Batches between two scans for keys that may be forgotten; each reads the whole shard."""


@dataclass(frozen=True)
class Deduplicator:
    name: str
    key: pa.Schema
    rows: pa.Schema
    """Columns of the rows, their position among them (rows/row_batch.py)."""
    within_us: int
    ties: bool = False
    """Rows have a column that orders those of one record."""

    @property
    def state(self) -> StateSchema:
        return state_of(self.key)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.key.names} dedupe".encode()).hexdigest()[:16]

    @property
    def given(self) -> pa.Schema:
        ties = [pa.field(APART, pa.int64())] if self.ties else []
        return pa.schema([pa.field(HASH, pa.int64()), *self.rows, pa.field(LATE, pa.bool_()), *ties])

    @property
    def results(self) -> pa.Schema:
        return self.rows.append(pa.field(LATE, pa.bool_()))

    @property
    def output(self) -> pa.Schema:
        """What Spark's frame of it has."""
        plain = [field for field in self.rows if field.name not in POSITION]
        return pa.schema([*plain, pa.field(AT, AT_TYPE), pa.field(LATE, pa.bool_())])

    def times_us(self, rows: pa.RecordBatch) -> Integers:
        return np.asarray(rows.column(TIME).to_numpy(zero_copy_only=False), np.int64)

    def position(self, rows: pa.RecordBatch) -> list[Integers]:
        """What orders rows of one time."""
        names = (SOURCE, PARTITION, OFFSET, *([APART] if self.ties else []))
        return [rows.column(name).to_numpy() for name in names]
