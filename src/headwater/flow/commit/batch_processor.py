"""One batch of a job, from rows to everything it has to leave behind; in an order that any crash may interrupt.

    1  Spark works out all outputs from the state of the batch before, tasks write runs of new state and stage rows
    2  the new state is committed under the batch's number
    3  poisoned and late rows are written to their topics, with the batch's number in the same transaction
    4  every sink takes its rows or publishes those that were staged, and a topic the accounts, in the same way
    5  the batch is noted as finished; offsets are committed to the job's group

A batch that comes again starts from the state of the batch before again. What sinks took already they take only once.
"""

import logging
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.clock import Clock
from headwater.errors import ConflictError, FlowError, UnavailableError
from headwater.flow.commit.account_balance import accounts_of
from headwater.flow.commit.collection import Collected, Origin, collect, collected_results, frame_for, read_twice
from headwater.flow.commit.job_folder import BatchRecord, JobFolder, places
from headwater.flow.commit.report_records import account_records, poisoned_records
from headwater.flow.commit.stage_task import run_tasks, staged_results
from headwater.flow.declare.topology.graph import Job, Planned
from headwater.flow.declare.topology.nodes import Join, Node, source_id
from headwater.flow.exchange.co_partitioning import MisplacedRow, check_co_partitioned, co_partitioned_after
from headwater.flow.kafka.client import Client
from headwater.flow.late.late_records import late_records
from headwater.flow.late.late_replay import Admission, Admitting
from headwater.flow.operate.job_operators import Operators
from headwater.flow.operate.level import Level
from headwater.flow.operate.level_blocks import InputKey, LevelInputs
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operators.joins.hot_keys import hot_after
from headwater.flow.plan.delays import batches_behind, recent
from headwater.flow.plan.lateness import Times, times_of
from headwater.flow.plan.operator_levels import levels_of, uses_of
from headwater.flow.plan.planned_batches import Offsets
from headwater.flow.plan.processing_time import uses_processing_time
from headwater.flow.plan.resolution import Resolved
from headwater.flow.plan.row_sources import row_source
from headwater.flow.plan.watermarks import FOREVER_US, Clocks, heard, idle_ms, streams_of
from headwater.flow.prepare.inputs import InputSteps, LogSteps, ResultSteps
from headwater.flow.rows.evaluation import Evaluation, LevelRequest, Replayed, with_position
from headwater.flow.rows.reading import Reading
from headwater.flow.rows.sources import frames_of, staged_names
from headwater.flow.sinks.sink import Mark, Sink
from headwater.flow.sinks.staged import RunTasks, StagedSink, Stager
from headwater.flow.source.batch_plan.ticks import Tick, Wish
from headwater.flow.source.splitting import ranges_between
from headwater.flow.source.staging import Staged, clear_stage, read_stage

_logger = logging.getLogger(__name__)

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
QUERIES_AT_ONCE = 4
NOTED = 4
"""Earlier watermarks that a batch notes at least: an output behind more joins may be added to the job later."""


@dataclass(frozen=True)
class Outputs:
    """Where a job's rows go: a sink for every output, and two for what it has to say about itself."""

    sinks: Mapping[str, Sink]
    poisoned: Sink
    late: Sink
    accounts: Sink


class Asides(NamedTuple):
    """Records of rows that no output has."""

    poisoned: pa.Table
    late: pa.Table


class Emitted(NamedTuple):
    """Outputs that are just what an operator emits, stagers of operators whose tasks stage it, and those of outputs."""

    plain: Sequence[Planned]
    staged: Mapping[Node, Stager]
    stagers: Mapping[str, Stager | None]


@dataclass(frozen=True)
class Progress:
    """What a finished batch tells whoever watches."""

    record: BatchRecord
    seconds: float
    state_bytes: int
    decoded: Mapping[str, "Decoded"] = field(default_factory=dict)
    """By topic; nothing if the batch had been finished before."""


class Decoded(NamedTuple):
    """How many records of a topic became rows."""

    rows: int
    poisoned: int
    reason: str = ""
    """Of the first that did not."""

    def __add__(self, other: "Decoded") -> "Decoded":  # type: ignore[override]  # not one tuple behind the other
        return Decoded(self.rows + other.rows, self.poisoned + other.poisoned, self.reason or other.reason)


def decoded_of(staged: list[Staged]) -> dict[str, Decoded]:
    """Several streams over one topic count it as often: each has its own idea of what its records are."""
    found: dict[str, Decoded] = {}
    for one in staged:
        reason = str(one.poisoned["reason"][0]) if len(one.poisoned) else ""
        said = Decoded(one.counts.rows, one.counts.poisoned, reason)
        found[one.range.topic] = found[one.range.topic] + said if one.range.topic in found else said
    return found


