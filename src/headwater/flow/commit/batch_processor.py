"""One batch of a job, from rows to everything it has to leave behind; in an order that any crash may interrupt.

    1  offsets, watermarks, hot keys and joins without a shuffle are decided, from the plan and the batch before
    2  Spark evaluates all outputs from the state of the batch before; tasks write runs of new state and stage rows
    3  the accounts are checked
    4  the new state is committed under the batch's number
    5  poisoned and late rows are written to their topics, with the batch's number in the same transaction
    6  every sink takes its rows or publishes those that were staged, and a topic the accounts, in the same way
    7  the batch is noted as finished; offsets are committed to the job's group

A batch that is run again starts from the state of the batch before again. What sinks took already they take only once.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.errors import ConflictError, FlowError, UnavailableError
from headwater.flow.commit.account_balance import accounts_of
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.batch_evaluation import BatchEvaluator, BatchResults
from headwater.flow.commit.job_context import Environment, JobContext
from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.commit.report_records import account_records, poisoned_records
from headwater.flow.commit.stage_task import run_tasks
from headwater.flow.commit.wakeups import wakeup_after
from headwater.flow.declare.topology.nodes import source_id
from headwater.flow.exchange.co_partitioning import MisplacedRow, check_co_partitioned, co_partitioned_after
from headwater.flow.late.late_records import late_records
from headwater.flow.late.late_replay import NO_CORRECTIONS, LateReplay
from headwater.flow.operate.job_operators import Operators
from headwater.flow.operators.joins.hot_keys import hot_after
from headwater.flow.plan.batch_context import BatchContext, batch_context, watermarks_needed
from headwater.flow.plan.delays import recent
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch, partition_offsets
from headwater.flow.plan.watermarks import Clocks, advance_clocks, streams_of
from headwater.flow.rows.batch_frames import BatchFrames
from headwater.flow.rows.sources import staged_names
from headwater.flow.sinks.sink import Mark, Sink
from headwater.flow.sinks.staged import StagedSink
from headwater.flow.sinks.view import ViewSink
from headwater.flow.source.batch_plan.batch_control import WakeupRequest
from headwater.flow.source.staging import Staged, clear_stage, read_stage
from headwater.flow.state.job_state import JobState

_logger = logging.getLogger(__name__)

OWN_FOR_MS = 2_000
NOTED = 4
"""Earlier watermarks that a batch notes at least: an output downstream of more joins may be added to the job later."""


@dataclass(frozen=True)
class Outputs:
    """Where a job's rows go: a sink for every output, and three for what it says about itself."""

    sinks: Mapping[str, Sink]
    poisoned: Sink
    late: Sink
    accounts: Sink
    group: str | None = None
    """The consumer group that offsets are committed to, for tools that show lag."""


class SideRecords(NamedTuple):
    """Records of rows that no output has."""

    poisoned: pa.Table
    late: pa.Table


class Decoded(NamedTuple):
    """How many records of a topic became rows."""

    rows: int
    poisoned: int
    reason: str = ""
    """Of the first that did not."""

    def __add__(self, other: "Decoded") -> "Decoded":  # type: ignore[override]  # not one tuple after the other
        return Decoded(self.rows + other.rows, self.poisoned + other.poisoned, self.reason or other.reason)


@dataclass(frozen=True)
class Progress:
    """A finished batch, for the supervisor of the job."""

    record: BatchRecord
    seconds: float
    state_bytes: int
    decoded: Mapping[str, Decoded] = field(default_factory=dict)
    """By topic; nothing if the batch had been finished before."""
    notes: tuple[str, ...] = ()
    """Sentences of its operators, such as about stored queries that cannot be run."""


def decoded_of(staged: list[Staged]) -> dict[str, Decoded]:
    """Several streams over one topic count it as often: each decodes its records in its own way."""
    found: dict[str, Decoded] = {}
    for one in staged:
        reason = str(one.poisoned["reason"][0]) if len(one.poisoned) else ""
        said = Decoded(one.counts.rows, one.counts.poisoned, reason)
        found[one.range.topic] = found[one.range.topic] + said if one.range.topic in found else said
    return found


class Processed(NamedTuple):
    """A batch that was processed, and what is reported of it."""

    record: BatchRecord
    decoded: dict[str, Decoded]
    notes: tuple[str, ...]


