"""Whether rows are reduced before the shuffle: decided by what was, so that a batch that comes again does the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import headwater as hw
from headwater.flow.job import operating, processing
from headwater.flow.job.collecting import collect
from headwater.flow.job.folder import JobFolder
from headwater.flow.job.merging import Told
from headwater.flow.job.reducing_windows import reduced_windows
from headwater.flow.job.repeating import ROWS_A_GROUP, repeating_after
from headwater.flow.job.testing import AppTester
from tests.flow.job.steps import Step, run_steps
from tests.flow.job.windows_app import moment

Tester = Callable[[hw.App], AppTester]


def told(operator: str, rows: int, groups: int) -> Told:
    return Told(operator, 0, rows, (), groups=groups)


def test_an_operator_whose_rows_are_many_for_each_group_is_reduced_next_time() -> None:
    many, few = told("many", ROWS_A_GROUP * 10, 10), told("few", ROWS_A_GROUP * 10 - 1, 10)
    assert repeating_after(frozenset(), [many, few]) == {"many"}
    assert repeating_after(frozenset({"few"}), [many, few]) == {"many"}


def test_shards_are_counted_together() -> None:
    assert repeating_after(frozenset(), [told("sums", 100, 1), told("sums", 1, 100)]) == frozenset()


def test_an_operator_without_rows_stays_what_it_was() -> None:
    assert repeating_after(frozenset({"sums"}), [told("sums", 0, 0)]) == {"sums"}


LARGE = 1e16
"""With 1 added to it, it is what it was: so sums tell in which order they were added."""


def plant() -> hw.App:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", "sensor string, value double, at timestamp", time="at", lateness="1 hour")

    @app.view(key=["sensor", "window"])
    def sums() -> Any:
        cut = readings.window(hw.tumbling("1 minute")).by("sensor")
        return cut.agg("sum(value) as total", "count(*) as n", "max(value) as most", name="kept")

    return app


@dataclass
class Watched:
    """Which way each run of a batch went, and what it told."""

    singly: list[bool] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()

    def reducing(*given: Any, **options: Any) -> Any:
        operator, frame = reduced_windows(*given, **options)
        found.singly.append(operator.singly)
        return operator, frame

    def collecting(*given: Any) -> Any:
        collected = collect(*given)
        found.rows.append(sorted(map(repr, collected.rows.to_pylist())))
        return collected

    monkeypatch.setattr(operating, "reduced_windows", reducing)
    monkeypatch.setattr(processing, "collect", collecting)
    monkeypatch.setattr(processing, "MANY_ROWS", 1)
    return found


def test_a_batch_that_comes_again_goes_the_way_it_went_and_tells_the_same_floats(
    tester: Tester, watched: Watched
) -> None:
    subject = tester(plant())
    values = [LARGE, 1.0, -LARGE, 1.0, 1.0]
    singles = [{"sensor": f"s{number}", "value": value, "at": moment(number).isoformat()}
               for number, value in enumerate(values)]  # fmt: skip
    repeated = [{"sensor": "s0", "value": value, "at": moment(1).isoformat()} for value in values * 2]
    subject.feed("readings", [*singles, *repeated, *repeated])
    folder = JobFolder(subject.node.data / "flows" / "plant" / "readings")
    noted: list[list[str]] = []

    def look(step: Step) -> None:
        record = folder.last_finished()
        assert record is not None
        noted.append(sorted(record.repeating))

    watched.singly.clear()
    run_steps(subject, [Step((5,), 2), Step((10,), 2), Step((10,), 2)], topic="readings", done=look)
    assert watched.singly[-6:] == [True, True, True, True, False, False], "singly, until a batch has repeated itself"
    assert noted == [[], ["kept"], ["kept"]]
    assert watched.rows[0::2] == watched.rows[1::2]
    assert sorted(row["total"] for row in subject.rows("sums") if row["sensor"] != "s0") == [-LARGE, 1.0, 1.0, 1.0]
    (first,) = [row for row in subject.rows("sums") if row["sensor"] == "s0"]
    assert (first["n"], first["most"]) == (21, LARGE)
    assert subject.account("sums").rows_out == 25


def test_a_small_batch_is_reduced_whatever_is_in_it(tester: Tester, watched: Watched, monkeypatch: Any) -> None:
    monkeypatch.setattr(processing, "MANY_ROWS", 3)
    subject = tester(plant())
    subject.feed("readings", [{"sensor": "s", "value": 1.0, "at": moment(1).isoformat()}] * 2)
    subject.run()
    assert watched.singly[-1:] == [False]
