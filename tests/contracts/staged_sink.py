"""What a job relies on from a sink whose rows tasks stage: in addition to what it relies on from every sink."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pyarrow as pa
import pytest

from headwater.flow.sinks.sink import Sink
from headwater.flow.sinks.staged import Part, StagedSink, Stager
from tests.contracts.sink import STEPS_MAX, Faults, Place, SinkContract, Stopped, mark, opened


def staged_sink(place: Place) -> StagedSink:
    sink = opened(place)
    assert isinstance(sink, StagedSink)
    return sink


def stager_of(sink: StagedSink, batch: int) -> Stager:
    stager = sink.stager(mark(batch))
    assert stager is not None
    return stager


def staged(stager: Stager, rows: pa.Table, tasks: int) -> list[Part]:
    """Rows divided among tasks, and staged by them."""
    size = -(-rows.num_rows // tasks)
    return [stager.stage(task, rows.slice(task * size, size).to_batches()) for task in range(tasks)]


class StagedSinkContract(SinkContract):
    def test_the_parts_of_a_batch_and_its_other_rows_are_there_when_it_is_published(self, place: Place) -> None:
        sink = staged_sink(place)
        parts = staged(stager_of(sink, 0), place.batch(range(10)), tasks=3)
        assert place.numbers() == []
        assert sum(part.rows for part in parts) == 10
        assert sink.publish(mark(0), [Part.from_json(one.to_json()) for one in parts], place.batch([10, 11]))
        assert place.numbers() == list(range(12))
        assert sink.committed(mark(0).job) == 0

    def test_many_rows_are_staged_in_several_pieces(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.flow.sinks.staged.CHUNK_ROWS", 1_000)
        sink, rows = staged_sink(place), place.batch(range(20_000))
        part = stager_of(sink, 0).stage(0, rows.to_batches(max_chunksize=700))
        sink.publish(mark(0), [part], place.batch([]))
        assert place.numbers() == list(range(20_000))

    def test_what_another_attempt_has_staged_is_not_published(self, place: Place) -> None:
        """One that failed half way, and one that was overtaken: before the one that counts, and after it."""
        sink, rows = staged_sink(place), place.batch(range(10))
        stager = stager_of(sink, 0)
        staged(stager, rows.slice(0, 3), tasks=2)
        parts = staged(stager, rows, tasks=2)
        staged(stager, rows, tasks=2)
        sink.publish(mark(0), parts, place.batch([]))
        assert place.numbers() == list(range(10))
        # What they left is removed, and what comes late is not in the way of the next batch.
        staged(stager, rows, tasks=2)
        sink.publish(mark(1), staged(stager_of(sink, 1), place.batch([10, 11]), tasks=2), place.batch([12]))
        assert place.numbers() == list(range(13))

    def test_two_attempts_of_a_task_at_the_same_time_do_not_meet(self, place: Place) -> None:
        """As speculative execution has them: one of the two is published, whichever ended first."""
        sink, rows = staged_sink(place), place.batch(range(1_000))
        stager, together = stager_of(sink, 0), Barrier(2)

        def step_by_step() -> Iterator[pa.RecordBatch]:
            for batch in rows.to_batches(max_chunksize=100):
                together.wait(timeout=60)
                yield batch

        with ThreadPoolExecutor(2) as attempts:
            parts = [one.result() for one in [attempts.submit(stager.stage, 0, step_by_step()) for _ in range(2)]]
        assert [part.rows for part in parts] == [1_000, 1_000]
        sink.publish(mark(0), parts[:1], place.batch([]))
        assert place.numbers() == list(range(1_000))
        sink.publish(mark(1), staged(stager_of(sink, 1), place.batch([1_000]), tasks=1), place.batch([]))
        assert place.numbers() == list(range(1_001)), "the other attempt is in nobody's way"

    def test_a_batch_that_is_in_is_only_counted(self, place: Place) -> None:
        sink, rows = staged_sink(place), place.batch(range(10))
        sink.publish(mark(0), staged(stager_of(sink, 0), rows, tasks=2), place.batch([]))
        parts = staged(stager_of(sink, 0), rows, tasks=3)
        assert [sum(part.rows for part in parts), sink.publish(mark(0), parts, rows)] == [10, False]
        assert place.numbers() == list(range(10))

    @pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
    def test_a_stop_while_publishing_neither_loses_nor_doubles_a_row_of_other_tasks(
        self, place: Place, after: bool
    ) -> None:
        """Batch n stops at its n-th step and comes again, with the same rows in other tasks."""
        opened(place)
        for step in count(1):
            rows = place.batch(range(6 * step, 6 * step + 6))
            stopped = self._stops(place.open(Faults(step, after=after)), step, rows, tasks=1 + step % 3)
            sink, tasks = staged_sink(place), 1 + (step + 1) % 3
            if step % 2:
                sink.publish(mark(step), staged(stager_of(sink, step), rows, tasks), place.batch([]))
            else:
                sink.write(mark(step), rows)
            assert place.numbers() == list(range(6, 6 * step + 6))
            if not stopped:
                break
            assert step < STEPS_MAX
        assert step > 2, "nothing was stopped"

    def _stops(self, sink: Sink, batch: int, rows: pa.Table, tasks: int) -> bool:
        assert isinstance(sink, StagedSink)
        try:
            parts = staged(stager_of(sink, batch), rows.slice(0, 4), tasks)
            sink.publish(mark(batch), parts, rows.slice(4))
        except Stopped:
            return True
        return False
