"""Runs the operators of a batch and collects what outputs are given; nothing is committed, and no sink is written.

Operators run level by level, all operators of a level in the same tasks. Outputs that are exactly what an operator
emits come from its tasks; those that need more steps are frames of Spark's.
"""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from headwater.flow.commit.collection import Collected, Origin, collect, collected_results, frame_for, read_twice
from headwater.flow.commit.job_context import JobContext
from headwater.flow.commit.stage_task import staged_results
from headwater.flow.declare.topology.graph import Planned
from headwater.flow.declare.topology.nodes import MAKING, Node, Source, TableOperator
from headwater.flow.exchange.blocks import Exchange
from headwater.flow.operate.job_operators import Operators
from headwater.flow.operate.level import Level
from headwater.flow.operate.level_blocks import InputKey, LevelInputs
from headwater.flow.operate.reports import ShardReport
from headwater.flow.plan.batch_context import BatchContext
from headwater.flow.plan.operator_levels import levels_of, uses_of
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.row_sources import row_source
from headwater.flow.prepare.inputs import InputSteps, LogSteps, ResultSteps
from headwater.flow.rows.batch_frames import BatchFrames
from headwater.flow.rows.evaluation import Evaluation, LevelRequest, Replayed, with_position
from headwater.flow.rows.reading import Reading
from headwater.flow.rows.sources import frames_of
from headwater.flow.sinks.sink import Mark, Sink
from headwater.flow.sinks.staged import StagedSink, Stager

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
QUERIES_AT_ONCE = 4
BLOCKS = "blocks"
DRIVER_ROWS, ROWS_IN_DRIVER = "spark.headwater.driverRows", "20000"
"""A setting of ours: batches of so many records at most are run by the driver, where Spark has no step to evaluate; 0:
all are run by Spark's tasks, from the first step to the last."""


@dataclass(frozen=True)
class OutputRoutes:
    """`direct`: outputs that are exactly what an operator emits; `by_tasks`: stagers of operators whose own tasks stage
    what they emit; `stagers`: how tasks stage the rows of each output, None where the driver writes them."""

    direct: Sequence[Planned]
    by_tasks: Mapping[Node, Stager]
    stagers: Mapping[str, Stager | None]


@dataclass(frozen=True)
class BatchResults:
    """What a batch gives its outputs, what tasks reported, and which operators ran without a shuffle."""

    outputs: Mapping[str, Collected]
    reports: Sequence[ShardReport]
    co_partitioned: frozenset[str]


