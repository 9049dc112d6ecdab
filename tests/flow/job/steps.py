"""A log cut into batches at will, any of which may come again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headwater.flow.commit.batch_processor import Processor
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import Job, plan
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.resolution import resolve
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from tests.flow.engines import Columns, session_of


def forget_batch(job: Path, batch: int) -> None:
    """As if a crash had come before the batch was noted as finished."""
    for name in (f"{batch}.json", f"{batch}.copy"):
        (job / "batches" / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class SteppedJob:
    """The one job of an app, ready for any batch."""

    job: Job
    folder: JobFolder
    processor: Processor
    runner: BatchRunner
    columns: Columns

    def run(self, batch: PlannedBatch, *, times: int = 1) -> None:
        """Each time but the last there is a crash after all was written and before it was noted."""
        for _ in range(times):
            forget_batch(self.folder.path, batch.batch)
            with self.columns():
                self.runner.run(batch)


@contextmanager
def stepped_job(tester: AppTester) -> Iterator[SteppedJob]:
    """In this process, unless the tester was given Spark."""
    assert tester._start is None or tester.needs_spark == {}, "such a test is marked on_spark"
    session, columns = session_of(tester._start or tester.session)
    settings = RunSettings(tester.node.data, tester.node.kafka_address)
    running = RunningApp(tester.app, session, settings)
    try:
        with columns():
            (job,) = plan(tester.app, explain)
            running._make_topics([job])
            processor = running.prepare(job, resolve(session, job))
        yield SteppedJob(job, processor.context.folder, processor, BatchRunner(processor), columns)
    finally:
        running.stop()


class Step(NamedTuple):
    """How many rows more of each partition, and how often the batch is run before it counts."""

    rows: tuple[int, ...]
    again: int


def run_steps(
    tester: AppTester, steps: Sequence[Step], *, topic: str = "orders", done: Callable[[Step], None] = lambda step: None
) -> None:
    """Run an app with one job over one topic, batch by batch."""
    start = dict.fromkeys(range(len(steps[0].rows)), 0)
    with stepped_job(tester) as job:
        for batch, step in enumerate(steps):
            end = {number: start[number] + count for number, count in enumerate(step.rows)}
            job.run(PlannedBatch(batch, {topic: start}, {topic: end}, batch), times=step.again)
            start = end
            done(step)
