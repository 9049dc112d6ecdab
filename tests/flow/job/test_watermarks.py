"""How far time has come: never ahead of what may still come in time, never back, and not held up by who is silent."""

import json
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.topology.nodes import SourceStream
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.plan.lateness import Times, times_of
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.watermarks import Clocks, advance_clocks, idle_ms, idle_partitions, watermark
from headwater.flow.source.batch_plan.batch_control import BatchControl
from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import Counts, Staged
from headwater.flow.source.times.clock_rules import ClockRules
from headwater.record import TopicPartition

A, B, C = (TopicPartition("clicks", number) for number in range(3))
NONE: frozenset[TopicPartition] = frozenset()
S = 1_000_000
NEVER = -(10**9)
NOW_MS = 10**12
"""When batches are planned, unless that matters."""


def stream(
    topic: str = "clicks", *, lateness: int = 0, idle: int | None = 30, producer: str | None = None
) -> SourceStream:
    idle_us = None if idle is None else idle * S
    rules = ClockRules(producer)
    return SourceStream(
        Place("test.py", 1), topic, topic, parse_ddl("id string, at timestamp"), "json", "at", lateness * S, {},
        idle_us, rules,
    )  # fmt: skip


def clocks(newest: dict[int, int], arrived: dict[int, int] | None = None) -> Clocks:
    """In seconds; records arrive when they happen unless said otherwise."""
    came = newest if arrived is None else arrived
    return Clocks(
        {"clicks": {number: second * S for number, second in newest.items()}},
        {"clicks": {number: second * 1000 for number, second in came.items()}},
    )


def reached(
    known: Clocks,
    places: Sequence[TopicPartition],
    *,
    lateness: int = 0,
    before: int | None = None,
    **said: frozenset[TopicPartition],
) -> int | None:
    """The watermark in seconds."""
    own = [stream(lateness=lateness)]
    decided = {"read": NONE, "held": NONE, "silent": NONE} | said
    idle = idle_partitions(known, own, places, **decided)
    found = watermark(known, own, places, idle=idle, before_us=None if before is None else before * S)
    return None if found is None else found // S


def test_the_slowest_partition_decides_less_its_lateness() -> None:
    assert reached(clocks({0: 100, 1: 90}), [A, B]) == 90
    assert reached(clocks({0: 100, 1: 90}), [A, B], lateness=15) == 75


def test_before_anything_was_read_there_is_no_watermark() -> None:
    assert reached(Clocks(), [A, B]) is None


def test_it_never_goes_back() -> None:
    assert reached(clocks({0: 100, 1: 90}), [A, B], before=95) == 95


def test_a_partition_that_is_further_behind_than_idle_is_not_waited_for() -> None:
    assert reached(clocks({0: 100, 1: 70}), [A, B]) == 70
    assert reached(clocks({0: 100, 1: 69}), [A, B]) == 100


def test_what_counts_is_when_records_came_not_when_rows_happened() -> None:
    assert reached(clocks({0: 100, 1: 10}, {0: 100, 1: 99}), [A, B]) == 10
    assert reached(clocks({0: 100, 1: 99}, {0: 100, 1: 10}), [A, B]) == 100


def test_a_partition_with_rows_in_the_batch_is_waited_for_again() -> None:
    assert reached(clocks({0: 100, 1: 10}), [A, B], before=80, read=frozenset({B})) == 80
    assert reached(clocks({0: 100, 1: 10}), [A, B], before=80) == 100


def test_a_partition_whose_first_rows_are_in_the_batch_lets_nothing_pass_them() -> None:
    assert reached(clocks({0: 100}), [A, B], before=50, read=frozenset({B})) == 50


def test_a_partition_that_never_had_anything_holds_nothing_up() -> None:
    assert reached(clocks({0: 100}), [A, B, C]) == 100


def test_a_partition_that_is_held_back_is_not_idle() -> None:
    known = clocks({0: 100, 1: 10})
    assert reached(known, [A, B], held=frozenset({B})) == 10
    assert reached(clocks({0: 100}), [A, B], held=frozenset({B})) is None, "nor if nothing was read of it yet"


def test_a_partition_that_the_source_has_watched_for_long_is_not_waited_for() -> None:
    assert reached(clocks({0: 100, 1: 95}), [A, B], silent=frozenset({B})) == 100


def test_if_all_are_silent_it_is_as_if_none_were() -> None:
    assert reached(clocks({0: 100, 1: 95}), [A, B], silent=frozenset({A, B})) == 95
    assert reached(clocks({0: 100, 1: 95}), [A, B], silent=frozenset({A, B}), before=100) == 100, "it stays"


def test_a_partition_in_which_nothing_can_be_read_has_no_time_to_wait_for() -> None:
    assert reached(clocks({0: 100}, {0: 100, 1: 100}), [A, B]) == 100


