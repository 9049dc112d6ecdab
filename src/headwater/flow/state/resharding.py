"""Change the number of shards of a version: its rows are rewritten, then the manifest takes the place of the old."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import gcd

import pyarrow as pa

from headwater.errors import InvalidSetting
from headwater.flow.state.manifest import EVERYTHING, HASH, Manifest, RunInfo, Shard, Slot, slots_of
from headwater.flow.state.runs.run import write_run
from headwater.flow.state.runs.run_union import combined
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
    shards = tuple(Shard(sum(run.rows for run in runs), tuple(runs)) for runs in written)
    manifest = replace(old, shards=shards)
    store.publish(manifest)
    store.shards = new_shards
    return manifest


def _written(store: StateStore, old: Manifest, shard: int, new_shards: int) -> list[RunInfo]:
    """A run for each slot that the new shard has."""
    # Keys of different shards never meet, so that the order between old shards does not matter.
    infos = [info for source in sources_of(shard, len(old.shards), new_shards) for info in source_runs(old, source)]
    written = []
    for slot in united(slots_of(infos)):
        mine = [info for info in infos if inside(info.slot, slot)]
        batches = _rows_of(store, old, mine, shard, new_shards)
        info = write_run(store.files, shard, run_name(shard), old.schema.rows, batches)
        if info is not None:
            written.append(replace(info, slot=slot, keys=info.rows))
    return written


def united(slots: Iterable[Slot]) -> list[Slot]:
    """Slots that hold what the given ones do and do not overlap: old shards may have put them up differently.

    >>> united([Slot(0, 10), Slot(0, 20), Slot(20, 30)])
    [Slot(begin=0, end=20), Slot(begin=20, end=30)]
    """
    given = set(slots)
    result: list[Slot] = []
    for slot in sorted(given - {EVERYTHING}):
        if result and slot.begin < result[-1].end:
            result[-1] = Slot(result[-1].begin, max(result[-1].end, slot.end))
        else:
            result.append(slot)
    return [*(given & {EVERYTHING}), *result]


def inside(slot: Slot, other: Slot) -> bool:
    if EVERYTHING in (slot, other):
        return slot == other
    return other.begin <= slot.begin and slot.end <= other.end


def _rows_of(
    store: StateStore, old: Manifest, infos: Sequence[RunInfo], shard: int, new_shards: int
) -> Iterator[pa.RecordBatch]:
    runs = [store.opened.run(info, old.schema.rows) for info in infos]
    for batch in combined(runs, old.schema, drop_deleted=True):
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
