"""Where a time is in a partition, found with few probes, whatever order its rows are in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.source.batch_plan.event_time_index import READS_MAX, EventTimeIndex, Probe, probe_of
from headwater.record import TopicPartition

PLACE = TopicPartition("clicks", 0)
Row = tuple[int, int | None]
"""Offset and event time; None where nothing decodes."""


class Partition:
    """Rows in record batches; compaction may have left gaps between offsets. Counts what is read."""

    def __init__(self, rows: list[Row], batch_rows: int) -> None:
        self.rows, self.reads = rows, 0
        self.end = rows[-1][0] + 1 if rows else 0
        self._batches = [rows[first : first + batch_rows] for first in range(0, len(rows), batch_rows)]

    def read(self, place: TopicPartition, offset: int, end: int) -> Probe:
        self.reads += 1
        for batch in self._batches:
            first, last = batch[0][0], batch[-1][0]
            if last >= offset and first < end:
                timed = [(at, time) for at, time in batch if time is not None and at < end]
                offsets, times = (np.array([row[column] for row in timed], dtype=np.int64) for column in (0, 1))
                return probe_of(min(first, offset), min(last + 1, end), offsets, times, 7)
        nothing = np.empty(0, dtype=np.int64)
        return probe_of(offset, end, nothing, nothing, -1)


def in_order(times: list[int], lateness: int, jitter: list[int]) -> list[int]:
    """Times that are never further behind the newest before them than the lateness."""
    return [time - behind % (lateness + 1) for time, behind in zip(sorted(times), jitter, strict=True)]


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Row], int]:
    lateness = draw(st.integers(0, 20))
    times = draw(st.lists(st.integers(-50, 300), max_size=60))
    jitter = draw(st.lists(st.integers(0, 20), min_size=len(times), max_size=len(times)))
    steps = draw(st.lists(st.integers(1, 3) | st.just(1), min_size=len(times), max_size=len(times)))
    offsets = np.cumsum([0, *steps])[:-1].tolist() if times else []
    broken = draw(st.sets(st.integers(0, 60), max_size=5))
    ordered = in_order(times, lateness, jitter)
    return [
        (at, None if row in broken else time) for row, (at, time) in enumerate(zip(offsets, ordered, strict=True))
    ], (lateness)


@given(partitions(), st.integers(1, 9), st.lists(st.integers(-60, 310), min_size=1, max_size=12), st.integers(0, 70))
def test_what_is_before_the_answer_is_older_and_what_follows_is_not_but_for_the_lateness(
    made: tuple[list[Row], int], batch_rows: int, times: list[int], start: int
) -> None:
    rows, lateness = made
    partition = Partition(rows, batch_rows)
    index = EventTimeIndex(partition.read)
    start = min(start, partition.end)
    for time in times:
        found = index.first_at(PLACE, time, start, partition.end, partition.end)
        assert start <= found.offset <= partition.end
        before = [own for at, own in rows if own is not None and start <= at < found.offset]
        following = [own for at, own in rows if own is not None and at >= found.offset]
        assert all(own < time + lateness for own in before)
        assert all(own >= time - lateness for own in following)


@given(st.integers(0, 9_999), st.integers(1, 50))
def test_it_takes_few_probes_where_rows_come_evenly_and_none_for_what_is_known(time: int, batch_rows: int) -> None:
    partition = Partition([(row, row) for row in range(10_000)], batch_rows)
    index = EventTimeIndex(partition.read)
    assert index.first_at(PLACE, time, 0, 10_000, 10_000).offset == time
    assert partition.reads <= 6
    reads = partition.reads
    index.begin_plan({PLACE: 0})
    assert index.first_at(PLACE, time, 0, 10_000, 10_000).offset == time
    assert partition.reads == reads


def test_a_time_line_is_read_at_three_places_and_learns_from_what_else_was_read() -> None:
    partition = Partition([(row, row if row < 10_000 else 10**9) for row in range(10_001)], 50)
    index = EventTimeIndex(partition.read)
    index.begin_plan({PLACE: 0})
    line = index.time_line(PLACE, 0, 10_001, 10_001)
    assert partition.reads == 3
    assert [line.offset(time) for time in (-5, 0, 2_000, 10**10)] == [0, 0, 2_000, 10_001]
    assert line.offset(7_000) < 5_060, "the last row is far away"
    index.first_at(PLACE, 7_000, 0, 10_001, 10_001)
    assert abs(index.time_line(PLACE, 0, 10_001, 10_001).offset(7_000) - 7_000) < 50


@given(st.integers(0, 2**40))
def test_the_number_of_probes_of_a_plan_is_bounded_however_uneven_rows_are(time: int) -> None:
    partition = Partition([(row, 2 ** (row // 100)) for row in range(4_000)], 1)
    index = EventTimeIndex(partition.read)
    for one in (time, time // 3, time // 70, 5):
        found = index.first_at(PLACE, one, 0, 4_000, 4_000)
        assert found.offset == 4_000 or 2 ** (found.offset // 100) >= one, "a row that is not older"
    assert partition.reads <= READS_MAX + 1


def test_nothing_is_looked_for_beyond_what_fits_into_a_batch() -> None:
    partition = Partition([(row, row) for row in range(10_000)], 10)
    index = EventTimeIndex(partition.read)
    assert index.first_at(PLACE, 9_000, 0, 101, 10_000).offset == 101
    assert partition.reads <= 2


def test_a_stretch_that_does_not_decode_is_read_with_what_is_before_it() -> None:
    rows: list[Row] = [(row, None if 100 <= row < 200 else row) for row in range(300)]
    index = EventTimeIndex(Partition(rows, 10).read)
    assert index.first_at(PLACE, 99, 0, 300, 300).offset in (99, 200)
    assert index.first_at(PLACE, 250, 0, 300, 300).offset == 250


def test_probes_that_were_consumed_are_dropped() -> None:
    partition = Partition([(row, row) for row in range(1_000)], 10)
    index = EventTimeIndex(partition.read)
    index.first_at(PLACE, 500, 0, 1_000, 1_000)
    index.begin_plan({PLACE: 1_000})
    reads = partition.reads
    index.begin_plan({PLACE: 0})
    index.first_at(PLACE, 500, 0, 1_000, 1_000)
    assert partition.reads > reads


def test_it_says_when_the_rows_before_the_answer_were_written() -> None:
    partition = Partition([(row, row) for row in range(100)], 10)
    index = EventTimeIndex(partition.read)
    assert index.first_at(PLACE, 55, 0, 100, 100).arrived_ms == 7
    assert index.first_at(PLACE, 0, 0, 100, 100).arrived_ms is None


def test_the_plans_of_a_backlog_read_no_more_than_three_probes_each() -> None:
    partition = Partition([(row, row) for row in range(10_000)], 100)
    index = EventTimeIndex(partition.read)
    plans = range(0, 9_000, 900)
    for start in plans:
        index.begin_plan({PLACE: start})
        index.time_line(PLACE, start, 10_000, 10_000)
        assert index.first_at(PLACE, start + 900, start, 10_000, 10_000).offset == start + 900
    assert partition.reads <= 3 * len(plans)