def test_without_idleness_every_partition_is_waited_for() -> None:
    known, patient = clocks({0: 1_000_000, 1: 10}), stream(idle=None)
    idle = idle_partitions(known, [patient], [A, B, C], read=NONE, held=NONE, silent=frozenset({B}))
    assert idle == frozenset(), "nor is one that never had anything"


def test_partitions_of_tables_are_not_waited_for() -> None:
    assert (
        reached(clocks({0: 100}), [A, TopicPartition("users", 0)], read=frozenset({TopicPartition("users", 0)})) == 100
    )


def test_of_two_streams_each_has_a_lateness_of_its_own() -> None:
    known = Clocks({"clicks": {0: 100 * S}, "visits": {0: 90 * S}}, {"clicks": {0: 100_000}, "visits": {0: 90_000}})
    both, places = [stream(lateness=50), stream("visits")], [A, TopicPartition("visits", 0)]
    assert watermark(known, both, places, idle=NONE, before_us=None) == 50 * S


def test_the_longer_of_two_waits_for_one_topic_is_what_the_source_watches_for() -> None:
    assert idle_ms([stream(idle=5), stream(idle=30), stream("visits", idle=None)]) == {"clicks": 30_000}


# -- what batches tell -------------------------------------------------------------------------------------------------


def staged(place: TopicPartition, **counted: object) -> Staged:
    return Staged(Range(*place, 0, 1), Counts(**counted))  # type: ignore[arg-type]


def test_the_newest_time_of_a_partition_stays_when_older_rows_come() -> None:
    after = advance_clocks(
        clocks({0: 100}), [staged(A, event_time_max_us=50 * S, timestamp_max_ms=120_000)], [stream()], NOW_MS
    )
    assert (after.newest_us["clicks"][0], after.arrived_ms["clicks"][0]) == (100 * S, 120_000)


def test_a_producer_whose_clock_is_fast_makes_nobody_idle() -> None:
    """Logs take records from up to an hour ahead."""
    own, planned_ms = stream(), 101_000
    reports = [
        staged(A, event_time_max_us=100 * S, timestamp_max_ms=3_700_000),
        staged(B, event_time_max_us=90 * S, timestamp_max_ms=90_000),
    ]
    after = advance_clocks(Clocks(), reports, [own], planned_ms)
    assert reached(after, [A, B]) == 90
    later = advance_clocks(after, [staged(A, event_time_max_us=125 * S, timestamp_max_ms=3_725_000)], [own], 126_000)
    assert reached(later, [A, B]) == 125, "half a minute has really passed"


def test_a_producer_of_a_partition_whose_clock_is_fast_makes_no_other_idle() -> None:
    reports = {"fast": [100 * S, 3_700_000, None], "slow": [90 * S, 90_000, None]}
    after = advance_clocks(
        Clocks(), [staged(A, timestamp_max_ms=3_700_000, producers=reports)], [stream(producer="id")], 101_000
    )  # fmt: skip
    assert after.newest_us["clicks"][0] == 90 * S
    assert after.producers["clicks"][0]["fast"].arrived_ms == 101_000


def test_a_promise_is_as_good_as_a_row_from_as_far_ahead() -> None:
    own = stream(lateness=20)
    after = advance_clocks(
        clocks({0: 100}), [staged(A, no_more_before_us=150 * S, timestamp_max_ms=100_000)], [own], NOW_MS
    )
    assert watermark(after, [own], [A], idle=NONE, before_us=None) == 150 * S


def test_the_slowest_producer_of_a_partition_decides() -> None:
    own = stream(producer="id")
    first = advance_clocks(
        Clocks(),
        [staged(A, timestamp_max_ms=100_000, producers={"x": [90 * S, 90_000, None], "y": [100 * S, 100_000, None]})],
        [own],
        NOW_MS,
    )
    assert first.newest_us["clicks"][0] == 90 * S
    second = advance_clocks(
        first, [staged(A, timestamp_max_ms=110_000, producers={"y": [110 * S, 110_000, None]})], [own], NOW_MS
    )
    assert second.newest_us["clicks"][0] == 90 * S
    third = advance_clocks(
        second, [staged(A, timestamp_max_ms=121_000, producers={"y": [121 * S, 121_000, None]})], [own], NOW_MS
    )
    assert third.newest_us["clicks"][0] == 121 * S, "x has been silent for more than half a minute"
    assert list(third.producers["clicks"][0]) == ["y"]


