"""Joins of events in one shard, batch by batch, with all that a driver does between batches."""

from typing import Any, NamedTuple

import pyarrow as pa

from headwater.flow.operators.joins.events import CONTENT, OFFSET, PARTITION, SOURCE, TIME, Events, Shard, StreamStep
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk

LEFT = pa.schema([("id", pa.int64()), ("user", pa.string()), ("price", pa.int64())])
RIGHT = pa.schema([("number", pa.int64()), ("name", pa.string()), ("limit", pa.int64())])
ON = (("user", "name"),)


class Event(NamedTuple):
    side: int
    time: int
    user: str | None
    amount: int
    offset: int = 0

    @property
    def row(self) -> tuple[Any, ...]:
        return self.offset, self.user, self.amount


def hash_of(user: str | None) -> int:
    """Users of names of the same length share one."""
    return len(user or "")


def incoming(events: Events, given: list[Event]) -> pa.RecordBatch | None:
    rows = [
        {
            HASH: hash_of(one.user), TIME: one.time, SOURCE: one.side, PARTITION: 0, OFFSET: one.offset, CONTENT: 0,
            **dict(zip(events.columns.names, one.row, strict=True)),
        }
        for one in given
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, events.incoming) if rows else None


class RunningJoin:
    """`result` is what is emitted, as columns of both sides; `emitted` everything that ever was."""

    def __init__(self, work: Any) -> None:
        self.work, self.version = work, EMPTY
        self.watermark: int | None = None
        self.stores = {
            part: StateStore(DiskFiles(SimulatedDisk(), "state"), kept, shards=1) for part, kept in work.parts.items()
        }
        self.result: list[tuple[Any, ...]] = []
        self.missing: list[tuple[Any, ...]] = []

    def batch(self, given: tuple[Any, Any], watermark: int | None, *, horizon: int = 0, again: int = 1) -> StreamStep:
        clock = WindowClock(self.watermark, watermark, horizon)
        for _ in range(again):
            handles = {part: store.begin(self.version) for part, store in self.stores.items()}
            shard = Shard(handles, 0, {part: store.opened for part, store in self.stores.items()})
            step: StreamStep = self.work.step(shard, given, clock)
            below = self.work.drop_below(clock)
            for part, store in self.stores.items():
                store.commit(self.version + 1, self.version, step.runs.get(part, []), drop_below=below.get(part))
        self.version, self.watermark = self.version + 1, watermark
        for row in self._rows(step.before):
            self.result.remove(row)
        for row, missing in zip(self._rows(step.after), step.after.column("_missing").to_pylist(), strict=True):
            (self.missing if missing else self.result).append(row)
        return step

    def _rows(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        names = self.work.pairing.columns.names
        return [tuple(row[name] for name in names) for row in batch.to_pylist()]

    def keys(self, part: str) -> int:
        return self.stores[part].manifest(self.version).shards[0].keys
