"""A log cut into batches at will, any of which may come again."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from headwater.flow.declare.topology.graph import plan
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.resolution import resolve
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings


def forget_batch(job: Path, batch: int) -> None:
    """As if a crash had come before the batch was noted as finished."""
    for name in (f"{batch}.json", f"{batch}.copy"):
        (job / "batches" / name).unlink(missing_ok=True)


class Step(NamedTuple):
    """How many rows more of each partition, and how often the batch is run before it counts."""

    rows: tuple[int, ...]
    again: int


def run_steps(
    tester: AppTester, steps: Sequence[Step], *, topic: str = "orders", done: Callable[[Step], None] = lambda step: None
) -> None:
    """Run an app with one job over one topic, batch by batch."""
    settings = RunSettings(tester.node.data, tester.node.kafka_address)
    running = RunningApp(tester.app, tester.session, settings)
    (job,) = plan(tester.app, explain)
    running._make_topics([job])
    processor = running.prepare(job, resolve(tester.session, job))
    runner, folder = BatchRunner(processor), processor.context.folder
    start = dict.fromkeys(range(len(steps[0].rows)), 0)
    try:
        for batch, step in enumerate(steps):
            end = {number: start[number] + count for number, count in enumerate(step.rows)}
            for _ in range(step.again):
                # A crash after all was written and before it was noted: the whole batch comes again.
                forget_batch(folder.path, batch)
                runner.run(PlannedBatch(batch, {topic: start}, {topic: end}, batch))
            start = end
            done(step)
    finally:
        running.stop()
