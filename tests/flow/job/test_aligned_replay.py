"""A backlog is read in the order of event time: small batches give what one batch gives, and nothing is late for them.

Records may have been appended at any time: all today, one partition after the other, for events of a whole year.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.plan.lateness import times_of
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.watermarks import advance_clocks
from headwater.flow.run.app_tester import AppTester
from headwater.flow.source.batch_plan.admission import Guess, plan
from headwater.flow.source.batch_plan.batch_control import NO_CONTROL, WakeupRequest, next_control
from headwater.flow.source.batch_plan.event_time_index import EventTimeIndex
from headwater.record import Record, TopicPartition
from headwater.testing import running_node
from tests.flow.job.test_watermarks import NEVER, NONE, S, staged, stream
from tests.flow.source.test_event_time_index import Partition, in_order

Tester = Callable[[hw.App], AppTester]
TODAY_MS = 1_770_000_000_000
YEAR = datetime(2025, 1, 1, tzinfo=UTC)


def refuse() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def tester(tmp_path: Path) -> Iterator[Tester]:
    with ExitStack() as ending:
        node = ending.enter_context(running_node(tmp_path / "data"))
        yield lambda app: AppTester(app, node, refuse)


class Click(NamedTuple):
    minute: int
    """Of the year."""
    page: str
    appended_ms: int

    @property
    def record(self) -> Record:
        at = YEAR + timedelta(minutes=self.minute)
        return Record(json.dumps({"page": self.page, "at": at.isoformat()}).encode(), timestamp_ms=self.appended_ms)


def append(tester: AppTester, topic: str, contents: list[list[Click]]) -> None:
    tester.node.log.create_topic(topic, partitions=len(contents))
    for number, clicks in enumerate(contents):
        for first in range(0, len(clicks), 7):  # record batches of seven
            records = [click.record for click in clicks[first : first + 7]]
            tester.node.log.append(topic, records, partition=number)


# -- end to end --------------------------------------------------------------------------------------------------------


def copying_app() -> hw.App:
    app = hw.App("copies")
    clicks = app.stream("clicks", "page string, at timestamp", time="at")

    @app.topic("copied")
    def copied() -> Any:
        return clicks.select("page", "at")

    return app


def test_partitions_a_year_apart_are_read_in_the_order_of_event_time_although_their_records_are_of_one_moment(
    tester: Tester,
) -> None:
    copies = tester(copying_app())
    early = [Click(minute, "early", TODAY_MS) for minute in range(60)]
    late = [Click(500_000 + minute, "late", TODAY_MS) for minute in range(60)]
    append(copies, "clicks", [late, early])
    copies.run(rows_per_batch=10)
    assert [row["page"] for row in copies.values("copied")] == ["early"] * 60 + ["late"] * 60


def counting_app() -> hw.App:
    app = hw.App("counts", shards=2)
    clicks = app.stream("clicks", "page string, at timestamp", time="at", lateness="5 minutes")

    @app.view(key="window")
    def hourly() -> Any:
        return clicks.window(hw.tumbling("1 hour")).count()

    return app


def test_a_year_that_is_appended_partition_by_partition_has_no_late_row(tester: Tester) -> None:
    counts = tester(counting_app())
    minutes = range(0, 6_000, 60)
    append(counts, "clicks", [[Click(one, "a", TODAY_MS + 60_000 * n) for one in minutes] for n in range(3)])
    accounts = counts.run(rows_per_batch=20)
    assert sum(one.late for one in accounts) == 0
    assert [row["count"] for row in counts.rows("hourly")] == [3] * 100


def test_a_rebuild_is_aligned_as_well(tester: Tester) -> None:
    counts = tester(counting_app())
    minutes = range(0, 6_000, 60)
    append(counts, "clicks", [[Click(one, "a", TODAY_MS + 60_000 * n) for one in minutes] for n in range(3)])
    counts.run()
    before = counts.rows("hourly")
    counts.run(rows_per_batch=20, rebuild=["hourly"])
    assert counts.rows("hourly") == before
    assert counts.account("hourly").late == 0


def test_a_table_is_read_as_far_as_it_had_come_when_the_events_were_written(tester: Tester) -> None:
    """Events of last year that were appended today find what a table holds since this morning."""
    app = hw.App("named", shards=2)
    clicks = app.stream("clicks", "page string, at timestamp", time="at")
    pages = app.table("pages", "page string, title string", key="page")

    @app.topic("titled")
    def titled() -> Any:
        return clicks.join(pages, on="page", how="left").select("page", "title")

    named = tester(app)
    rows = [
        Record(json.dumps({"page": f"p{n}", "title": "T"}).encode(), f"p{n}".encode(), timestamp_ms=TODAY_MS)
        for n in range(9)
    ]
    named.node.log.create_topic("pages", partitions=1)
    named.node.log.append("pages", rows)
    append(named, "clicks", [[Click(n, f"p{n % 9}", TODAY_MS + 1000 + n) for n in range(60)]])
    named.run(rows_per_batch=20)
    assert [row["title"] for row in named.values("titled")] == ["T"] * 60


# -- any rows, any batches ---------------------------------------------------------------------------------------------

LATENESS = {"clicks": 0, "views": 30}
"""In minutes; the streams of an app may have different ones."""


@st.composite
def backlogs(draw: st.DrawFn) -> dict[str, list[list[Click]]]:
    """Any assignment of rows to partitions, each in order within the lateness; records of any time."""
    found = {}
    for topic, lateness in LATENESS.items():
        contents = []
        for _ in range(draw(st.integers(1, 3))):
            minutes = draw(st.lists(st.integers(0, 400) | st.integers(0, 500_000), max_size=25))
            jitter = draw(st.lists(st.integers(0, 30), min_size=len(minutes), max_size=len(minutes)))
            appended = draw(st.sampled_from([0, 60_000, 7_200_000, 10**10]))
            step = draw(st.sampled_from([0, 1, 40_000]))
            contents.append(
                [
                    Click(minute, f"p{minute % 3}", TODAY_MS - appended + step * number)
                    for number, minute in enumerate(in_order(minutes, lateness, jitter))
                ]
            )
        found[topic] = contents
    return found


def joined_app() -> hw.App:
    app = hw.App("joined", shards=2)
    clicks, views = (
        app.stream(topic, "page string, at timestamp", time="at", lateness=f"{minutes} minutes", idle="1 second")
        for topic, minutes in LATENESS.items()
    )

    @app.view(key=("page", "window"))
    def hourly() -> Any:
        return clicks.window(hw.tumbling("1 hour")).by("page").agg("count(*) as clicks", emit="final")

    @app.view(key=("page", "window"))
    def sessions() -> Any:
        return views.window(hw.session("20 minutes")).by("page").agg("count(*) as views")

    @app.topic("pairs")
    def pairs() -> Any:
        made = clicks.join(views, on="page", within="1 hour", how="left", prefix="view_")
        return made.select("page", "at", "view_at")

    return app


def outcome(backlog: dict[str, list[list[Click]]], rows_per_batch: int) -> tuple[Any, int]:
    with TemporaryDirectory() as data, running_node(Path(data)) as node:
        tester = AppTester(joined_app(), node, refuse)
        for topic, contents in backlog.items():
            append(tester, topic, contents)
        accounts = tester.run(rows_per_batch=rows_per_batch)
        accounts += tester.flush()
        pairs = sorted(json.dumps(row, sort_keys=True) for row in tester.values("pairs"))
        return (tester.rows("hourly"), tester.rows("sessions"), pairs), sum(one.late for one in accounts)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=12)
@given(backlogs(), st.integers(3, 40))
def test_windows_and_joins_of_a_replay_in_small_batches_are_those_of_one_batch(
    backlog: dict[str, list[list[Click]]], rows_per_batch: int
) -> None:
    whole, late = outcome(backlog, 1_000_000)
    assert late == 0
    assert outcome(backlog, rows_per_batch) == (whole, 0)


# -- the same without a log --------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(backlogs(), st.integers(1, 30), st.integers(1, 9))
def test_no_row_is_before_the_watermark_of_its_batch(
    backlog: dict[str, list[list[Click]]], limit: int, batch_rows: int
) -> None:
    streams = [stream(topic, lateness=60 * minutes, idle=1) for topic, minutes in LATENESS.items()]
    rows = {
        TopicPartition(topic, number): clicks
        for topic, contents in backlog.items()
        for number, clicks in enumerate(contents)
    }
    indexes = {
        place: EventTimeIndex(
            Partition([(at, 60_000 * click.minute) for at, click in enumerate(clicks)], batch_rows).read
        )
        for place, clicks in rows.items()
    }
    ends = {place: len(clicks) for place, clicks in rows.items()}
    position, guess, control = dict.fromkeys(ends, 0), None, NO_CONTROL
    record = BatchRecord(-1, {}, {topic: {} for topic in LATENESS}, {})
    while position != ends:

        def at_time(time_ms: int, start: dict[TopicPartition, int] = position) -> dict[TopicPartition, int]:
            return {
                place: indexes[place]
                .first_at(place, time_ms, start[place], min(end, start[place] + limit + 1), end)
                .offset
                for place, end in ends.items()
            }

        for index in indexes.values():
            index.begin_plan(position)
        made = plan(position, ends, limit, at_time, guess=guess)
        moved = frozenset(place for place in ends if made.ends[place] > position[place])
        control = next_control(control, WakeupRequest(), moved=moved, unread=NONE, silent=NONE, left=made.left)
        start, end = _by_topic(position), _by_topic(made.ends)
        times = times_of(tuple(streams), record, PlannedBatch(record.batch + 1, start, end, TODAY_MS, control))
        passed_us = NEVER * S if times.watermark_us is None else times.watermark_us
        taken = {place: rows[place][position[place] : made.ends[place]] for place in moved}
        assert all(60 * S * click.minute >= passed_us for clicks in taken.values() for click in clicks)
        reports = [
            staged(
                place,
                event_time_max_us=60 * S * max(click.minute for click in clicks),
                timestamp_max_ms=max(click.appended_ms for click in clicks),
            )
            for place, clicks in taken.items()
        ]
        after = advance_clocks(record.clocks, reports, streams, TODAY_MS)
        record = BatchRecord(record.batch + 1, start, end, {}, after, times.watermark_us, times.idle)
        if made.time_ms is not None:
            guess = Guess(made.time_ms, 1 if guess is None else max(1, made.time_ms - guess.time_ms))
        position = made.ends


def _by_topic(offsets: dict[TopicPartition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[place.partition] = offset
    return found
