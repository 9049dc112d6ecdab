"""Which batches without rows a job needs after a batch: time alone ends windows, and emits unmatched events."""

from dataclasses import replace

from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.declare.topology.graph import Job
from headwater.flow.operate.job_operators import Operators
from headwater.flow.plan.batch_context import BatchContext, batch_context, watermarks_needed
from headwater.flow.plan.delays import recent
from headwater.flow.plan.watermarks import FOREVER_US, idle_ms, streams_of
from headwater.flow.source.batch_plan.batch_control import BatchControl, WakeupRequest


def wakeup_after(
    job: Job, operators: Operators, context: BatchContext, record: BatchRecord, until: BatchRecord | None
) -> WakeupRequest:
    """The request that a batch leaves. `record` is that of the batch whose context is given."""
    control = BatchControl(silent=context.planned.control.silent)
    empty = replace(context.planned, batch=record.batch + 1, start=record.end, control=control)
    then_us = batch_context(job, empty, record, until).times.watermark_us
    # Operators downstream of joins reach the watermark as many batches later as they are behind.
    passed = recent(record.passed, watermarks_needed(job))
    then, forever = ((us,) * len(passed) for us in (then_us, FOREVER_US))
    more = then != passed and operators.pending(record.batch, passed, then)
    watched = idle_ms(streams_of(job.sources)) if operators.pending(record.batch, passed, forever) else {}
    if more:
        return WakeupRequest(record.batch + 1, watched)
    wakes_us = None if record.processed_us is None else operators.wakes_us(record.batch, record.processed_us)
    if wakes_us is None:
        return WakeupRequest(0, watched)
    return WakeupRequest(record.batch + 1, watched, at_ms=-(-wakes_us // 1000))