class BatchEvaluator:
    """Evaluates batches of one job. `where` says how tasks reach the log."""

    def __init__(
        self, job: JobContext, operators: Operators, sinks: Mapping[str, Sink], where: Mapping[str, str]
    ) -> None:
        self._context, self._job, self._operators, self._sinks, self._where = job, job.job, operators, sinks, where
        self._levels, self._uses, self._read_twice = levels_of(job.job), uses_of(job.job), read_twice(job.job)
        self._shuffled = set[int]()
        """Levels of which tasks have prepared too much for the driver to operate on."""
        self.inputs: Mapping[InputKey, InputSteps] = row_source(job.job, job.resolved).inputs
        """Inputs of operators that tasks make themselves; Spark evaluates the others."""

    @contextmanager
    def evaluated(
        self, frames: BatchFrames, context: BatchContext, replayed: Replayed
    ) -> Iterator[tuple[Evaluation, BatchResults]]:
        """Run a batch. `frames` has the rows of all sources, for what Spark evaluates. Memory and files that the batch
        holds are released in the end."""
        # Corrections of a batch that replays late rows are frames.
        inputs = {} if context.planned.control.replays_late else self.inputs
        logged = frozenset(one for one, steps in inputs.items() if isinstance(steps, LogSteps))
        session, routes = frames.session, self._routes(context.planned, replayed)
        exchange = self._exchange(session)
        session.conf.set(SHUFFLE_PARTITIONS, exchange.shards)
        bound = int(session.conf.get(DRIVER_ROWS, ROWS_IN_DRIVER) or 0)
        small = bound > 0 and context.planned.rows <= bound
        made: list[DataFrame] = []

        def sources() -> dict[Source, DataFrame]:
            frame = frames.frame(context.planned)
            made.append(frame.persist() if self._read_twice and not logged else frame)
            return frames_of(self._job, made[0])

        def operate_level(request: LevelRequest) -> Level:
            given = self._level_inputs(request, context.planned, inputs, exchange, replayed)
            # Without a bound all is run by tasks; and tasks stage outputs side by side, which the driver does not.
            gathers = bound > 0 and exchange.folder is not None and not routes.by_tasks
            if gathers and request.number not in self._shuffled:
                given = replace(given, too_large=partial(self._shuffled.add, request.number))
            framed = [one for one in request.nodes if one in self._uses.frames]
            emit = partial(staged_results, routes.by_tasks)
            return self._operators.level(session, context, replace(given, small=small), framed=framed, emit=emit)

        evaluation = Evaluation(
            sources, levels=self._levels, operate_level=operate_level, logged=logged,
            emitted={one: steps.base for one, steps in inputs.items() if isinstance(steps, ResultSteps)},
            replayed=replayed,
        )  # fmt: skip
        try:
            exchange.clear()
            results = self._collect(evaluation, context.planned, routes)
            evaluation.missing |= self._unmatched(session, results)
            yield evaluation, results
        finally:
            evaluation.release()
            for frame in made:
                frame.unpersist()
            exchange.remove()

    def _exchange(self, session: SparkSession) -> Exchange:
        """On one machine large blocks pass through files, beside what else tasks leave for the driver."""
        local = str(session.sparkContext.master).startswith("local")
        return Exchange(self._context.identity.shards, str(self._context.folder.stage / BLOCKS) if local else None)

    def _collect(self, evaluation: Evaluation, planned: PlannedBatch, routes: OutputRoutes) -> BatchResults:
        """Run the levels one after the other, then the outputs that are frames side by side: small queries leave cores
        idle between their stages."""
        origin = Origin(self._context.app, self._job.name, planned.batch, planned.time_ms)
        keys = {name: one.key for name, one in self._context.resolved.items()}
        others = [one for one in self._job.outputs if one not in routes.direct]
        frames = {one: frame_for(evaluation, one, keys[one.name], origin) for one in others}
        for node in evaluation.levels:
            evaluation.exchange(node)
        levels = [level for _, level in sorted(evaluation.exchanges.items())]
        for level in levels:
            level.collect({one.node for one in routes.direct} & level.numbers.keys())
        found = {one.name: collected_results(evaluation.exchange(one.node), one) for one in routes.direct}
        with ThreadPoolExecutor(QUERIES_AT_ONCE, thread_name_prefix="headwater-output") as pool:
            stagers = routes.stagers
            running = {one.name: pool.submit(collect, frame, stagers[one.name]) for one, frame in frames.items()}
            found |= {name: future.result() for name, future in running.items()}
        reports = [report for level in levels for report in level.reports]
        return BatchResults(found, reports, frozenset[str]().union(*(level.co_partitioned for level in levels)))

    def _unmatched(self, session: SparkSession, results: BatchResults) -> dict[Node, DataFrame]:
        """Of joins whose results only the driver has: rows that had to have a partner, and have none."""
        found = {planned.node: results.outputs[planned.name].missing for planned in self._job.outputs}
        return {node: with_position(session.createDataFrame(rows)) for node, rows in found.items() if rows}

    def _routes(self, planned: PlannedBatch, replayed: Replayed) -> OutputRoutes:
        """Results that other steps use too are staged as frames."""
        job, epoch = self._context.identity.job_id, self._context.folder.epoch
        mark = Mark(job, planned.batch, planned.end, epoch)
        sinks = self._sinks.items()
        stagers = {name: sink.stager(mark) if isinstance(sink, StagedSink) else None for name, sink in sinks}
        direct = [
            one for one in self._uses.plain
            if one.node not in replayed.changes and not (stagers[one.name] and one.node in self._uses.frames)
        ]  # fmt: skip
        uses = Tally(one.node for one in self._job.outputs)
        # Of a row that moved to another shard, the driver puts together what two shards emitted.
        own = [one for one in direct if uses[one.node] == 1 and not isinstance(one.node, (*MAKING, TableOperator))]
        return OutputRoutes(direct, {one.node: stager for one in own if (stager := stagers[one.name])}, stagers)

    def _level_inputs(
        self, request: LevelRequest, planned: PlannedBatch, inputs: Mapping[InputKey, InputSteps],
        exchange: Exchange, replayed: Replayed,
    ) -> LevelInputs:  # fmt: skip
        topics = self._topics(inputs, request.number)
        reading = self._reading(planned, exchange) if topics else None
        return LevelInputs(
            exchange, request.nodes, request.frames, inputs, request.earlier, reading, topics,
            absorbed=replayed.absorbed,
        )  # fmt: skip

    def _reading(self, planned: PlannedBatch, exchange: Exchange) -> Reading:
        partitions = {topic: len(offsets) for topic, offsets in planned.end.items()}
        return Reading(self._job, self._where, str(self._context.folder.stage), planned.ranges, partitions, exchange)

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
