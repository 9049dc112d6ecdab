"""What a job relies on from a sink that takes each batch once. Subclass, give a `place` fixture, done.

A place is where rows end up. It knows how to open a sink on itself, as a new process would, how to make a batch of
numbered rows, and which numbers are in it.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Protocol

import pyarrow as pa
import pytest

from headwater.errors import JobRefused
from headwater.flow.sinks.sink import Mark, Sink

JOB = "shop/main/1"
STEPS_MAX = 60


class Stopped(Exception):
    """The process ends here, so to speak."""


class Faults:
    """Stops at the n-th of the steps that are counted: before it is taken, or just after."""

    def __init__(self, stop_at: int | None = None, *, after: bool = False) -> None:
        self._stop_at, self._after = stop_at, after
        self._steps = 0

    def before(self) -> None:
        self._steps += 1
        if self._steps == self._stop_at and not self._after:
            raise Stopped

    def behind(self) -> None:
        if self._steps == self._stop_at and self._after:
            raise Stopped


class Place(Protocol):
    schema: pa.Schema
    key: Sequence[str]

    def open(self, faults: Faults | None = None) -> Sink: ...

    def batch(self, numbers: Iterable[int]) -> pa.Table: ...

    def numbers(self) -> list[int]:
        """Of all rows that are there, sorted."""


def mark(batch: int, job: str = JOB) -> Mark:
    return Mark(job, batch, {"orders": {0: batch + 1}})


def opened(place: Place, faults: Faults | None = None) -> Sink:
    sink = place.open(faults)
    sink.prepare(place.schema, place.key)
    return sink


class SinkContract:
    def test_the_rows_of_a_batch_are_there_when_it_is_written(self, place: Place) -> None:
        assert opened(place).write(mark(0), place.batch([1, 2, 3]))
        assert place.numbers() == [1, 2, 3]

    def test_it_says_that_it_takes_each_batch_once(self, place: Place) -> None:
        assert place.open().exactly_once

    def test_a_batch_that_comes_again_is_not_taken_again(self, place: Place) -> None:
        sink = opened(place)
        assert sink.write(mark(0), place.batch([1, 2]))
        assert not sink.write(mark(0), place.batch([1, 2]))
        assert not opened(place).write(mark(0), place.batch([1, 2]))
        assert place.numbers() == [1, 2]

    def test_batches_come_in_order_and_all_stay(self, place: Place) -> None:
        sink = opened(place)
        assert sink.committed(JOB) is None
        for batch in range(8):
            assert sink.write(mark(batch), place.batch([batch]))
            assert sink.committed(JOB) == batch
        assert opened(place).committed(JOB) == 7
        assert place.numbers() == list(range(8))

    def test_a_batch_older_than_the_mark_is_skipped(self, place: Place) -> None:
        sink = opened(place)
        for batch in (3, 4):
            sink.write(mark(batch), place.batch([batch]))
        assert not sink.write(mark(3), place.batch([3]))
        assert not sink.write(mark(0), place.batch([0]))
        assert place.numbers() == [3, 4]

    def test_a_batch_without_rows_moves_the_mark(self, place: Place) -> None:
        sink = opened(place)
        assert sink.write(mark(0), place.batch([]))
        assert sink.committed(JOB) == 0
        assert not sink.write(mark(0), place.batch([]))
        assert place.numbers() == []

    def test_a_second_job_is_refused(self, place: Place) -> None:
        opened(place).write(mark(0), place.batch([1]))
        second = opened(place)
        assert second.committed("shop/other/2") is None
        with pytest.raises(JobRefused, match="shop/main/1"):
            second.write(mark(1, job="shop/other/2"), place.batch([2]))
        assert place.numbers() == [1]

    def test_fifty_thousand_rows_go_in_at_once(self, place: Place) -> None:
        assert opened(place).write(mark(0), place.batch(range(50_000)))
        assert place.numbers() == list(range(50_000))

    @pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
    def test_a_stop_at_any_step_neither_loses_nor_doubles_a_row(self, place: Place, after: bool) -> None:
        """Batch n stops at its n-th step and comes again, until one takes fewer steps than that."""
        opened(place)
        for step in count(1):
            rows = place.batch([2 * step, 2 * step + 1])
            stopped = stops(place.open(Faults(step, after=after)), mark(step), rows)
            opened(place).write(mark(step), rows)
            assert place.numbers() == list(range(2, 2 * step + 2))
            if not stopped:
                break
            assert step < STEPS_MAX
        assert step > 2, "nothing was stopped"


def stops(sink: Sink, mark: Mark, rows: pa.Table) -> bool:
    try:
        sink.write(mark, rows)
    except Stopped:
        return True
    return False
