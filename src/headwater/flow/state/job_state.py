"""The state of a job: a store for each operator, or each part of one; all are committed under the batch's number."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.store import StateStore

VERSIONS_KEPT = 10

ShardRuns = Mapping[int, tuple[RunInfo, ...]]
"""The runs that tasks wrote, by shard."""


class JobState:
    """Stores are opened when they are first asked for, and belong to this process until `close`."""

    def __init__(self, folder: Path, *, shards: int) -> None:
        self._folder, self.shards = folder, shards
        self._stores: dict[str, StateStore] = {}
        self._mergers: dict[str, BackgroundMerger] = {}

    def store(self, name: str, schema: StateSchema, fingerprint: str) -> StateStore:
        found = self._stores.get(name)
        if found is None:
            folder = self._folder / name
            folder.mkdir(parents=True, exist_ok=True)
            found = StateStore(str(folder), schema, shards=self.shards, fingerprint=fingerprint)
            self._stores[name] = found
            self._mergers[name] = BackgroundMerger(found)
        return found

    def handle(self, name: str, version: int) -> str:
        """What tasks need to work on an open store, as JSON."""
        return self._stores[name].begin(version, reserved=self._mergers[name].reserved()).to_json()

    def commit(self, version: int, runs: Mapping[str, ShardRuns], drop_below: Mapping[str, int | None]) -> None:
        """Make what tasks wrote the next version of every open store. A store without runs gets a version too."""
        for name, store in self._stores.items():
            merger, added = self._mergers[name], chain.from_iterable(runs.get(name, {}).values())
            below = drop_below.get(name)
            manifest = store.commit(version, version - 1, added, merged=merger.finished(), drop_below=below)
            merger.offer(manifest)

    def clean(self) -> None:
        """Remove versions that no batch can start from any more."""
        for name, store in self._stores.items():
            store.clean(VERSIONS_KEPT, spare=self._mergers[name].spared())

    def close(self) -> None:
        for merger in self._mergers.values():
            merger.close()

    def size_bytes(self, version: int) -> int:
        return sum(
            run.bytes
            for store in self._stores.values()
            for shard in store.manifest(version).shards
            for run in shard.runs
        )
