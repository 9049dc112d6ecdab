"""What a join holds back, and what watermark there is behind it; held against the joins themselves."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.flow.declare.topology.nodes import AsOfJoin, IntervalJoin, Join, LatestJoin, Node
from headwater.flow.operators.joins.pairing import HOWS
from headwater.flow.plan.delays import AT_ONCE, Behind, arriving, batches_behind, held_by, held_us, reached_us, recent
from tests.flow.operators.joins import test_as_of, test_interval, test_latest
from tests.flow.operators.joins.streams import Event, RunningJoin, incoming

MINUTE = 60_000_000
NEVER = -(10**9)


def app() -> tuple[Any, Any, Any, Any]:
    declared = hw.App("pages")
    searches = declared.stream("searches", "session string, at timestamp", time="at")
    clicks = declared.stream("clicks", "session string, url string, at timestamp", time="at")
    rates = declared.table("rates", "session string, rate double", key="session", versions="1 day")
    people = declared.table("people", "session string, name string", key="session")
    return searches, clicks, rates, people


def behind(stream: Any) -> set[tuple[int, int]]:
    """Of what is given to a window behind it: batches, and minutes."""
    window = stream.window(hw.tumbling("5 minutes")).by("session").agg("count(*) as n")
    return {(one.batches, one.held_us // MINUTE) for one in arriving(window.node)}


def test_what_is_given_on_at_once_has_the_watermark_of_the_job() -> None:
    searches, clicks, _, people = app()
    assert behind(searches) == {(0, 0)}
    assert behind(searches.union(clicks.select("session", "at")).where("session > 'a'")) == {(0, 0)}
    assert behind(searches.dedupe("session", within="1 hour")) == {(0, 0)}
    assert behind(searches.join(people, on="session")) == {(0, 0)}


def test_each_join_holds_rows_back_for_as_long_as_it_has_to() -> None:
    searches, clicks, rates, people = app()
    near: dict[str, Any] = {"on": "session", "between": ("-5 minutes", "1 hour")}
    assert behind(searches.join(clicks, **near)) == {(0, 60)}
    assert behind(searches.join(clicks, **near, how="left")) == {(1, 60)}
    assert behind(searches.join(clicks, **near, how="right")) == {(0, 60), (1, 5)}
    assert behind(searches.join(clicks, **near, how="full")) == {(1, 60)}
    assert behind(searches.join(clicks, on="session", between=("-2 hours", "-1 hour"), how="left")) == {(1, 0)}
    assert behind(searches.join(rates, on="session", as_of="at")) == {(1, 0)}
    assert behind(searches.join(people, on="session", wait="10 minutes")) == {(1, 10)}


def test_behind_several_joins_it_adds_up_and_of_several_inputs_the_last_counts() -> None:
    searches, clicks, rates, people = app()
    priced = searches.join(rates, on="session", as_of="at")
    assert behind(priced.join(people, on="session", wait="10 minutes")) == {(2, 10)}
    assert behind(priced.select("session").union(searches.select("session"))) == {(1, 0)}
    clicked = searches.join(clicks, on="session", within="1 hour")
    both = clicked.join(priced.select("session"), on="session", within="2 hours")
    assert behind(both) == {(0, 180), (1, 120)}
    assert batches_behind([both.node]) == 1
    assert held_us(both.node) == 60 * MINUTE


def test_the_watermark_is_the_least_that_follows_from_those_of_the_last_batches() -> None:
    bounds = frozenset({Behind(0, 60), Behind(2, 5)})
    assert reached_us(bounds, (100, 90, 80)) == 40
    assert reached_us(bounds, (100, 30, 20)) == 15
    assert reached_us(bounds, (100, 90)) is None, "there was none so long ago"
    assert reached_us(bounds, (100, 90, None)) is None
    assert reached_us(AT_ONCE, (100,)) == 100
    assert recent((9, 7, 5), 1) == (9, 7)
    assert recent((), 1) == (None, None)


# -- nothing that is not late ever leaves a join before the watermark behind it ----------------------------------------


def node_of(kind: type[Join], **changed: Any) -> Node:
    searches, clicks, rates, people = app()
    made = {
        IntervalJoin: lambda: searches.join(clicks, on="session", within="1 hour"),
        AsOfJoin: lambda: searches.join(rates, on="session", as_of="at"),
        LatestJoin: lambda: searches.join(people, on="session"),
    }
    found: Node = replace(made[kind]().node, **changed)
    return found


class Watched:
    """A join whose results are held against the watermark that is known behind it before each batch."""

    def __init__(self, work: Any, node: Node) -> None:
        self._running, self._bounds = RunningJoin(work), held_by(node)
        self._passed: tuple[int | None, ...] = ()

    def batch(self, given: tuple[Any, Any], watermark: int) -> None:
        before, self._passed = reached_us(self._bounds, self._passed), (watermark, *self._passed)
        behind_us = reached_us(self._bounds, self._passed)
        assert before is None or (behind_us is not None and behind_us >= before), "never back"
        emitted = self._running.batch(given, watermark).after
        times = [one if one is not None else other for one, other in zip(*_times(emitted), strict=True)]
        assert min(times, default=10**9) >= (NEVER if behind_us is None else behind_us)


def _times(emitted: pa.RecordBatch) -> list[list[int | None]]:
    return [emitted.column(name).to_pylist() for name in ("_l_time", "_r_time")]


ahead = st.lists(
    st.builds(Event, st.integers(0, 1), st.integers(0, 20), st.sampled_from(["a", "a", "b", None]), st.integers(0, 2)),
    max_size=6,
)
"""Their times are emitted from the watermark, and none is behind it."""
batches = st.lists(st.tuples(ahead, st.integers(0, 15)), min_size=2, max_size=8)


def placed(drawn: list[Event], watermark: int, number: int) -> list[Event]:
    return [one._replace(offset=number + place, time=watermark + one.time) for place, one in enumerate(drawn)]


@settings(max_examples=60)
@given(st.sampled_from(HOWS), test_interval.spans, batches)
def test_an_interval_join_tells_nothing_before_its_bounds(
    how: str, span: tuple[int, int], batches: list[tuple[list[Event], int]]
) -> None:
    join = test_interval.join_of(how, *span)
    watched, watermark = Watched(join, node_of(IntervalJoin, how=how, low_us=span[0], high_us=span[1])), 0
    for number, (drawn, more) in enumerate([*batches, ([], 100)]):
        watermark += more
        found = placed(drawn, watermark, 10 * number)
        sides = [
            incoming(side, [one for one in found if one.side == place])
            for place, side in enumerate((join.left, join.right))
        ]
        watched.batch((sides[0], sides[1]), watermark)


@settings(max_examples=60)
@given(batches)
def test_a_join_as_of_a_time_tells_nothing_before_its_bounds(batches: list[tuple[list[Event], int]]) -> None:
    join, watermark = test_as_of.join_of("left"), 0
    watched = Watched(join, node_of(AsOfJoin))
    for number, (drawn, more) in enumerate([*batches, ([], 100)]):
        watermark += more
        watched.batch((incoming(join.events, placed(drawn, watermark, 10 * number)), None), watermark)


@settings(max_examples=60)
@given(st.sampled_from([0, 8]), batches, st.lists(test_latest.tables, min_size=9, max_size=9))
def test_a_join_that_waits_tells_nothing_before_its_bounds(
    wait: int, batches: list[tuple[list[Event], int]], tables: list[test_latest.Table]
) -> None:
    join, watermark, before = test_latest.join_of("left", wait), 0, test_latest.Table()
    watched = Watched(join, node_of(LatestJoin, wait_us=wait))
    for number, ((drawn, more), table) in enumerate(zip([*batches, ([], 100)], tables, strict=False)):
        watermark += more
        events = incoming(join.events, placed(drawn, watermark, 10 * number))
        watched.batch((events, test_latest.changes(before, table)), watermark)
        before = table