def test_a_producer_that_promises_is_not_waited_for_until_then() -> None:
    own = stream(producer="id", lateness=5)
    reports = {"x": [None, 100_000, 95 * S], "y": [100 * S, 100_000, None]}
    after = advance_clocks(Clocks(), [staged(A, timestamp_max_ms=100_000, producers=reports)], [own], NOW_MS)
    assert watermark(after, [own], [A], idle=NONE, before_us=None) == 95 * S


def test_clocks_are_read_back_as_they_were() -> None:
    own = stream(producer="id")
    reports = advance_clocks(Clocks(), [staged(A, timestamp_max_ms=7, producers={"x": [5, 7, None]})], [own], NOW_MS)
    record = BatchRecord(3, {}, {"clicks": {0: 1}}, {}, reports, 4, frozenset({B}))
    assert BatchRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_job_that_follows_another_is_never_ahead_of_it_in_time_nor_behind_at_the_end() -> None:
    times = Times({}, watermark_us=50)
    assert times.until((40,), reached=False).watermark_us == 40
    assert times.until((60,), reached=False).watermark_us == 50
    assert times.until((60,), reached=True).watermark_us == 60
    assert times.until((None,), reached=False).watermark_us is None
    assert replace(times, watermark_us=None).until((60,), reached=False).watermark_us is None
    assert times.until((60, 45, 30), reached=False).watermark_us == 30, "all of them are still to come"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 9), max_size=4))
def test_a_job_that_follows_another_comes_to_its_last_watermarks_one_after_the_other(
    drawn: list[int], own: list[int]
) -> None:
    goal = tuple(sorted(drawn, reverse=True))
    passed: tuple[int | None, ...] = tuple(sorted((one for one in own if one <= goal[-1]), reverse=True))
    for _ in goal:
        times = Times({}, earlier=passed).until(goal, reached=True)
        assert passed[:1] <= times.passed[:1], "never back"
        passed = times.passed
        if passed[: len(goal)] == goal:
            return
    raise AssertionError(passed)


def test_where_time_stands_still_no_operator_goes_on() -> None:
    times = Times({}, earlier=(5, 3), watermark_us=9)
    assert times.passed == (9, 5, 3)
    assert times.stand_still().passed == (5, 3)


# -- for any log -------------------------------------------------------------------------------------------------------


partitions = st.lists(st.lists(st.integers(0, 300), max_size=12), min_size=1, max_size=3)
"""Seconds at which rows happened, in the order of the log."""


@given(partitions, st.integers(0, 60), st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=12))
def test_for_any_rows_and_batches_no_row_within_its_lateness_is_ever_before_the_watermark(
    found: list[list[int]], lateness: int, cuts: list[tuple[int, int, int]]
) -> None:
    """While nobody is idle a row is before it only if it is further behind its own partition than allowed."""
    own, record = stream(lateness=lateness, idle=None), BatchRecord(-1, {}, {"clicks": {}}, {})
    newest: dict[int, int] = {}
    for batch, cut in enumerate([(1, 1, 1), *cuts, (12, 12, 12)]):
        start = {number: record.end["clicks"].get(number, 0) for number in range(len(found))}
        end = {number: min(start[number] + cut[number], len(rows)) for number, rows in enumerate(found)}
        taken = {number: rows[start[number] : end[number]] for number, rows in enumerate(found)}
        times = times_of((own,), record, PlannedBatch(batch, {"clicks": start}, {"clicks": end}, 0))
        passed = NEVER if times.watermark_us is None else times.watermark_us / S

        assert passed >= (NEVER if record.watermark_us is None else record.watermark_us / S), "never back"
        assert passed <= min([second - lateness for second in newest.values()], default=NEVER), (
            "never ahead of the slowest"
        )
        within = [
            second for number, rows in taken.items() for second in rows if second >= newest.get(number, 0) - lateness
        ]
        assert all(second >= passed for second in within)

        reports = [
            staged(TopicPartition("clicks", number), event_time_max_us=max(rows) * S, timestamp_max_ms=1)
            for number, rows in taken.items()
            if rows
        ]
        newest |= {number: max(newest.get(number, 0), *rows) for number, rows in taken.items() if rows}
        after = advance_clocks(record.clocks, reports, [own], NOW_MS)
        record = BatchRecord(batch, {"clicks": start}, {"clicks": end}, {}, after, times.watermark_us, times.idle)


def test_a_batch_without_rows_knows_the_clocks_of_the_batch_before() -> None:
    own = stream(lateness=10)
    record = BatchRecord(0, {"clicks": {0: 0}}, {"clicks": {0: 5, 1: 2}}, {}, clocks({0: 100, 1: 80}))
    end = record.end
    assert times_of((own,), record, PlannedBatch(1, end, end, 0)).watermark_us == 70 * S
    silent = PlannedBatch(1, end, end, 0, BatchControl(1, frozenset({B})))
    assert times_of((own,), record, silent).watermark_us == 90 * S
