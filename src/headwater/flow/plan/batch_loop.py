"""The batches of a job: each is planned, written down, run and noted as finished, then comes the next.

    plan ──► planned.json ──► Processor.process ──► batches/12.json ──► wait until the log is longer ──► plan …

A batch that was planned and not finished is run again first, with the same rows. Live runs, --once, rebuilds, late
replays and tests all run their batches here.
"""

import threading
from collections.abc import Mapping

from pyspark import InheritableThread

from headwater.flow.commit.batch_processor import Processor
from headwater.flow.local.session import cloned
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch, offsets, partition_offsets
from headwater.flow.rows.batch_frames import BatchFrames
from headwater.flow.rows.sources import source_options
from headwater.flow.source.batch_plan.batch_control import NO_CONTROL, read_wakeup
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.flow.source.options import parse_options, written_offsets
from headwater.record import TopicPartition

OWN_EVERY_MS = 10_000
"""So often a job at rest looks whether another driver has taken it."""
WAIT_MS = 200
"""At most so long the loop waits for new data before it looks whether time has something to do, or it is to stop."""


class BatchRunner:
    """Runs planned batches of the job of a processor."""

    def __init__(self, processor: Processor) -> None:
        context, environment = processor.context, processor.environment
        self._folder, self._processor = context.folder, processor
        own = cloned(environment.session)
        # Spark takes what tasks of ours read for small, and it may be large.
        own.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
        self._frames = BatchFrames(own, context.job, context.folder, environment.where)

    def run(self, planned: PlannedBatch) -> None:
        """Write the plan down, then process what lies between start and end; the same batch may be run again."""
        self._folder.plan(planned)
        self._folder.stage.mkdir(parents=True, exist_ok=True)
        try:
            self._processor.process(self._frames, planned.batch)
        except Exception:
            self._folder.check_own()  # places that refuse an older driver say less of the newer one than our checkpoint
            raise


class BatchLoop:
    """Runs the batches of one job on a thread of its own until it is stopped, fails, or, with `once`, has processed all
    that was in the log when it started."""

    def __init__(self, processor: Processor, *, once: bool = False) -> None:
        job, environment = processor.context.job, processor.environment
        self._folder, self._processor, self._once = processor.context.folder, processor, once
        self._runner, self._clock = BatchRunner(processor), environment.clock
        self._stopping = threading.Event()
        self._limits = parse_options(source_options(job, environment.where))
        self._planner = BatchPlanner(self._limits, clock=environment.clock, stopping=self._stopping)
        self._thread = InheritableThread(self._run, name=f"headwater-job-{job.name}", daemon=True)
        self.error: BaseException | None = None
        """What ended it, as it was raised."""
        self.idle = False
        """It has asked for more and there was nothing."""

    def start(self) -> None:
        self._thread.start()

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def stop_soon(self) -> None:
        """No further batch begins."""
        self._stopping.set()

    def stop(self) -> None:
        """Return when the batch under way has ended."""
        self._stopping.set()
        self._thread.join()

    def wait(self, seconds: float) -> None:
        """Return when it has ended, or the time is over."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._batches()
        except BaseException as error:  # noqa: BLE001  whatever it is: it is reported to the supervisor
            self.error = error
        finally:
            self._planner.close()

    def _batches(self) -> None:
        if self._once:
            self._planner.fix_ends()
        last = self._resumed()
        while not self._stopping.is_set():
            planned = self._next(last)
            self.idle = planned is None
            if planned is not None:
                self._runner.run(planned)
                last = planned
            elif self._once:
                return
            else:
                self._folder.check_own(every_ms=OWN_EVERY_MS)
                self._planner.wait(self._wait_ms())

    def _resumed(self) -> PlannedBatch | None:
        """The last batch, which is finished from here on; None if there is none."""
        last, record = self._folder.last_planned(), self._folder.last_finished()
        if last is not None and not self._stopping.is_set():
            self._planner.check(partition_offsets(last.end), last.terms)
        if last is not None and (record is None or record.batch < last.batch):
            if not self._stopping.is_set():
                self._runner.run(last)
        elif record is not None:
            self._processor.resume(record)
        return last

    def _next(self, last: PlannedBatch | None) -> PlannedBatch | None:
        """None if nothing is to be done. The first batch comes in any case: outputs are there after it."""
        now_ms = self._clock.now_ms()
        start = partition_offsets(last.end) if last else self._planner.beginning()
        made = self._planner.next(start, rows_max=self._limits.rows_max, bytes_max=self._limits.bytes_max)
        before = last.control if last else NO_CONTROL
        control = self._planner.control(before, start, made, read_wakeup(self._folder.stage).at(now_ms))
        if last is not None and made.ends == start and control == before:
            return None
        batch = last.batch + 1 if last else 0
        return PlannedBatch(batch, _offsets(start), _offsets(made.ends), now_ms, control, self._planner.terms)

    def _wait_ms(self) -> int:
        """At most until a batch is requested."""
        left_ms = read_wakeup(self._folder.stage).at_ms - self._clock.now_ms()
        return min(left_ms, WAIT_MS) if left_ms > 0 else WAIT_MS


def _offsets(found: Mapping[TopicPartition, int]) -> Offsets:
    return offsets(written_offsets(found))
