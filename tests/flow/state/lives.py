"""The life of a store, with what it has promised at every moment: what tests of crashes compare with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from headwater.clock import ManualClock
from headwater.flow.state import EMPTY, RunInfo, StateStore, reshard
from headwater.flow.state.files import DiskFiles, StateFiles
from headwater.log.storage.simulated import Call, SimulatedDisk
from tests.flow.state.subjects import (
    Content,
    applied,
    content_of,
    looked_up,
    merge_all,
    store_on,
    store_on_disk,
    written,
)

OpenFiles = Callable[[SimulatedDisk], StateFiles]


@dataclass
class Promises:
    """`kept`: committed, and to be found as it is. `open`: what may be found as well, or not at all."""

    kept: dict[int, Content] = field(default_factory=lambda: {EMPTY: {}})
    open: dict[int, Content] = field(default_factory=dict)

    @contextmanager
    def committing(self, version: int, content: Content) -> Iterator[None]:
        self.open[version] = content
        yield
        self.kept[version] = self.open.pop(version)

    @contextmanager
    def giving_up(self, versions: list[int]) -> Iterator[None]:
        self.open.update({version: self.kept.pop(version) for version in versions})
        yield
        for version in versions:
            del self.open[version]


@dataclass
class Life:
    """Batches, a re-run, merges, cleanings and a change of the number of shards."""

    disk: SimulatedDisk
    clock: ManualClock
    open_files: OpenFiles = lambda disk: DiskFiles(disk, "job/state")
    promises: Promises = field(default_factory=Promises)

    def live(self) -> None:
        # Tasks that merge nothing leave merging to the background, and the other way round.
        self.store = store_on(self.open_files(self.disk), 2, task_bytes_max=0)
        self.batch(0, {0: 1, 1: 2, 4: 3})
        self.batch(1, {0: None, 2: 20, 5: 21})
        self.batch(2, {1: 30, 2: None})
        self.batch(2, {1: 31, 3: 32, 2: None})
        self.clean()
        self.batch(3, {2: 40, 4: None})
        self.batch(4, {0: 50, 1: None, 5: None})
        merged = merge_all(self.store, 4)
        self.batch(5, {0: 61, 1: 62, 2: 64, 3: 60, 5: 63}, merged)
        self.clean()
        self.store = store_on(self.open_files(self.disk), 2)
        self.batch(6, {1: 70})
        self.batch(7, {1: None, 3: None, 7: 80})
        reshard(self.store, 7, 3)
        self.batch(8, {7: None, 9: 90})
        self.clean()

    def batch(self, version: int, changes: dict[int, int | None], merged: list[RunInfo] | None = None) -> None:
        self.clock.advance(1000)
        base = version - 1
        runs = written(self.store, self.store.begin(base), changes)
        with self.promises.committing(version, applied(self.promises.kept[base], changes)):
            self.store.commit(version, base, runs, merged=merged or [])

    def clean(self) -> None:
        self.clock.advance(1000)
        with self.promises.giving_up(sorted(self.promises.kept)[1:-2]):
            self.store.clean(2)


def complaints(disk: SimulatedDisk, promises: Promises) -> list[str]:
    """What is not as promised on a disk that was found after a crash; nothing if all is well."""
    store = store_on_disk(disk)
    found = store.check()
    if found:
        return found
    present = set(store.versions())
    for version in present:
        try:
            content = content_of(store, version)
        except AssertionError as inconsistent:
            found.append(f"version {version}: {inconsistent}")
            continue
        if content not in (promises.kept.get(version), promises.open.get(version)):
            found.append(f"version {version} holds {content}")
    missing = promises.kept.keys() - present - {EMPTY}
    return found + [f"version {version} is lost" for version in sorted(missing)]


def goes_on(disk: SimulatedDisk, promises: Promises) -> list[str]:
    """Whether the next batch can be run and cleaned up behind on such a disk."""
    version = max(promises.kept)
    store = store_on_disk(disk)
    if version != EMPTY:
        store.shards = len(store.manifest(version).shards)
    base = content_of(store, version)
    after = applied(base, {1: 1001, 8: 1008, 9: None})
    store.commit(version + 1, version, written(store, store.begin(version), {1: 1001, 8: 1008, 9: None}))
    store.clean(1)
    again: StateStore = store_on_disk(disk, store.shards)
    wrong = [] if looked_up(again, version + 1, range(12)) == after else [f"version {version + 1} is not as written"]
    return wrong + again.check() + [f"version {v} is left" for v in again.versions() if v != version + 1]


class Complained(Exception):
    pass


def first_complaint_after_a_power_cut(open_files: OpenFiles) -> str:
    """For tests that expect one: the rest of the life need not be lived."""
    try:
        complaints_after_power_cuts(open_files, first_only=True)
    except Complained as complaint:
        return str(complaint)
    return ""


def complaints_after_power_cuts(open_files: OpenFiles, *, first_only: bool = False) -> list[str]:
    """Live once, and cut the power, in two ways, before each call that changes the disk."""
    clock = ManualClock()
    disk = SimulatedDisk(clock)
    life = Life(disk, clock, open_files)
    found: list[str] = []

    def cut(call: Call) -> None:
        if not call.changing:
            return
        for seed in range(2):
            after = disk.crash(Random(call.number * 100 + seed))
            promises = deepcopy(life.promises)
            wrong = complaints(after, promises) or goes_on(after, promises)
            found.extend(f"call {call.number} ({call.operation} {call.path}): {what}" for what in wrong)
            if found and first_only:
                raise Complained(found[0])

    disk.on_call = cut
    life.live()
    return found
