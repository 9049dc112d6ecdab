"""The tests of this folder can fail: each of these bugs is one that they find."""

from collections.abc import Iterable

import pytest

from headwater.clock import ManualClock
from headwater.flow.state import shard as shard_module
from headwater.flow.state import store as store_module
from headwater.flow.state.files import DiskFiles, DiskWriter, StateWriter
from headwater.flow.state.manifest import RUNS, VERSIONS, RunInfo, Shard
from headwater.flow.state.runs.merge_plan import MergePlan
from headwater.flow.state.runs.run import Run
from headwater.flow.state.runs.run_union import combined, newest_rows
from headwater.flow.state.shard import ShardState
from headwater.log.storage import Buffer, parent_of
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.state.lives import Life, complaints, first_complaint_after_a_power_cut


def complaints_after_a_life() -> list[str]:
    clock = ManualClock()
    life = Life(SimulatedDisk(clock), clock)
    life.live()
    return complaints(life.disk, life.promises)


def files_of(kind: type[DiskFiles], disk: SimulatedDisk) -> DiskFiles:
    return kind(disk, "job/state")


class WithoutSyncOfRuns(DiskFiles):
    def create(self, path: str) -> StateWriter:
        writer = super().create(path)
        assert isinstance(writer, DiskWriter)
        writer._file.sync = lambda: None  # type: ignore[method-assign]
        return writer


class LateRuns(DiskFiles):
    """A run is made durable only after the manifest that names it."""

    def create(self, path: str) -> StateWriter:
        writer = super().create(path)
        self.late = [*getattr(self, "late", []), writer]
        return Unfinished(writer)

    def replace(self, path: str, content: bytes) -> None:
        super().replace(path, content)
        for writer in getattr(self, "late", []):
            writer.finish()
        self.late = []


class Unfinished:
    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer

    def write(self, buffers: list[Buffer]) -> None:
        self._writer.write(buffers)

    def finish(self) -> None:
        return

    def abandon(self) -> None:
        self._writer.abandon()


class WithoutSyncOfFolder(DiskFiles):
    """The manifest is renamed, and the rename may be forgotten."""

    def replace(self, path: str, content: bytes) -> None:
        self._make_folder(parent_of(self._path(path)))
        file = self._storage.open(self._path(path) + ".new", create=True)
        file.write_at(0, [content])
        file.sync()
        file.close()
        self._storage.rename(self._path(path) + ".new", self._path(path))


class WithoutSyncOfManifest(DiskFiles):
    def replace(self, path: str, content: bytes) -> None:
        self._make_folder(parent_of(self._path(path)))
        file = self._storage.open(self._path(path) + ".new", create=True)
        file.write_at(0, [content])
        file.close()
        self._storage.rename(self._path(path) + ".new", self._path(path))
        self._storage.sync_directory(parent_of(self._path(path)))


class ForgetfulDeletion(DiskFiles):
    """Manifests come back after their runs are gone."""

    def delete(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        if wanted[0].startswith(RUNS):
            return super().delete(wanted)
        assert wanted[0].startswith(VERSIONS)
        for path in wanted:
            self._storage.delete(self._path(path))
        return None


@pytest.mark.parametrize(
    "kind", [WithoutSyncOfRuns, LateRuns, WithoutSyncOfFolder, WithoutSyncOfManifest, ForgetfulDeletion]
)
def test_files_that_are_not_durable_in_time_are_found_by_cutting_the_power(kind: type[DiskFiles]) -> None:
    assert first_complaint_after_a_power_cut(lambda disk: files_of(kind, disk)) != ""


def test_a_life_without_bugs_gives_no_cause_to_complain() -> None:
    assert complaints_after_a_life() == []


def test_a_look_up_in_which_the_oldest_wins_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rightly = ShardState._newest_first

    def oldest_first(self: ShardState) -> list[Run]:
        return rightly(self)[::-1]

    monkeypatch.setattr(ShardState, "_newest_first", oldest_first)
    assert complaints_after_a_life() != []


@pytest.mark.parametrize("place", ["task", "background"])
def test_a_deleted_key_that_is_forgotten_too_early_is_found(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "task":
        monkeypatch.setattr(
            shard_module, "newest_rows", lambda pieces, key, drop_deleted: newest_rows(pieces, key, drop_deleted=True)
        )
    else:
        clock = ManualClock()
        life = Life(SimulatedDisk(clock), clock)
        monkeypatch.setattr(
            store_module, "combined", lambda runs, key, drop_deleted: combined(runs, key, drop_deleted=True)
        )
        monkeypatch.setattr(
            "tests.flow.state.subjects.plan_merge",
            lambda manifest: [
                MergePlan(number, shard.runs[1:], False)
                for number, shard in enumerate(manifest.shards)
                if len(shard.runs) > 1
            ],
        )
        life.live()
        assert complaints(life.disk, life.promises) != []
        return
    assert complaints_after_a_life() != []


def test_a_merge_that_is_adopted_though_its_runs_are_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(shard: Shard, run: RunInfo) -> Shard:
        return Shard(shard.keys, (*shard.runs, run.settled()))

    monkeypatch.setattr(store_module, "with_merged", always)
    assert complaints_after_a_life() != []
