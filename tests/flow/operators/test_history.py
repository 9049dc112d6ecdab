"""The versions of a table hold from when they begin to when the next one does, whatever came first."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.history import GONE, UNTIL, History, history_step
from headwater.flow.operators.joins.events import CONTENT, OFFSET, PARTITION, SOURCE, TIME
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORK = History(pa.schema([("name", pa.string()), ("town", pa.string())]), ("name",), "since", "until")


class Version(NamedTuple):
    """`town` is None if the row is deleted; `end` is when it ends by itself."""

    name: str
    town: str | None
    time: int
    end: int | None


def incoming(versions: list[Version], first: int) -> pa.RecordBatch | None:
    rows = [
        {HASH: len(one.name), TIME: one.time, SOURCE: 0, PARTITION: 0, OFFSET: first + place, CONTENT: 0,
         "name": one.name, "town": one.town, GONE: one.town is None, UNTIL: one.end}
        for place, one in enumerate(versions)
    ]  # fmt: skip
    numbers = [(name, pa.int64()) for name in (HASH, TIME, SOURCE, PARTITION, OFFSET, CONTENT)]
    return pa.RecordBatch.from_pylist(rows, pa.schema([*numbers, *WORK.versions.columns])) if rows else None


def expected(versions: list[Version]) -> dict[tuple[str, int], tuple[str, int | None]]:
    """Plain Python's idea of it: the last of each key and time, up to the next one's."""
    last = {(one.name, one.time): one for one in versions}
    found = {}
    for (name, time), one in last.items():
        ends = [other for key, other in last if key == name and other > time] + ([] if one.end is None else [one.end])
        end = min(ends, default=None)
        if one.town is not None and (end is None or end > time):
            found[name, time] = (one.town, end)
    return found


class Running:
    def __init__(self) -> None:
        self.store = StateStore(DiskFiles(SimulatedDisk(), "state"), WORK.state, shards=1)
        self.version, self.seen = EMPTY, list[Version]()
        self.table: dict[Any, Any] = {}

    def batch(self, versions: list[Version], again: int = 1) -> None:
        for _ in range(again):
            state = self.store.shard(self.store.begin(self.version), 0)
            step = history_step(WORK, state, incoming(versions, len(self.seen)))
            self.store.commit(self.version + 1, self.version, filter(None, [step.run]))
        self.version += 1
        self.seen += versions
        for change in step.changes.to_pylist():
            key, before = (change["name"], micros(change["since"])), change["_before"]
            known = before and (before["town"], micros(before["until"]))
            assert self.table.pop(key, None) == known
            if change["_op"] != "d":
                self.table[key] = (change["town"], micros(change["until"]))


def micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


versions = st.builds(
    Version, st.sampled_from("ab"), st.sampled_from(["Bern", "Rome", None]), st.integers(0, 6),
    st.none() | st.integers(0, 8),
)  # fmt: skip


@settings(max_examples=80)
@given(st.lists(st.tuples(st.lists(versions, max_size=5), st.integers(1, 2)), max_size=5))
def test_after_every_batch_each_version_ends_where_the_next_begins(batches: list[tuple[list[Version], int]]) -> None:
    running = Running()
    for drawn, again in batches:
        running.batch(drawn, again)
        assert running.table == expected(running.seen)


def test_a_version_that_comes_late_divides_the_one_it_falls_into() -> None:
    running = Running()
    running.batch([Version("a", "Bern", 1, None), Version("a", "Oslo", 9, None)])
    running.batch([Version("a", "Rome", 5, None)])
    assert running.table == {("a", 1): ("Bern", 5), ("a", 5): ("Rome", 9), ("a", 9): ("Oslo", None)}
    running.batch([Version("a", None, 7, None)])
    assert running.table[("a", 5)] == ("Rome", 7)
