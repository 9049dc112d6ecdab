"""The state of a job: a store for each operator, or each part of one; all are committed under the batch's number."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import chain
from typing import Protocol

from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.files import StateFiles
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.store import StateStore

VERSIONS_KEPT = 10
CLEANED_EVERY = 20
"""Batches, where files are found by requests to another machine."""

ShardRuns = Mapping[int, tuple[RunInfo, ...]]
"""The runs that tasks wrote, by shard."""


class StateFolder(Protocol):
    """The folder of a job (commit/job_folder.py)."""

    @property
    def kept_at(self) -> str:
        """The URL that state lies at; "" if it lies on a disk of this machine."""

    def state_files(self, operator: str) -> StateFiles: ...

    def together(self) -> AbstractContextManager[None]:
        """What is committed within may be there all at once."""


class JobState:
    """Stores are opened when they are first asked for, and belong to this process until `close`."""

    def __init__(self, folder: StateFolder, *, shards: int) -> None:
        self._folder, self.shards = folder, shards
        self._elsewhere = bool(folder.kept_at)
        self._stores: dict[str, StateStore] = {}
        self._mergers: dict[str, BackgroundMerger] = {}

    def store(self, name: str, schema: StateSchema, fingerprint: str) -> StateStore:
        found = self._stores.get(name)
        if found is None:
            found = StateStore(self._folder.state_files(name), schema, shards=self.shards, fingerprint=fingerprint)
            self._stores[name] = found
            self._mergers[name] = BackgroundMerger(found)
        return found

    def handle(self, name: str, version: int) -> str:
        """What tasks need to work on an open store, as JSON."""
        return self._stores[name].begin(version, reserved=self._mergers[name].reserved()).to_json()

    def commit(self, version: int, runs: Mapping[str, ShardRuns], drop_below: Mapping[str, int | None]) -> None:
        """Make what tasks wrote the next version of every open store. A store without runs gets a version too."""
        manifests = {}
        with self._folder.together():
            for name, store in self._stores.items():
                merger, added = self._mergers[name], chain.from_iterable(runs.get(name, {}).values())
                below = drop_below.get(name)
                manifests[name] = store.commit(version, version - 1, added, merged=merger.finished(), drop_below=below)
        for name, manifest in manifests.items():
            self._mergers[name].offer(manifest)

    def clean(self, version: int) -> None:
        """Remove versions that no batch after this version can start from."""
        if self._elsewhere and version % CLEANED_EVERY:
            return
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
