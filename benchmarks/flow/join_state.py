"""How long the same batch takes a join of tables, and how large its state is, the more keys there are.

Only what tasks do with the rows of a batch, one shard after the other, and the commit of both sides; as for the state
alone (state.py).
"""

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.flow.apart import Bench
from benchmarks.process_clock import now_seconds
from benchmarks.results import Case
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.joins.splitting import owner_step
from headwater.flow.operators.joins.tables import AFTER, ROW, Side, TableJoin
from headwater.flow.state.job_state import VERSIONS_KEPT
from headwater.flow.state.manifest import EMPTY, HASH, RunInfo
from headwater.flow.state.runs.open_runs import opened
from headwater.flow.state.shard import ShardState, shard_of
from headwater.flow.state.store import StateStore

SECTION = "joins-state"
SHARDS = 4
WARM_UP_COMMITS = 2
LEFT = pa.schema([("id", pa.int64()), ("buyer", pa.string()), ("amount", pa.int64())])
RIGHT = pa.schema([("name", pa.string()), ("town", pa.string())])
JOIN = TableJoin(
    Side(LEFT, ("id",), ("buyer",)), Side(RIGHT, ("name",), ("name",)), Pairing(LEFT, RIGHT, (("buyer", "name"),))
)

Int64Array = npt.NDArray[np.int64]


def measure(bench: Bench) -> None:
    plan, kept = bench.plan, []
    for keys in plan.join_keys:
        bench.progress.say(f"joins: a table of {keys:,} keys")
        kept.append(KeptJoin(bench.folder / f"join-{keys}", keys))
    for number in range(1, WARM_UP_COMMITS + plan.state_commits + 1):
        bench.progress.say(f"joins: commit {number}")
        for join in kept:
            seconds = join.commit(number, plan.state_changes)
            if number > WARM_UP_COMMITS:
                case = Case(SECTION, (f"{join.keys:,}",))
                bench.results.add(case, "headwater", milliseconds=1000 * seconds, mebibytes=join.bytes / 1024**2)
    opened.cache_clear()
    for join in kept:
        shutil.rmtree(join.folder)


class KeptJoin:
    """People and one order of each; a batch is orders that come and people that move."""

    def __init__(self, folder: Path, keys: int) -> None:
        self.folder, self.keys, self._next_order = folder, keys, keys
        self._towns = np.zeros(keys, np.int64)
        self._dice = np.random.default_rng(7)
        self._stores = []
        for name, side in (("left", JOIN.left), ("right", JOIN.right)):
            (folder / name).mkdir(parents=True)
            self._stores.append(StateStore(str(folder / name), side.state, shards=SHARDS))
        everybody = np.arange(keys)
        self._step(0, (orders(everybody, everybody), people(everybody, self._towns, after=True)))

    def commit(self, version: int, changes: int) -> float:
        """The seconds from the rows of a batch to the durable versions of both sides."""
        new = np.arange(self._next_order, self._next_order + changes // 2)
        self._next_order += len(new)
        moved = self._dice.choice(self.keys, min(changes // 2, self.keys), replace=False)
        before = people(moved, self._towns[moved], after=False)
        self._towns[moved] = version
        after = people(moved, self._towns[moved], after=True)
        given = orders(new, self._dice.integers(0, self.keys, len(new))), pa.concat_batches([before, after])
        begin = now_seconds()
        self._step(version, given)
        seconds = now_seconds() - begin
        for store in self._stores:
            store.clean(VERSIONS_KEPT)
        return seconds

    def _step(self, version: int, given: tuple[pa.RecordBatch, pa.RecordBatch]) -> None:
        base = version - 1 if version else EMPTY
        handles = [store.begin(base) for store in self._stores]
        runs: tuple[list[RunInfo], list[RunInfo]] = ([], [])
        for shard in range(SHARDS):
            left, right = (ShardState(handle, shard) for handle in handles)
            step, _ = owner_step(JOIN, left, right, (of_shard(given[0], shard), of_shard(given[1], shard)))
            for found, run in zip(runs, step.runs, strict=True):
                found += [run] if run else []
        for store, found in zip(self._stores, runs, strict=True):
            store.commit(version, base, found)
        self.version = version

    @property
    def bytes(self) -> int:
        manifests = [store.manifest(self.version) for store in self._stores]
        return sum(run.bytes for manifest in manifests for shard in manifest.shards for run in shard.runs)


def of_shard(rows: pa.RecordBatch, shard: int) -> pa.RecordBatch | None:
    owners = shard_of(rows.column(HASH).to_numpy(), SHARDS)
    chosen = rows.filter(pa.array(owners == shard))
    return chosen if chosen.num_rows else None


def hashes(numbers: Int64Array) -> Int64Array:
    spread = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    return spread ^ (spread >> 29)


def orders(ids: Int64Array, buyers: Int64Array) -> pa.RecordBatch:
    """As they come to a task: with the hash of what they are joined on, and of their own key."""
    after = np.ones(len(ids), np.bool_)
    columns = [hashes(buyers), hashes(ids) >> 1, after, ids, pa.array(buyers).cast(pa.string()), ids]
    return _batch(columns, LEFT)


def people(numbers: Int64Array, towns_of: Int64Array, *, after: bool) -> pa.RecordBatch:
    names, towns = (pa.array(column).cast(pa.string()) for column in (numbers, towns_of))
    is_after = np.full(len(numbers), after)
    return _batch([hashes(numbers), hashes(numbers) >> 1, is_after, names, towns], RIGHT)


def _batch(columns: list[object], schema: pa.Schema) -> pa.RecordBatch:
    fields = [pa.field(HASH, pa.int64()), pa.field(ROW, pa.int64()), pa.field(AFTER, pa.bool_()), *schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