class Processor:
    """Processes the batches of one job. `until` is the record of another job whose watermarks this one follows."""

    def __init__(
        self, context: JobContext, environment: Environment, outputs: Outputs, *, until: BatchRecord | None = None,
        watch: Callable[[Progress], None] = lambda progress: None,
    ) -> None:  # fmt: skip
        self.context, self._job, self._folder = context, context.job, context.folder
        self.environment, self._outputs, self._until, self._watch = environment, outputs, until, watch
        operators = {node: one for output in context.resolved.values() for node, one in output.operators.items()}
        self._operators = Operators(
            operators, context.job.operators, JobState(context.folder, shards=context.identity.shards)
        )
        self.evaluator = BatchEvaluator(context, self._operators, outputs.sinks, environment.where)
        self.late_replay = LateReplay(context, environment)
        self._requested: WakeupRequest | None = None

    def close(self) -> None:
        """End merges of state that run in the background."""
        self._operators.state.close()

    def process(self, frames: BatchFrames, batch: int) -> None:
        """Process one batch. Called again with the same number after a crash; then only what is missing is done."""
        clock = self.environment.clock
        started_ms = clock.elapsed_ms()
        planned, decoded, notes = self._folder.planned(batch), dict[str, Decoded](), tuple[str, ...]()
        record = self._folder.finished(batch)
        if record is None:
            record, decoded, notes = self._run(frames, planned)
        self._check_end(planned, record)
        self._commit_offsets(record.end)
        self._clean(record)
        seconds = (clock.elapsed_ms() - started_ms) / 1000
        self._watch(Progress(record, seconds, self._operators.state.size_bytes(batch), decoded, notes))

    def resume(self, record: BatchRecord) -> None:
        """Do what a crash right after a finished batch may have left undone."""
        self._commit_offsets(record.end)

    def _run(self, frames: BatchFrames, planned: PlannedBatch) -> Processed:
        before = self._folder.finished(planned.batch - 1)
        context = batch_context(self._job, planned, before, self._until)
        try:
            return self._work(frames, context, before)
        except MisplacedRow as error:
            _logger.info("batch %d of job %s is shuffled: %s", planned.batch, self._job.name, error)
            return self._work(frames, context.shuffled(), before)

    def _work(self, frames: BatchFrames, context: BatchContext, before: BatchRecord | None) -> Processed:
        replays = context.planned.control.replays_late
        corrections = self.late_replay.corrections(context.planned) if replays else NO_CORRECTIONS
        with self.evaluator.evaluated(frames, context, corrections.replayed) as (evaluation, results):
            check_co_partitioned(results.co_partitioned, results.reports)
            staged = self._staged(context.planned)
            accounts = accounts_of(self._job, evaluation, results, staged, corrections.rows)
            late = late_records(evaluation, self._operators, context, results.reports)
        record = self._record(context, before, accounts, results, staged)
        side = SideRecords(poisoned_records(staged), pa.concat_tables([late, corrections.marks]))
        self._operators.commit(context, results.reports)
        self._publish(record, results, side, context.planned.time_ms, frames.session)
        self._request_wakeup(context, record)
        self._folder.finish(record)
        notes = tuple(f"{one.operator}: {note}" for one in results.reports for note in one.notes)
        return Processed(record, decoded_of(staged), notes)

    def _record(
        self, context: BatchContext, before: BatchRecord | None, accounts: Mapping[str, Account],
        results: BatchResults, staged: list[Staged],
    ) -> BatchRecord:  # fmt: skip
        planned, times, reports = context.planned, context.times, results.reports
        clocks = before.clocks if before else Clocks()
        return BatchRecord(
            planned.batch, planned.start, planned.end, accounts,
            advance_clocks(clocks, staged, streams_of(self._job.sources), planned.time_ms),
            watermark_us=times.watermark_us, idle=times.idle, processed_us=times.processed_us,
            earlier_us=recent(times.passed, max(watermarks_needed(self._job), NOTED))[1:],
            hot=hot_after(context.hot, ((one.operator, one.hot) for one in reports)),
            co_partitioned=co_partitioned_after(before.co_partitioned if before else frozenset(), reports),
        )  # fmt: skip

    def _publish(
        self, record: BatchRecord, results: BatchResults, side: SideRecords, time_ms: int, session: SparkSession
    ) -> None:
        outputs, mark = self._outputs, Mark(self.context.identity.job_id, record.batch, record.end, self._folder.epoch)
        # Before the views: a proof of one finds the rows that it lacks.
        outputs.poisoned.write(mark, side.poisoned)
        outputs.late.write(mark, side.late)
        views = {name: sink for name in results.outputs if isinstance(sink := outputs.sinks[name], ViewSink)}
        with ExitStack() as open:  # a reader of several views finds the same batch in all of them
            for store in {id(sink.store): sink.store for sink in views.values()}.values():
                open.enter_context(store.in_one_transaction())
            for name, sink in views.items():
                sink.publish(mark, results.outputs[name].parts, results.outputs[name].rows)
        for name, found in results.outputs.items():
            other = outputs.sinks[name]
            if name in views:
                continue
            if isinstance(other, StagedSink):
                other.publish(mark, found.parts, found.rows, partial(run_tasks, session))
            else:
                other.write(mark, found.rows)
        outputs.accounts.write(mark, account_records(self._job.name, record, time_ms))

    def _request_wakeup(self, context: BatchContext, record: BatchRecord) -> None:
        """Written down before the batch is finished: after a crash it is there, or the batch is run again."""
        request = wakeup_after(self._job, self._operators, context, record, self._until)
        if request != self._requested:
            self._folder.request_wakeup(request)
            self._requested = request

    def _staged(self, planned: PlannedBatch) -> list[Staged]:
        """What tasks counted and rejected while they read, under the id of each source."""
        found = []
        for source, name in staged_names(self._job).items():
            own = [one._replace(topic=name) for one in planned.ranges if one.topic == source.topic]
            for one in read_stage(self._folder.stage, own):
                found.append(replace(one, range=one.range._replace(topic=source_id(source))))
        return found

    # -- after a batch -------------------------------------------------------------------------------------------------

    def _check_end(self, planned: PlannedBatch, record: BatchRecord) -> None:
        if record.end != planned.end:
            raise FlowError(
                f"batch {planned.batch} of job {self._job.name} was to end at {planned.end}, but was finished at "
                f"{record.end}",
                "Start the job again.",
            )

    def _commit_offsets(self, end: Offsets) -> None:
        """The truth is in the checkpoint, so a broker that is away for a moment does no harm."""
        group = self._outputs.group
        if group is None:
            return
        # Groups do not know drivers apart. One that was stopped since the batch was finished may be an older one.
        self._folder.check_own(every_ms=OWN_FOR_MS)
        try:
            self.environment.client.commit_offsets(group, partition_offsets(end))
        except (UnavailableError, ConflictError) as error:
            _logger.warning("the offsets of group %s could not be committed: %s", group, error)

    def _clean(self, record: BatchRecord) -> None:
        self._operators.state.clean(record.batch)
        ends = {name: record.end.get(source.topic, {}) for source, name in staged_names(self._job).items()}
        clear_stage(self._folder.stage, partition_offsets(ends))
