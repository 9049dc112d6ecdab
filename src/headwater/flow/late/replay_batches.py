"""Late replay for a job that does not run: plan the batch that replays its late rows, and run it.

    planned.json       batch 13 reads nothing, and replays late rows
    batches/13.json    written when it is finished

A crash before the first leaves nothing; after it, the next attempt, or the next run of the job, runs the batch to its
end.
"""

from dataclasses import dataclass, replace

from headwater.errors import JobRefused
from headwater.flow.commit.batch_processor import Processor
from headwater.flow.late.late_replay import why_not
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.planned_batches import PlannedBatch


@dataclass(frozen=True)
class ReplayedLate:
    """By the names of operators: how many rows were replayed, and how many stay late and why."""

    rows: dict[str, int]
    left: dict[str, tuple[int, str]]
    batch: int | None = None


def replay_late(processor: Processor) -> ReplayedLate:
    """Idempotent: what was replayed is late no more."""
    job, folder = processor.context.job, processor.context.folder
    last = folder.last_finished()
    if last is None:
        return ReplayedLate({}, {})
    batch, planned = last.batch + 1, folder.planned_or_none(last.batch + 1)
    if planned is not None and not planned.control.replays_late:
        raise JobRefused(
            f"batch {batch} of job {job.name} was begun and is not finished",
            "Run the app once with --once, then replay the late rows.",
        )
    found, names = processor.late_replay.outstanding(last.batch), job.operators
    rows = {names[node]: count for node, count in found.items() if why_not(node) is None}
    left = {names[node]: (count, why) for node, count in found.items() if (why := why_not(node))}
    if not rows and planned is None:
        return ReplayedLate({}, left)
    if planned is None:
        before = folder.planned(last.batch)
        control, now_ms = replace(before.control, replays_late=True), processor.environment.clock.now_ms()
        planned = PlannedBatch(batch, last.end, last.end, now_ms, control, before.terms)
    BatchRunner(processor).run(planned)
    return ReplayedLate(rows, left, batch)
