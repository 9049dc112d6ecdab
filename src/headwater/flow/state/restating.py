"""The rows of a version in a store of their own, with other columns: of an operator that is called otherwise."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from headwater.flow.state.manifest import EVERYTHING, Manifest, RunInfo, Shard, Slot, StateSchema
from headwater.flow.state.runs.open_runs import OpenedRuns
from headwater.flow.state.runs.run import write_run
from headwater.flow.state.shard import ShardState, StateHandle, run_name
from headwater.flow.state.store import StateStore, read_manifest


def restate(source: StateStore, version: int, target: StateStore, columns: Mapping[str, str]) -> Manifest:
    """Write a version of `source` as the same version of `target`; `columns` says what each of its columns is there.

    A column that is not named is the one of the same name. The shards stay as they are.
    """
    old = read_manifest(source.files, version)
    handle, opened = handle_of(source, old), OpenedRuns(source.files)
    shards = []
    for shard in range(handle.shards):
        runs = [_written(ShardState(handle, shard, opened, slot=slot), shard, slot, target, columns)
                for slot in handle.slots(shard)]  # fmt: skip
        found = tuple(run for run in runs if run is not None)
        shards.append(Shard(sum(run.rows for run in found), found))
    manifest = Manifest(version, old.base, target.fingerprint, target.schema, tuple(shards))
    target.publish(manifest)
    return manifest


def _written(
    state: ShardState, shard: int, slot: Slot, target: StateStore, columns: Mapping[str, str]
) -> RunInfo | None:
    rows = restated(state.scan(), target.schema, columns)
    run = write_run(target.files, shard, run_name(shard), target.schema.rows, rows)
    return run if run is None or slot == EVERYTHING else replace(run, slot=slot, keys=run.rows)


def handle_of(store: StateStore, manifest: Manifest) -> StateHandle:
    """To read a version, wherever it is kept."""
    runs = tuple(shard.runs for shard in manifest.shards)
    return StateHandle(store.files.url, manifest.version, manifest.token, manifest.schema, runs)


def restated(
    batches: Iterator[pa.RecordBatch], schema: StateSchema, columns: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [batch.column(columns.get(field.name, field.name)) for field in schema.rows]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema.rows)
