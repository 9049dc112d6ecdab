"""What is decided of a batch before it runs: offsets, watermarks, joins that skip the shuffle, hot keys to split. Pure.

All of it follows from the batch's plan and the record of the batch before it. So a batch that is run again, after a
crash or because a row was misplaced, has the same offsets, watermarks and hot keys.
"""

from dataclasses import dataclass, field, replace

from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.declare.topology.graph import Job
from headwater.flow.operators.joins.hot_keys import Hot
from headwater.flow.plan.delays import batches_behind, recent
from headwater.flow.plan.lateness import Times, times_of
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.processing_time import uses_processing_time


@dataclass(frozen=True)
class BatchContext:
    """Everything that differs from batch to batch for the operators of a job, which are the same in all of them."""

    planned: PlannedBatch
    """Offsets, the time of planning, and whether late rows are replayed."""
    times: Times
    """Watermarks."""
    co_partitioned: frozenset[str] = frozenset()
    """Joins that had no misplaced row in the batch before: they skip the shuffle."""
    hot: Hot = field(default_factory=dict)
    """Keys of joins with so many rows that all tasks work on them, by operator."""

    @property
    def batch(self) -> int:
        return self.planned.batch

    def shuffled(self) -> "BatchContext":
        """The same batch with a shuffle for every operator."""
        return replace(self, co_partitioned=frozenset())


def batch_context(
    job: Job, planned: PlannedBatch, before: BatchRecord | None, until: BatchRecord | None = None
) -> BatchContext:
    """The context of a planned batch. `before` is the record of the batch before it, None for the first one; `until`
    is the record of another job whose watermarks this job follows (a rebuild)."""
    times = times_of(job.sources, before, planned)
    if planned.control.replays_late:  # it emits nothing but corrections
        times = times.stand_still()
    elif until is not None:
        goal = recent(until.passed, watermarks_needed(job))
        times = times.until(goal, reached=planned.start == until.end)
    if uses_processing_time(job):
        times = times.processed_at(1000 * planned.time_ms, before.processed_us if before else None)
    if before is None:
        return BatchContext(planned, times)
    return BatchContext(planned, times, before.co_partitioned, before.hot)


def watermarks_needed(job: Job) -> int:
    """How many earlier watermarks the operators of a job ask for."""
    return batches_behind(one.node for one in job.outputs)
