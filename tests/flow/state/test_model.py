"""Any sequence of batches, re-runs, merges, cleanings and restarts gives what a plain dict gives."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.state import EMPTY, RunInfo, reshard
from headwater.log.storage.simulated import Call
from tests.flow.state.subjects import (
    Content,
    applied,
    content_of,
    looked_up,
    merge_all,
    new_disk,
    run_batch,
    store_on_disk,
    written,
)

KEYS = range(16)
changes = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(0, 999), max_size=10)
steps = st.one_of(
    st.tuples(st.just("batch"), changes),
    st.tuples(st.just("batch"), changes),
    st.tuples(st.just("batch"), changes),
    st.tuples(st.just("again"), changes),
    st.tuples(st.just("wasted"), changes),
    st.tuples(st.just("merge"), st.just({})),
    st.tuples(st.just("clean"), st.just({})),
    st.tuples(st.just("reopen"), st.just({})),
    st.tuples(st.just("cut"), changes),
    st.tuples(st.just("cut"), changes),
    st.tuples(st.just("reshard"), st.dictionaries(st.integers(1, 5), st.just(0), min_size=1, max_size=1)),
)


class PowerWent(Exception):
    pass


class Job:
    def __init__(self, shards: int, task_bytes_max: int) -> None:
        self.disk, self.clock = new_disk()
        self.task_bytes_max = task_bytes_max
        self.store = store_on_disk(self.disk, shards, task_bytes_max=task_bytes_max)
        self.kept: dict[int, Content] = {EMPTY: {}}
        self.version = EMPTY
        self.merged: list[RunInfo] = []

    def step(self, kind: str, argument: dict[int, int | None]) -> None:
        self.clock.advance(1000)
        getattr(self, kind)(argument)
        for version, content in self.kept.items():
            assert content_of(self.store, version) == content
        assert looked_up(self.store, self.version, KEYS) == self.kept[self.version]

    def batch(self, argument: dict[int, int | None]) -> None:
        handle = self.store.begin(self.version)
        runs = written(self.store, handle, argument)
        self.store.commit(self.version + 1, self.version, runs, merged=self.merged)
        self.kept[self.version + 1] = applied(self.kept[self.version], argument)
        self.version += 1
        self.merged = []

    def again(self, argument: dict[int, int | None]) -> None:
        """The newest batch once more from its own base; what it does now is what counts."""
        if self.version - 1 in self.kept and len(self.store.manifest(self.version - 1).shards) == self.store.shards:
            run_batch(self.store, self.version, argument)
            self.kept[self.version] = applied(self.kept[self.version - 1], argument)

    def wasted(self, argument: dict[int, int | None]) -> None:
        """Tasks whose batch is never committed."""
        written(self.store, self.store.begin(self.version), argument)

    def merge(self, _: object) -> None:
        """Carried out now, adopted by the next batch, whatever has happened until then."""
        self.merged = merge_all(self.store, self.version)

    def clean(self, _: object) -> None:
        self.store.clean(2, spare={run.name for run in self.merged})
        self.kept = {version: self.kept[version] for version in (EMPTY, *sorted(set(self.kept) - {EMPTY})[-2:])}

    def reopen(self, _: object) -> None:
        self.store = store_on_disk(self.disk, self.store.shards, task_bytes_max=self.task_bytes_max)

    def cut(self, argument: dict[int, int | None]) -> None:
        """The power goes somewhere in a batch; what it would have made may be there afterwards, or not."""
        self.calls_left = sum(argument) % 23
        self.disk.on_call = self.count_down
        try:
            self.batch(argument)
        except PowerWent:
            pass
        self.disk = self.disk.crash(Random(len(argument)))
        self.merged = []
        self.reopen(None)
        if self.version + 1 in self.store.versions():
            self.kept[self.version + 1] = applied(self.kept[self.version], argument)
            self.version += 1

    def count_down(self, call: Call) -> None:
        self.calls_left -= call.changing
        if self.calls_left < 0:
            raise PowerWent

    def reshard(self, argument: dict[int, int]) -> None:
        if self.version != EMPTY:
            reshard(self.store, self.version, next(iter(argument)))


@given(st.integers(1, 3), st.sampled_from((0, 300_000, 10**9)), st.lists(steps, max_size=20))
def test_every_version_holds_what_a_plain_dict_would(
    shards: int, task_bytes_max: int, sequence: list[tuple[str, dict[int, int | None]]]
) -> None:
    job = Job(shards, task_bytes_max)
    for kind, argument in sequence:
        job.step(kind, argument)
    assert job.store.check() == []