class Processor:
    def __init__(
        self,
        app: str,
        job: Job,
        job_id: str,
        folder: JobFolder,
        operators: Operators,
        outputs: Outputs,
        resolved: Mapping[str, Resolved],
        client: Client,
        *,
        shards: int,
        clock: Clock,
        where: Mapping[str, str],
        group: str | None = None,
        until: BatchRecord | None = None,
        admitting: Admitting | None = None,
        watch: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._app, self._job, self._job_id, self._folder = app, job, job_id, folder
        self._operators, self._outputs, self._resolved, self._client = operators, outputs, resolved, client
        self._shards, self._clock, self._group, self._watch = shards, clock, group, watch
        self._where, self._read_twice = where, read_twice(job)
        self._levels, self._inputs = levels_of(job), row_source(job, resolved).inputs
        self._uses = uses_of(job)
        self._by_processing_time = uses_processing_time(job)
        self._lag = batches_behind(one.node for one in job.outputs)
        self._operators.know(one for output in resolved.values() for one in output.operators.values())
        self._until, self.admitting = until, admitting
        self._wished: Wish | None = None
        self._decoded: dict[str, Decoded] = {}

    def process(self, frame: DataFrame, batch: int) -> None:
        """Take one micro-batch. Called again with the same number after a crash; then only what is missing is done."""
        started_ms = self._clock.elapsed_ms()
        self._decoded = {}
        record = self._folder.finished(batch)
        if record is None:
            try:
                record = self._work(frame, batch)
            except MisplacedRow as error:
                _logger.info("batch %d of job %s is shuffled: %s", batch, self._job.name, error)
                record = self._work(frame, batch, may_skip_shuffle=False)
        self._check_end(batch, record.end)
        self._commit_offsets(record.end)
        self._tidy(record)
        seconds = (self._clock.elapsed_ms() - started_ms) / 1000
        self._watch(Progress(record, seconds, self._operators.size_bytes(batch), self._decoded))

    def resume(self, record: BatchRecord) -> None:
        """Do what a crash right after a finished batch may have left undone."""
        self._commit_offsets(record.end)

    def _work(self, frame: DataFrame, batch: int, *, may_skip_shuffle: bool = True) -> BatchRecord:
        start, end = self._folder.span(batch)
        before = self._folder.finished(batch - 1)
        tick = self._folder.planned_tick(batch)
        admission = self._admission(batch) if tick.admits else Admission()
        times = self._at_processing_time(self._times(before, start, end, tick), before, batch)
        self._prepare(batch, before, times, may_skip_shuffle=may_skip_shuffle)
        # Corrections of a batch that replays late rows are frames.
        inputs = {} if tick.admits else self._inputs
        logged = frozenset(one for one, steps in inputs.items() if isinstance(steps, LogSteps))
        session = frame.sparkSession
        session.conf.set(SHUFFLE_PARTITIONS, self._shards)
        source = frame.persist() if self._read_twice and not logged else frame
        reading = self._reading(start, end) if logged else None
        emitted = self._emitted(admission.replayed, self._stagers(Mark(self._job_id, batch, end)))
        evaluation = Evaluation(
            partial(frames_of, self._job, source), levels=self._levels,
            operate_level=partial(
                self._operate_level, session, inputs, reading, admission.replayed, emitted.staged
            ), logged=logged,
            emitted={one: steps.base for one, steps in inputs.items() if isinstance(steps, ResultSteps)},
            replayed=admission.replayed,
        )  # fmt: skip
        try:
            origin = Origin(self._app, self._job.name, batch, self._folder.planned_ms(batch))
            collected, told = self._collect(evaluation, origin, emitted)
            check_co_partitioned(self._operators.co_partitioned, told)
            evaluation.missing |= self._missing(session, collected)
            staged = self._staged(start, end)
            self._decoded = decoded_of(staged)
            accounts = accounts_of(self._job, evaluation, collected, told, staged, admission.rows)
            late = pa.concat_tables([late_records(evaluation, self._operators, told, batch), admission.marks])
        finally:
            evaluation.release()
            source.unpersist()
        clocks = heard(before.clocks if before else Clocks(), staged, streams_of(self._job.sources), origin.time_ms)
        moments = times.watermark_us, times.idle, times.processed_us, recent(times.passed, max(self._lag, NOTED))[1:]
        hot = hot_after(self._operators.hot, ((one.operator, one.hot) for one in told))
        unshuffled = co_partitioned_after(before.co_partitioned if before else frozenset(), told)
        record = BatchRecord(batch, start, end, accounts, clocks, *moments, hot=hot, co_partitioned=unshuffled)
        asides = Asides(poisoned_records(staged), late)
        self._leave_behind(record, collected, told, asides, origin, partial(run_tasks, session))
        return record

    def _stagers(self, mark: Mark) -> dict[str, Stager | None]:
        """How tasks stage the rows of each output."""
        sinks = self._outputs.sinks.items()
        return {name: sink.stager(mark) if isinstance(sink, StagedSink) else None for name, sink in sinks}

    def _reading(self, start: Offsets, end: Offsets) -> Reading:
        ranges = ranges_between(places(start), places(end))
        partitions = {topic: len(offsets) for topic, offsets in end.items()}
        return Reading(self._job, self._where, str(self._folder.stage), ranges, partitions, self._shards)

    def _emitted(self, replayed: Replayed, stagers: Mapping[str, Stager | None]) -> "Emitted":
        """What of the outputs comes right from operators. Results that others use too are staged as frames."""
        plain = [
            one for one in self._uses.plain
            if one.node not in replayed.changes and not (stagers[one.name] and one.node in self._uses.frames)
        ]  # fmt: skip
        uses = Tally(one.node for one in self._job.outputs)
        # Of a row that moved to another join key, the driver puts together what two shards emitted.
        own = [one for one in plain if uses[one.node] == 1 and not isinstance(one.node, Join)]
        staged = {one.node: stager for one in own if (stager := stagers[one.name])}
        return Emitted(plain, staged, stagers)

    def _operate_level(
        self, session: SparkSession, inputs: Mapping[InputKey, InputSteps], reading: Reading | None,
        replayed: Replayed, staged: Mapping[Node, Stager], request: LevelRequest,
    ) -> Level:  # fmt: skip
        topics = self._topics(inputs, request.number)
        given = LevelInputs(
            request.nodes, request.frames, inputs, request.earlier, reading if topics else None, topics,
            replayed.absorbed,
        )  # fmt: skip
        framed = [one for one in request.nodes if one in self._uses.frames]
        return self._operators.level(session, given, framed=framed, emit=partial(staged_results, staged))

    def _topics(self, inputs: Mapping[InputKey, InputSteps], number: int) -> frozenset[str]:
        """What the tasks of a level read. Those of the first also read what no operator wants, for its clocks."""
        wanted: dict[int, set[str]] = {}
        for (node, _), steps in inputs.items():
            if isinstance(steps, LogSteps):
                wanted.setdefault(self._levels[node], set()).add(self._job.sources[steps.source].topic)
        own = wanted.get(number, set())
        if wanted and number == min(wanted):
            own |= {source.topic for source in self._job.sources}.difference(*wanted.values())
        return frozenset(own)

    def _missing(self, session: SparkSession, collected: Mapping[str, Collected]) -> dict[Node, DataFrame]:
        found = {planned.node: collected[planned.name].missing for planned in self._job.outputs}
        return {node: with_position(session.createDataFrame(rows)) for node, rows in found.items() if rows}

    def _prepare(self, batch: int, before: BatchRecord | None, times: Times, *, may_skip_shuffle: bool) -> None:
        """What operators have to know: nothing that would be another if the batch came again."""
        operators = self._operators
        operators.base, operators.times, operators.co_partitioned = batch - 1, times, frozenset()
        operators.hot = before.hot if before else {}
        operators.may_skip_shuffle = before.co_partitioned if before and may_skip_shuffle else frozenset()

    def _leave_behind(
        self, record: BatchRecord, collected: Mapping[str, Collected], told: list[ShardReport], asides: "Asides",
        origin: Origin, run: RunTasks,
    ) -> None:  # fmt: skip
        self._operators.commit(record.batch, told)
        mark = Mark(self._job_id, record.batch, record.end)
        # Before the views: whoever proves one finds the rows that it lacks.
        self._outputs.poisoned.write(mark, asides.poisoned)
        self._outputs.late.write(mark, asides.late)
        for name, found in collected.items():
            sink = self._outputs.sinks[name]
            if isinstance(sink, StagedSink):
                sink.publish(mark, found.parts, found.rows, run)
            else:
                sink.write(mark, found.rows)
        self._outputs.accounts.write(mark, account_records(self._job.name, record, origin.time_ms))
        self._wish(record)
        self._folder.finish(record)

    def _collect(
        self, evaluation: Evaluation, origin: Origin, emitted: "Emitted"
    ) -> tuple[dict[str, Collected], list[ShardReport]]:
        """What outputs are given, and what operators reported.

        Outputs are worked out side by side: small queries leave cores idle between their stages. Levels are run before
        them, one after the other.
        """
        plain, stagers = emitted.plain, emitted.stagers
        others = [one for one in self._job.outputs if one not in plain]
        frames = {one: frame_for(evaluation, one, self._resolved[one.name].key, origin) for one in others}
        for node in evaluation.levels:
            evaluation.exchange(node)
        told: list[ShardReport] = []
        for _, level in sorted(evaluation.exchanges.items()):
            level.collect({one.node for one in plain} & level.numbers.keys())
            told += level.reports
        found = {one.name: collected_results(evaluation.exchange(one.node), one) for one in plain}
        with ThreadPoolExecutor(QUERIES_AT_ONCE, thread_name_prefix="headwater-output") as pool:
            under_way = {one.name: pool.submit(collect, frame, stagers[one.name]) for one, frame in frames.items()}
            return found | {name: future.result() for name, future in under_way.items()}, told

    # -- what was read -------------------------------------------------------------------------------------------------

    def _check_end(self, batch: int, end: Offsets) -> None:
        planned = self._folder.planned(batch)
        if end != planned:
            raise FlowError(
                f"batch {batch} of job {self._job.name} was to end at {planned}, but was finished at {end}",
                "Start the job again.",
            )

    def _times(self, before: BatchRecord | None, start: Offsets, end: Offsets, tick: Tick) -> Times:
        times = times_of(self._job.sources, before, start, end, tick)
        if tick.admits:  # what it tells is nothing but corrections
            return times.stand_still()
        if self._until is None:
            return times
        return times.until(recent(self._until.passed, self._lag), reached=start == self._until.end)

    def _at_processing_time(self, times: Times, before: BatchRecord | None, batch: int) -> Times:
        """Clocks may be put back, but rows are not processed before those that were."""
        if not self._by_processing_time:
            return times
        then_us = before.processed_us if before else None
        now_us = 1000 * self._folder.planned_ms(batch)
        return replace(times, processed_before_us=then_us, processed_us=max(now_us, then_us or now_us))

    def _admission(self, batch: int) -> Admission:
        if self.admitting is None:
            raise FlowError(f"batch {batch} of job {self._job.name} takes late rows back, and nobody knows how")
        return self.admitting.admission(batch)

    def _staged(self, start: Offsets, end: Offsets) -> list[Staged]:
        """Of each source, under the name of its lane."""
        ranges = ranges_between(places(start), places(end))
        found = []
        for source, name in staged_names(self._job).items():
            own = [one._replace(topic=name) for one in ranges if one.topic == source.topic]
            for one in read_stage(self._folder.stage, own):
                found.append(replace(one, range=one.range._replace(topic=source_id(source))))
        return found

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _commit_offsets(self, end: Offsets) -> None:
        """For tools that show lag. The truth is in the checkpoint, so a broker that is away for a moment is no harm."""
        if self._group is None:
            return
        try:
            self._client.commit_offsets(self._group, places(end))
        except (UnavailableError, ConflictError) as error:
            _logger.warning("the offsets of group %s could not be committed: %s", self._group, error)

    def _wish(self, record: BatchRecord) -> None:
        """Nothing moves without batches: ask for one more if time alone has something left to do.

        Written down before the batch is finished, so that after a crash it stands there or the batch comes again.
        """
        silent = Tick(silent=self._folder.planned_tick(record.batch).silent)
        then_us = self._times(record, record.end, record.end, silent).watermark_us
        # Operators behind joins come to where time is by as many batches as they are behind.
        passed = recent(record.passed, self._lag)
        then, forever = ((us,) * len(passed) for us in (then_us, FOREVER_US))
        more = then != passed and self._operators.pending(record.batch, passed, then)
        waiting = self._operators.pending(record.batch, passed, forever)
        watched = idle_ms(streams_of(self._job.sources)) if waiting else {}
        wakes_us = None if record.processed_us is None else self._operators.wakes_us(record.batch, record.processed_us)
        wish = Wish(record.batch + 1 if more else 0, watched)
        if not more and wakes_us is not None:
            wish = Wish(record.batch + 1, watched, -(-wakes_us // 1000))
        if wish != self._wished:
            self._folder.wish(wish)
            self._wished = wish

    def _tidy(self, record: BatchRecord) -> None:
        self._operators.clean()
        names = staged_names(self._job).items()
        clear_stage(self._folder.stage, places({name: record.end.get(source.topic, {}) for source, name in names}))
