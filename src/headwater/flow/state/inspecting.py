"""Look into state without changing it: what `headwater state show` prints."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.state.files import StateFiles
from headwater.flow.state.manifest import DELETED, HASH, Manifest
from headwater.flow.state.runs.open_runs import OpenedRuns
from headwater.flow.state.shard import ShardState, StateHandle
from headwater.flow.state.store import read_manifest, versions_of


@dataclass(frozen=True)
class ShardSummary:
    keys: int
    bytes: int
    runs: int


@dataclass(frozen=True)
class VersionSummary:
    version: int
    base: int
    fingerprint: str
    columns: tuple[str, ...]
    shards: tuple[ShardSummary, ...]

    @property
    def keys(self) -> int:
        return sum(shard.keys for shard in self.shards)

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


def describe(files: StateFiles) -> list[VersionSummary]:
    """All versions that are kept, from the oldest to the newest; only manifests are read."""
    return [_summary(read_manifest(files, version)) for version in versions_of(files)]


def _summary(manifest: Manifest) -> VersionSummary:
    shards = tuple(
        ShardSummary(shard.keys, sum(run.bytes for run in shard.runs), len(shard.runs)) for shard in manifest.shards
    )
    named = [*manifest.schema.key, *manifest.schema.values]
    columns = tuple(f"{field.name} {field.type}" for field in named)
    return VersionSummary(manifest.version, manifest.base, manifest.fingerprint, columns, shards)


def show(
    files: StateFiles, wanted: Mapping[str, object] | None = None, *, limit: int = 20, version: int | None = None
) -> pa.Table:
    """Up to `limit` live rows, those whose key has the wanted values, of a version or the newest."""
    versions = versions_of(files)
    if version is None and not versions:
        raise FlowError(f"there is no state in {files.url or 'memory'}", "Run the app first.")
    manifest = read_manifest(files, versions[-1] if version is None else version)
    pieces, missing = [], limit
    for batch in _live_rows(files, manifest):
        piece = _selected(batch, wanted or {}, manifest).slice(0, missing)
        pieces.append(piece)
        missing -= piece.num_rows
        if missing <= 0:
            break
    schema = pa.schema([field for field in manifest.schema.rows if field.name not in (HASH, DELETED)])
    return pa.Table.from_batches(pieces, schema=schema)


def _live_rows(files: StateFiles, manifest: Manifest) -> Iterator[pa.RecordBatch]:
    runs = tuple(shard.runs for shard in manifest.shards)
    handle = StateHandle(files.url, manifest.version, manifest.token, manifest.schema, runs)
    opened = OpenedRuns(files)
    for shard in range(handle.shards):
        for slot in handle.slots(shard):
            yield from ShardState(handle, shard, opened, slot=slot).scan()


def _selected(batch: pa.RecordBatch, wanted: Mapping[str, object], manifest: Manifest) -> pa.RecordBatch:
    for name, value in wanted.items():
        if name not in manifest.schema.key.names:
            known = ", ".join(manifest.schema.key.names)
            raise FlowError(f'"{name}" is not a column of the key', f"The key is ({known}).")
        column = batch.column(name)
        fits = column.is_null() if value is None else pc.equal(column, pa.scalar(value).cast(column.type))
        batch = batch.filter(fits)
    return batch.drop_columns([HASH, DELETED])
