"""Change the number of shards of a version: its rows are written anew, then the manifest takes the place of the old."""

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

import pyarrow as pa

from headwater.errors import InvalidSetting
from headwater.flow.state.combining import combined
from headwater.flow.state.manifest import HASH, Manifest, RunInfo, Shard
from headwater.flow.state.run import write_run
from headwater.flow.state.shard import run_name, shard_of
from headwater.flow.state.store import StateStore

SHARDS_MAX = 99_999


def reshard(store: StateStore, version: int, new_shards: int) -> Manifest:
    """The same rows under the same version, in another number of shards; the job must be stopped.

    A crash at any moment leaves the version as it was or as it shall be. Versions below it keep their shards, versions
    above it go, and the store's own number is the new one from here on.
    """
    if not 1 <= new_shards <= SHARDS_MAX:
        raise InvalidSetting("shards", new_shards, f"it must be from 1 to {SHARDS_MAX}")
    old = store.manifest(version)
    written = [_written(store, old, number, new_shards) for number in range(new_shards)]
    shards = tuple(Shard(run.rows, (run,)) if run else Shard() for run in written)
    manifest = replace(old, shards=shards)
    store.publish(manifest)
    store.shards = new_shards
    return manifest


def _written(store: StateStore, old: Manifest, shard: int, new_shards: int) -> RunInfo | None:
    batches = _rows_of(store, old, shard, new_shards)
    return write_run(store.files, shard, run_name(shard), old.schema.rows, batches)


def _rows_of(store: StateStore, old: Manifest, shard: int, new_shards: int) -> Iterator[pa.RecordBatch]:
    # Keys of different shards never meet, so that the order between old shards does not matter.
    infos = [info for source in sources_of(shard, len(old.shards), new_shards) for info in source_runs(old, source)]
    runs = [store.opened.run(info, old.schema.rows) for info in infos]
    for batch in combined(runs, old.schema.key.names, drop_deleted=True):
        mine = shard_of(batch.column(HASH).to_numpy(), new_shards) == shard
        yield batch.filter(pa.array(mine))


def source_runs(manifest: Manifest, shard: int) -> tuple[RunInfo, ...]:
    """From the newest to the oldest."""
    return manifest.shards[shard].runs[::-1]


def sources_of(shard: int, old_shards: int, new_shards: int) -> list[int]:
    """Old shards that can hold rows of a new one: those whose remainders fit together.

    >>> sources_of(5, 4, 8)
    [1]
    >>> sources_of(1, 8, 4)
    [1, 5]
    """
    common = gcd(old_shards, new_shards)
    return [old for old in range(old_shards) if old % common == shard % common]
