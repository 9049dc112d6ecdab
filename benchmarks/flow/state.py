"""State: how long a batch with the same number of changed keys takes, the more keys there are.

Only the state layer: what the tasks do with the rows of a batch after Spark has reduced them, one shard after the
other, and the commit. All sizes take turns, so that a slow moment of the machine meets them alike.
"""

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.flow.apart import Bench
from benchmarks.process_clock import now_seconds
from benchmarks.results import Case
from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.keyed import aggregate_step
from headwater.flow.state.job_state import VERSIONS_KEPT
from headwater.flow.state.manifest import EMPTY, HASH, StateSchema
from headwater.flow.state.runs.open_runs import opened
from headwater.flow.state.shard import ShardState, shard_of
from headwater.flow.state.store import StateStore

SECTION = "state"
WARM_UP_COMMITS = 2
NEW_SHARE = 1.01
"""One key in a hundred is new to the state."""

SPECS = (
    Aggregate("count", "orders"),
    Aggregate("sum", "revenue", "amount", pa.int64()),
    Aggregate("max", "last", "at", pa.timestamp("us", "UTC")),
)
SCHEMA = StateSchema(pa.schema([("id", pa.string())]), state_schema(SPECS))

Int64Array = npt.NDArray[np.int64]


def measure(bench: Bench) -> None:
    plan = bench.plan
    for shards in plan.state_shards:
        kept = []
        for keys in plan.state_keys:
            bench.progress.say(f"state: filling {shards} shards with {keys:,} keys")
            kept.append(KeptState(bench.folder / f"{keys}-{shards}", keys, shards))
        for number in range(1, WARM_UP_COMMITS + plan.state_commits + 1):
            bench.progress.say(f"state: {shards} shards, commit {number}")
            for state in kept:
                seconds = state.commit(number, plan.state_changes)
                if number > WARM_UP_COMMITS:
                    case = Case(SECTION, (str(shards), f"{state.keys:,}"))
                    bench.results.add(case, "headwater", milliseconds=1000 * seconds)
        opened.cache_clear()
        for state in kept:
            shutil.rmtree(state.folder)


class KeptState:
    def __init__(self, folder: Path, keys: int, shards: int) -> None:
        folder.mkdir()
        self.folder, self.keys, self._shards = folder, keys, shards
        self._store = StateStore(str(folder), SCHEMA, shards=shards)
        self._dice = np.random.default_rng(7)
        handle = self._store.begin(EMPTY)
        pieces = self._pieces(np.arange(keys))
        runs = [self._store.shard(handle, shard).write(rows) for shard, rows in pieces]
        self._store.commit(0, EMPTY, filter(None, runs))

    def commit(self, version: int, changes: int) -> float:
        """The seconds from the rows of a batch to their durable version."""
        pieces = self._pieces(self._dice.choice(int(self.keys * NEW_SHARE), changes, replace=False))
        begin = now_seconds()
        handle = self._store.begin(version - 1)
        runs = [aggregate_step(ShardState(handle, shard), SPECS, rows).run for shard, rows in pieces]
        self._store.commit(version, version - 1, filter(None, runs))
        seconds = now_seconds() - begin
        self._store.clean(VERSIONS_KEPT)
        return seconds

    def _pieces(self, ids: Int64Array) -> list[tuple[int, pa.RecordBatch]]:
        rows = rows_of(ids)
        owners = shard_of(rows.column(HASH).to_numpy(), self._shards)
        return [(shard, rows.filter(pa.array(owners == shard))) for shard in range(self._shards)]


def rows_of(ids: Int64Array) -> pa.RecordBatch:
    """Partial aggregates, one row for each key, as Spark hands them to a task."""
    hashes = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    hashes ^= hashes >> 29
    ones, times = np.ones(len(ids), np.int64), pa.array(ids, pa.timestamp("us", "UTC"))
    columns = [pa.array(hashes), pa.array(ids).cast(pa.string()), pa.array(ones), pa.array(ids), times]
    return pa.RecordBatch.from_arrays(columns, names=[HASH, "id", *state_schema(SPECS).names])
