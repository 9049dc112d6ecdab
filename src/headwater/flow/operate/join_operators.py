"""Joins as operators of a job: what they keep, and what they emit."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.emission import PATH, SIDE, row_schema
from headwater.flow.operators.joins.events import MISSING, StreamJoin
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.joins.pairing import INNER
from headwater.flow.operators.joins.placing import by_partition
from headwater.flow.operators.joins.splitting import HOT_ROWS
from headwater.flow.operators.joins.tables import TableJoin
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.rows.row_batch import AT, AT_TYPE
from headwater.flow.state.manifest import EVERYTHING, StateSchema
from headwater.flow.state.shard import StateHandle


@dataclass(frozen=True)
class StreamJoinOperator:
    """A join that has events on one side or both. `key` names the columns that distinguish results; without any they
    are rows of a stream."""

    name: str
    work: StreamJoin
    clock: WindowClock
    key: tuple[str, ...] = ()

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return self.work.parts

    @property
    def fingerprint(self) -> str:
        """State that was dropped at another time is not its own."""
        pairing, work = self.work.pairing, self.work
        kept = [getattr(work, name, None) for name in ("low_us", "high_us", "wait_us", "kept_us")]
        placed = " by partition" if self.by_partition else ""
        said = f"{type(work).__name__} {pairing.on} {pairing.how} {kept} {self.clock.horizon_us}{placed}"
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def by_partition(self) -> bool:
        """Its rows lie in shards as Kafka's producers put them in partitions (operators/joins/placing.py)."""
        pairing = self.work.pairing
        return by_partition([pairing.left.field(name).type for name, _ in pairing.on])

    @property
    def may_miss(self) -> bool:
        """Whether rows are emitted that had to have a partner, and have none."""
        return self.work.pairing.how == INNER and self.work.may_miss

    @property
    def results(self) -> pa.Schema:
        """What tasks emit."""
        columns = self.work.pairing.columns
        if not self.key:
            return row_schema(self.work.pairing)
        return change_schema(pa.schema([pa.field(name, pa.string()) for name in self.key]), columns)

    @property
    def output(self) -> pa.Schema:
        """What Spark's frame of it has."""
        if self.key:
            return self.results
        hidden = pa.field(AT, AT_TYPE), pa.field(PATH, pa.int64()), pa.field(MISSING, pa.bool_())
        return pa.schema([*self.work.pairing.columns, *hidden])

    def at(self, before_us: int | None, watermark_us: int | None) -> "StreamJoinOperator":
        return replace(self, clock=replace(self.clock, before_us=before_us, watermark_us=watermark_us))

    def pending(self, handles: Mapping[str, StateHandle]) -> bool:
        """Would time alone emit anything?"""
        return self.clock.moved and any(
            self.work.waits(part, slot, self.clock)
            for part, handle in handles.items()
            for shard in range(handle.shards)
            for slot in handle.slots(shard)
            if slot != EVERYTHING
        )

    def check_visited(self, reported: Collection[int], shards: int) -> None:
        """Events of a shard that no task has looked at would never be emitted as unmatched."""
        if self.clock.moved and (missing := sorted(set(range(shards)) - set(reported))):
            raise FlowError(
                f"no task has looked at shard {missing[0]} of {self.name}",
                "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
            )


@dataclass(frozen=True)
class TableJoinOperator:
    """A join of two tables. `key` names columns of the result."""

    name: str
    key: tuple[str, ...]
    work: TableJoin
    hot: tuple[HotKey, ...] = ()
    """Keys that are split in this batch."""
    hot_rows: int = HOT_ROWS

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {"left": self.work.left.state, "right": self.work.right.state}

    @property
    def fingerprint(self) -> str:
        sides = [(side.key, side.on) for side in (self.work.left, self.work.right)]
        return hashlib.sha256(f"join {sides}".encode()).hexdigest()[:16]

    @property
    def output(self) -> pa.Schema:
        """What Spark's frame of it has: changes."""
        columns = self.work.pairing.columns
        values = pa.schema([field for field in columns if field.name not in self.key])
        return change_schema(pa.schema([columns.field(name) for name in self.key]), values)

    @property
    def sides(self) -> pa.Schema:
        """Rows that are no longer and rows that are, distinguished by `_side`."""
        return self.work.pairing.columns.append(pa.field(SIDE, pa.int32()))


JoinOperator = StreamJoinOperator | TableJoinOperator
