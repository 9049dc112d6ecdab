"""Take back what came too late for a job that stands still: plan the batch that does it, and run it.

    planned.json       batch 13 reads nothing, and `admits`: from here on the batch is one that takes back
    batches/13.json    written when it is finished

A crash before the first leaves nothing; after it, the next attempt, or the next run of the job, runs the batch to its
end.
"""

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from headwater.clock import Clock
from headwater.errors import JobRefused
from headwater.flow.commit.batch_processor import Processor
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import Node
from headwater.flow.late.late_replay import Admitting, why_not
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.planned_batches import PlannedBatch


@dataclass(frozen=True)
class TakenBack:
    """By the names of operators: how many rows, and how many stay late and why."""

    rows: dict[str, int]
    left: dict[str, tuple[int, str]]
    batch: int | None = None


@dataclass(frozen=True)
class Taking:
    session: SparkSession
    job: Job
    folder: JobFolder
    processor: Processor
    clock: Clock

    def run(self) -> TakenBack:
        """Idempotent: what is taken back is late no more."""
        last = self.folder.last_finished()
        if last is None:
            return TakenBack({}, {})
        batch, planned = last.batch + 1, self.folder.planned_or_none(last.batch + 1)
        if planned is not None and not self.folder.planned_tick(batch).admits:
            raise JobRefused(
                f"batch {batch} of job {self.job.name} was begun and is not finished",
                "Run the app once with --once, then take the late rows back.",
            )
        found = self._admitting.outstanding(last.batch)
        rows = {node: count for node, count in found.items() if why_not(node) is None}
        left = {self._name(node): (count, why) for node, count in found.items() if (why := why_not(node))}
        if not rows and planned is None:
            return TakenBack({}, left)
        tick = replace(self.folder.planned_tick(last.batch), admits=True)
        time_ms = self.clock.now_ms() if planned is None else self.folder.planned_ms(batch)
        runner = BatchRunner(self.session, self.job, self.folder, self.processor, self._admitting.where)
        runner.run(PlannedBatch(batch, last.end, last.end, time_ms, tick))
        return TakenBack({self._name(node): count for node, count in rows.items()}, left, batch)

    @property
    def _admitting(self) -> Admitting:
        found = self.processor.admitting
        assert found is not None
        return found

    def _name(self, node: Node) -> str:
        return self.job.operators[node]
