"""Windows of every kind are what a batch query gives: for any disorder, any cut, any batch that comes again.

After every batch each view, and the table that its topic's changes make, hold what plain Python finds in the rows
accepted so far; at the end Spark's own window functions are asked as well.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.flow.commit import batch_evaluation as processing
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.step import END, START
from headwater.flow.plan.row_sources import RowSource
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import engine
from tests.flow.job.steps import Step, run_steps
from tests.flow.job.windows_app import BEGIN, SCHEMA, moment, reading
from tests.flow.operators.reference import Row
from tests.flow.operators.windows.oracle import Place, windows_of

EXAMPLES = 1
LATENESS, HORIZON = 20, 60
SENSORS = ("a", "b", "c")
COLUMNS = {
    "n": "count(*)", "total": "sum(value)", "mean": "avg(value)", "least": "min(value)", "top": "max(value)",
    "first": "first(value)", "last": "last(value)",
}  # fmt: skip
LISTS = {"all": "collect_list(value)"}


class Kind(NamedTuple):
    window: Any
    emission: dict[str, Any]

    @property
    def waits(self) -> bool:
        """For the end of a window before it tells of it."""
        return bool(self.emission) and "early" not in self.emission


FINAL: dict[str, Any] = {"emit": "final"}
CORRECTED: dict[str, Any] = {"corrections": f"{HORIZON} seconds"}
EARLY: dict[str, Any] = {**CORRECTED, "early": True}
KINDS = {
    "minutes": Kind(hw.tumbling("30 seconds", offset="10 seconds"), CORRECTED),
    "hops": Kind(hw.hopping("40 seconds", "15 seconds"), FINAL),
    "trips": Kind(hw.session("12 seconds"), CORRECTED),
    "days": Kind(hw.calendar("day", zone="Europe/Berlin", offset="46830 seconds"), EARLY),
    "strides": Kind(hw.hopping("30 seconds", "12 seconds"), EARLY),
    "slid": Kind(hw.sliding("25 seconds", on_change=True), {}),
    "slides": Kind(hw.sliding("25 seconds"), CORRECTED),
    "counted": Kind(hw.count_window(3), FINAL),
}
NAMES = ("minutes", "hops", "trips", "days"), ("strides", "slid", "slides", "counted")
"""Those that one app has: more would only take longer."""


def plant(names: Sequence[str]) -> hw.App:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", lateness=f"{LATENESS} seconds")
    columns = {**COLUMNS, **LISTS}
    aggregates = [f"{sql} as {name}" for name, sql in columns.items()]
    for name in names:
        kind = KINDS[name]
        table = readings.window(kind.window).by("sensor").agg(*aggregates, **kind.emission, name=name)
        app.view(key=["sensor", "window"], name=name)(lambda table=table: table)
        app.topic(f"emitted-{name}")(lambda table=table: table)
    return app


class Reading(NamedTuple):
    sensor: str
    value: int
    second: int
    partition: int
    offset: int


def readings_of(partition: int, drawn: list[tuple[int, int, int, int]]) -> list[Reading]:
    """Each is so far ahead of the newest before it, or so far behind it."""
    newest, found = 0, []
    for offset, (sensor, value, ahead, behind) in enumerate(drawn):
        newest += ahead
        found.append(Reading(SENSORS[sensor], value, newest - behind, partition, offset))
    return found


def rows_up_to(most_behind: int) -> Any:
    one = st.tuples(st.integers(0, 2), st.integers(-5, 9), st.integers(0, 25), st.integers(0, most_behind))
    drawn = st.lists(one, min_size=1, max_size=9)
    return st.tuples(drawn, drawn).map(lambda both: tuple(readings_of(number, one) for number, one in enumerate(both)))


cuts = st.lists(st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 2)), max_size=3)


def steps_of(contents: tuple[list[Reading], ...], wanted: list[tuple[tuple[int, int], int]]) -> list[Step]:
    """Of each partition something first; then what is wanted, then what is left, and at last time alone."""
    left = [len(content) - 1 for content in contents]
    steps = [Step((1, 1), 1)]
    for sizes, again in wanted:
        taken = tuple(min(size, rest) for size, rest in zip(sizes, left, strict=True))
        left = [rest - size for rest, size in zip(left, taken, strict=True)]
        steps.append(Step(taken, again))
    return [*steps, Step(tuple(left), 1), Step((0, 0), 1)]


class Checker:
    """Compares all views with the rows accepted so far, after each batch."""

    def __init__(self, tester: AppTester, names: Sequence[str], contents: tuple[list[Reading], ...]) -> None:
        self._tester, self._names = tester, names
        self._contents, self._taken = contents, [0] * len(contents)
        self._folder = JobFolder(tester.node.data / "flows" / "plant" / "readings")

    def check(self, step: Step) -> None:
        self._taken = [taken + more for taken, more in zip(self._taken, step.rows, strict=True)]
        record = self._folder.last_finished()
        assert record is not None
        for name in self._names:
            self._check_view(name, record)

    def _check_view(self, name: str, record: BatchRecord) -> None:
        late = self.late(name)
        read = [row for rows, taken in zip(self._contents, self._taken, strict=True) for row in rows[:taken]]
        accepted = [row for row in read if (row.partition, row.offset) not in late]
        account = self._tester.account(name)
        assert account.balanced
        assert (account.rows_in, account.rows_out, account.late) == (len(read), len(accepted), len(late))
        expected = told_windows(KINDS[name], accepted, record.watermark_us)
        assert self.view(name) == expected
        assert self.folded(name) == expected

    def late(self, name: str) -> set[tuple[int, int]]:
        rows = self._tester.values("plant.readings.late")
        found = [(row["partition"], row["offset"]) for row in rows if row["operator"] == name]
        assert len(found) == len(set(found)), "each is emitted once"
        return set(found)

    def view(self, name: str) -> dict[Any, Any]:
        return {key_of(name, row): values_of(row) for row in self._tester.rows(name)}

    def folded(self, name: str) -> dict[Any, Any]:
        """The table that the changes make, each of which must fit what was there."""
        table: dict[Any, Any] = {}
        for record in self._tester.records(f"emitted-{name}"):
            if record.value is None:
                continue
            change = json.loads(record.value)
            before, after = change["before"], change["after"]
            key = key_of(name, before or after)
            assert table.pop(key, None) == (before and values_of(before)), change
            if after:
                table[key] = values_of(after)
        return table


def key_of(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    columns = {"slid": ("window_start",), "slides": ("at",), "counted": ("window",)}.get(name, (START, END))
    return (row["sensor"], *(seconds_of(row[column]) for column in columns))


def seconds_of(value: Any) -> Any:
    if isinstance(value, int):
        return value
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return (at - BEGIN) // timedelta(seconds=1)


def values_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return (*(row[name] for name in COLUMNS), *(row.get(name) for name in LISTS), row.get("final"))


def told_windows(kind: Kind, rows: list[Reading], watermark_us: int | None) -> dict[Any, Any]:
    """What is to be seen of all windows at a watermark."""
    begin_us = round(BEGIN.timestamp() * 1_000_000)
    plain = [
        Row(SENSORS.index(row.sensor), row.value, begin_us + row.second * 1_000_000, row.partition * 1000 + row.offset)
        for row in rows
    ]
    emitted = {}
    for place, inside in windows_of(kind.window, plain, watermark_us).items():
        final = watermark_us is not None and place.end <= watermark_us
        if final or not kind.waits:
            values = [row.x for row in inside]
            summary = (*summed(values), values)
            emitted[named(kind, place, begin_us)] = (*summary, final if "early" in kind.emission else None)
    return emitted


def summed(values: list[int]) -> tuple[Any, ...]:
    """What COLUMNS say, of values in the order of their time."""
    if not values:
        return (0, *[None] * 6)
    total = sum(values)
    return len(values), total, total / len(values), min(values), max(values), values[0], values[-1]


def named(kind: Kind, place: Place, begin_us: int) -> tuple[Any, ...]:
    counted = isinstance(kind.window, Count)
    return (
        SENSORS[place.key],
        *(name if counted else (name - begin_us) // 1_000_000 for name in place.names),
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("read_by", ["tasks", "spark"])
@pytest.mark.parametrize("names", NAMES, ids=" ".join)
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate])  # a smaller example would take minutes
@given(data=st.data(), most_behind=st.sampled_from([6 * LATENESS, LATENESS]), wanted=cuts)
def test_any_disorder_cut_and_repetition_gives_what_one_batch_query_gives(
    names: Sequence[str],
    read_by: str,
    data: st.DataObject,
    most_behind: int,
    wanted: list[tuple[tuple[int, int], int]],
) -> None:
    contents = data.draw(rows_up_to(most_behind))
    with (
        TemporaryDirectory() as folder,
        running_node(Path(folder)) as node,
        pytest.MonkeyPatch.context() as patches,
    ):
        if read_by == "spark":
            patches.setattr(processing, "row_source", lambda *given: RowSource({}))
        tester = AppTester(plant(names), node, engine(on_spark=read_by == "spark"))
        node.log.create_topic("readings", partitions=2)
        for number, rows in enumerate(contents):
            texts = [reading(row.second, row.sensor, row.value) for row in rows]
            tester.feed("readings", texts, partition=number, at=moment(0).isoformat())
        checker = Checker(tester, names, contents)
        run_steps(tester, steps_of(contents, wanted), topic="readings", done=checker.check)
        assert [tester.prove(name).different for name in names] == [0] * len(names)
        if most_behind == LATENESS:
            assert [checker.late(name) for name in names] == [set()] * len(names)
