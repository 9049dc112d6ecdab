"""What is decided of a batch follows from its plan and the batch before it, and from nothing else."""

from dataclasses import replace

import pytest

import headwater as hw
from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.declare.topology.graph import Job, plan
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.plan.batch_context import batch_context
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.watermarks import Clocks
from headwater.flow.source.batch_plan.batch_control import BatchControl

S = 1_000_000
START, END = {"readings": {0: 5}}, {"readings": {0: 9}}
PLANNED = PlannedBatch(4, START, END, time_ms=700_000)
HOT = {"joined": (HotKey(7, 0, 100_000, "ada"),)}
BEFORE = BatchRecord(
    3, {"readings": {0: 0}}, START, {}, Clocks({"readings": {0: 100 * S}}, {"readings": {0: 100_000}}),
    watermark_us=80 * S, earlier_us=(60 * S,), processed_us=710 * S, hot=HOT, co_partitioned=frozenset({"joined"}),
)  # fmt: skip


def job(*, time: str = "event") -> Job:
    app = hw.App("plant")
    readings = app.stream("readings", "sensor string, at timestamp", time="at", lateness="10 seconds")
    windows = readings.window(hw.tumbling("1 minute"), time=time)
    app.view(key=("sensor", "window_start", "window_end"), name="minutes")(lambda: windows.by("sensor").count())
    (made,) = plan(app)
    return made


def test_a_batch_has_the_watermark_and_the_hot_keys_that_the_batch_before_it_leaves() -> None:
    context = batch_context(job(), PLANNED, BEFORE)
    assert (context.batch, context.times.watermark_us, context.times.earlier) == (4, 90 * S, (80 * S, 60 * S))
    assert context.hot == HOT
    assert context.co_partitioned == {"joined"}


def test_the_first_batch_has_no_watermark_and_shuffles_everything() -> None:
    context = batch_context(job(), replace(PLANNED, batch=0), None)
    assert (context.times.watermark_us, context.hot, context.co_partitioned) == (None, {}, frozenset())


def test_a_batch_that_is_run_again_with_a_shuffle_is_the_same_but_for_that() -> None:
    context = batch_context(job(), PLANNED, BEFORE)
    again = context.shuffled()
    assert again.co_partitioned == frozenset()
    assert replace(again, co_partitioned=context.co_partitioned) == context


def test_time_does_not_advance_while_late_rows_are_replayed() -> None:
    replay = replace(PLANNED, end=START, control=BatchControl(replays_late=True))
    assert batch_context(job(), replay, BEFORE).times.passed == BEFORE.passed


@pytest.mark.parametrize("end, watermark_us", [(END, 85 * S), (START, 85 * S)])
def test_a_rebuild_is_never_ahead_of_the_job_it_follows(end: dict[str, dict[int, int]], watermark_us: int) -> None:
    until = replace(BEFORE, end=end, watermark_us=85 * S)
    assert batch_context(job(), PLANNED, BEFORE, until).times.watermark_us == watermark_us


def test_rows_are_not_processed_before_those_of_the_batch_before() -> None:
    times = batch_context(job(time="processing"), PLANNED, BEFORE).times
    assert (times.processed_before_us, times.processed_us) == (710 * S, 710 * S), "the clock was put back"
    later = batch_context(job(time="processing"), replace(PLANNED, time_ms=720_000), BEFORE).times
    assert later.processed_us == 720 * S
    assert batch_context(job(), PLANNED, BEFORE).times.processed_us is None
