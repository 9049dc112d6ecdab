"""A log cut into batches at will, any of which may come again."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.flow.declare.graph import plan
from headwater.flow.job.explaining import explain
from headwater.flow.job.resolving import resolve
from headwater.flow.job.running import RunningApp, RunSettings
from headwater.flow.job.stepping import Stepper
from headwater.flow.job.testing import AppTester


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
    folder, processor = running.prepare(job, resolve(tester.session, job))
    stepper = Stepper(tester.session, job, folder, processor, settings.where())
    start = dict.fromkeys(range(len(steps[0].rows)), 0)
    try:
        for batch, step in enumerate(steps):
            end = {number: start[number] + count for number, count in enumerate(step.rows)}
            for _ in range(step.again):
                # A crash after all was written and before it was noted: the whole batch comes again.
                (folder.path / "batches" / f"{batch}.json").unlink(missing_ok=True)
                stepper.step(batch, {topic: start}, {topic: end}, time_ms=batch)
            start = end
            done(step)
    finally:
        running.stop()
