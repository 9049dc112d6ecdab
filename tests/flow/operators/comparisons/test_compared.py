"""Any order and batching of changes of windows makes the table that a plain computation over the windows makes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import NumberOverflow
from headwater.flow.operators.comparisons.compared import Compared
from headwater.flow.operators.comparisons.kinds import Ago, Anomaly, Change, Comparison, Rate, Ratio, Rolling
from headwater.flow.operators.comparisons.looking_back import earlier, later
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.assignment import DAY_US, micros_of
from headwater.flow.operators.windows.kinds.calendar import Calendar, calendar_moved
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.state import EMPTY, HASH, StateStore, shard_of
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.manifest import DELETED
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.operators.comparisons.oracle import Back, compared, days_back, steps_back, wall_back
from tests.flow.operators.windows.subjects import plain

BY, VALUES = pa.schema([("key", pa.int64())]), pa.schema([("n", pa.int64())])
SHARDS = 2
HOUR_US = 3_600_000_000
BERLIN = "Europe/Berlin"
SPRING, AUTUMN = (micros_of(datetime(2026, *day, tzinfo=UTC)) for day in ((3, 28), (10, 24)))

SHORT: Mapping[str, Comparison] = {
    "rate": Rate("n", 5),
    "rolling": Rolling("n", 3),
    "change": Change("n", Ago(1)),
    "ratio": Ratio("n", Ago(time_us=40)),
    "odd": Anomaly("n", Ago(time_us=20), 3, 1.0),
}
WALL: Mapping[str, Comparison] = {
    "change": Change("n", Ago(time_us=DAY_US, zone=BERLIN)),
    "odd": Anomaly("n", Ago(time_us=DAY_US, zone=BERLIN), 3, 1.5, 3),
}
DAYS: Mapping[str, Comparison] = {
    "rate": Rate("n", HOUR_US),
    "change": Change("n", Ago(1)),
    "odd": Anomaly("n", Ago(7), 2, 0.5),
}

Said = tuple[int, int, int | None, bool]
"""Key, number of the window, what it holds from now on, or that it is gone."""


class Life:
    """The operator through batches, and the table that its changes make."""

    def __init__(self, work: Compared, back: Back) -> None:
        self.work, self.back = work, back
        self.store = StateStore(DiskFiles(SimulatedDisk(), "state"), work.state, shards=SHARDS, task_bytes_max=0)
        self.version = EMPTY
        self.windows: dict[tuple[int, int], int | None] = {}
        self.table: dict[tuple[int, int], dict[str, Any]] = {}

    def batch(self, said: Mapping[tuple[int, int], tuple[int | None, bool]], forgotten: int | None = None) -> None:
        said = {name: one for name, one in said.items() if not one[1] or name in self.windows}
        for name, (value, gone) in said.items():
            if gone:
                del self.windows[name]
            else:
                self.windows[name] = value
        self._run(said, forgotten)

    def _run(self, said: Mapping[tuple[int, int], tuple[int | None, bool]], forgotten: int | None) -> None:
        handle, runs = self.store.begin(self.version), []
        incoming = self._incoming(said)
        for shard in range(SHARDS):
            mine = incoming.filter(pa.array(shard_of(incoming.column(HASH).to_numpy(), SHARDS) == shard))
            step = self.work.step(WindowState(handle, shard, self.store.opened), mine)
            runs += step.runs
            self._apply(step.changes)
        below = None if forgotten is None else self.work.drop_below(forgotten)
        self.store.commit(self.version + 1, self.version, runs, drop_below=below)
        self.version += 1

    def _incoming(self, said: Mapping[tuple[int, int], tuple[int | None, bool]]) -> pa.RecordBatch:
        keys = [key for key, _ in said]
        columns = [
            pa.array([key // 2 for key in keys], pa.int64()),  # two keys have one hash
            pa.array(keys, pa.int64()),
            pa.array([start for _, start in said], pa.int64()),
            pa.array([None if gone else value for value, gone in said.values()], pa.int64()),
            pa.array([gone for _, gone in said.values()], pa.bool_()),
        ]
        return pa.RecordBatch.from_arrays(columns, [HASH, "key", "window_start", "n", DELETED])

    def _apply(self, changes: pa.RecordBatch) -> None:
        for change in plain(changes).to_pylist():
            operation, before, end = change.pop("_op"), change.pop("_before"), change.pop("window_end")
            name = change.pop("key"), change.pop("window_start")
            assert end == int(self.work.window.ends(np.array([name[1]]))[0])
            assert before == self.table.get(name)
            assert (operation == "c") == (name not in self.table)
            if operation == "d":
                del self.table[name]
            else:
                self.table[name] = change

    def check(self) -> None:
        def length(start: int) -> int:
            return int(self.work.window.ends(np.array([start]))[0]) - start

        expected = compared(self.windows, self.work.comparisons, self.back, length)
        assert self.table.keys() == expected.keys()
        assert {name: near(row) for name, row in self.table.items()} == {
            name: near(row) for name, row in expected.items()
        }


def near(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 12) if isinstance(value, float) else value for name, value in row.items()}


def said_strategy(windows: int) -> st.SearchStrategy[list[list[Said]]]:
    gone = st.sampled_from([False] * 4 + [True])
    one = st.tuples(st.integers(0, 3), st.integers(0, windows - 1), st.none() | st.integers(-2, 9), gone)
    return st.lists(st.lists(one, max_size=10), max_size=6)


def live(work: Compared, back: Back, starts: Sequence[int], batches: Sequence[Sequence[Said]]) -> None:
    life = Life(work, back)
    for batch in batches:
        life.batch({(key, starts[number]): (value, gone) for key, number, value, gone in batch})
        life.check()


@pytest.mark.parametrize(
    ("window", "step"), [(Tumbling(10, 3), 10), (Hopping(20, 10, 3), 10)], ids=["tumbling", "hopping"]
)
@given(batches=said_strategy(8))
@settings(max_examples=80, deadline=None)
def test_windows_side_by_side_and_overlapping(window: AlignedWindow, step: int, batches: list[list[Said]]) -> None:
    starts = [3 + step * number for number in range(-2, 6)]
    live(Compared(window, BY, VALUES, SHORT), steps_back(step), starts, batches)


@pytest.mark.parametrize("begin", [SPRING, AUTUMN], ids=["clocks forward", "clocks back"])
@given(batches=said_strategy(16))
@settings(max_examples=60, deadline=None)
def test_yesterday_is_at_the_same_hour_on_the_wall(begin: int, batches: list[list[Said]]) -> None:
    starts = [begin + DAY_US * day + HOUR_US * hour for day in range(4) for hour in (0, 1, 2, 3)]
    live(Compared(Tumbling(HOUR_US), BY, VALUES, WALL), wall_back(HOUR_US), starts, batches)


@given(batches=said_strategy(16))
@settings(max_examples=40, deadline=None)
def test_days_of_a_calendar_are_compared_by_their_dates(batches: list[list[Said]]) -> None:
    window = Calendar("day", BERLIN)
    midnight = SPRING - HOUR_US
    starts = [calendar_moved(window, midnight, day) for day in range(-7, 9)]
    live(Compared(window, BY, VALUES, DAYS), days_back(BERLIN), starts, batches)


@given(batches=said_strategy(20), advances=st.lists(st.integers(0, 60), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None)
def test_what_is_dropped_is_never_missed(batches: list[list[Said]], advances: list[int]) -> None:
    """Windows change as long as they have not ended before the watermark, as those of a job do."""
    work, passed = Compared(Tumbling(10), BY, VALUES, SHORT, retained_us=10), 0
    life = Life(work, steps_back(10))
    for batch, advance in zip(batches, advances, strict=False):
        passed += advance
        said = {(key, number * 10): (value, gone) for key, number, value, gone in batch if number * 10 + 10 > passed}
        life.batch(said, forgotten=passed)
        life.check()
    life.batch({}, forgotten=10**9)
    assert all(shard.keys == 0 for shard in life.store.manifest(life.version).shards)


def test_a_window_is_kept_for_as_long_as_one_that_may_come_looks_back_at_it() -> None:
    work = Compared(Tumbling(10), BY, VALUES, {"change": Change("n", Ago(time_us=40))}, retained_us=10)
    life = Life(work, steps_back(10))
    life.batch({(0, 0): (5, False)}, forgotten=35)
    life.batch({(0, 40): (7, False)}, forgotten=35)
    assert life.table[0, 40]["change"] == 2


@pytest.mark.parametrize("days", [1, 7])
@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_who_looks_back_at_a_window_is_found_from_both_sides(zone: str, days: int) -> None:
    window, ago = Tumbling(HOUR_US // 2), Ago(time_us=days * DAY_US, zone=zone)
    year = np.arange(
        micros_of(datetime(2026, 1, 1, tzinfo=UTC)), micros_of(datetime(2027, 1, 1, tzinfo=UTC)), 30 * 60 * 10**6
    )
    back = earlier(window, ago, year)
    forth = later(window, ago, year)
    wanted = {(int(then), int(now)) for then, now in zip(back, year, strict=True) if then >= year[0]}
    found = {
        (int(year[place]), int(now)) for place, now in zip(forth.numbers, forth.starts, strict=True) if now <= year[-1]
    }
    assert found == wanted


def test_a_season_of_the_same_values_makes_any_other_one_odd_and_a_single_one_nothing() -> None:
    life = Life(Compared(Tumbling(10), BY, VALUES, {"odd": Anomaly("n", Ago(1), 3, 3.0)}), steps_back(10))
    for number, value in enumerate([5, 5, 5, 5, 6]):
        life.batch({(0, number * 10): (value, False)})
    assert [row["odd"] for _, row in sorted(life.table.items())] == [None, None, False, False, True]


def test_a_straggler_corrects_the_windows_that_looked_back_at_its_window_and_no_others() -> None:
    life = Life(Compared(Tumbling(10), BY, VALUES, {"change": Change("n", Ago(2))}), steps_back(10))
    life.batch({(0, number * 10): (number, False) for number in range(5)})
    before = dict(life.table)
    life.batch({(0, 10): (7, False)})
    different = {name for name in life.table if life.table[name] != before[name]}
    assert different == {(0, 10), (0, 30)}


def test_a_difference_that_does_not_fit_is_an_error_and_not_a_wrong_number() -> None:
    life = Life(Compared(Tumbling(10), BY, VALUES, {"change": Change("n", Ago(1))}), steps_back(10))
    life.batch({(0, 0): (-(2**62), False)})
    with pytest.raises(NumberOverflow, match="change"):
        life.batch({(0, 10): (2**63 - 1, False)})


def test_slots_of_state_follow_each_other() -> None:
    life = Life(Compared(Tumbling(10), BY, VALUES, SHORT, retained_us=100), steps_back(10))
    for number in range(30):
        life.batch({(0, number * 10): (number, False)}, forgotten=number * 10)
    handle = life.store.begin(life.version)
    slots = handle.slots(0)
    assert slots
    assert all(one.end <= other.begin for one, other in pairwise(slots))
    assert slots[0].begin >= life.work.drop_below(290) - 20, "what nothing looks back at is gone"
