"""Late replay: a batch that reads nothing, and corrects the windows that late rows belong to.

It is a batch like any other, with a number that every sink commits with its rows; only its plan says that it replays
late rows (source/batch_plan/batch_control.py). So it takes effect as a whole or is run again, by the command or by the
job's next run. It replays all rows that were late before it: the same rows whenever it is computed.

The state of such windows is dropped. What they were and what they are with those rows is computed from the log, by the
queries that prove views, and the difference is emitted as changes. Of windows that overlap, some may still have state:
rows are given to those as well, so that later rows find them. Comparisons are treated in the same way.

The rows' records in the late topic stay; new ones beside them say in which batch they were replayed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.commit.job_context import Environment, JobContext
from headwater.flow.commit.report_records import NO_RECORDS, records
from headwater.flow.declare.topology.naming import late_topic
from headwater.flow.declare.topology.nodes import Compared, Dedupe, Join, Lesson, Node, Source, Windowed, walk
from headwater.flow.formats.schema import quoted
from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.local.session import cloned
from headwater.flow.operate.window_comparison import CompareOperator
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operators.comparisons.kinds import agos_of
from headwater.flow.operators.comparisons.looking_back import reach_us
from headwater.flow.operators.joins.emission import AFTER_SIDE, BEFORE_SIDE, SIDE
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.window import WHEN
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.proof.batch_query import batch_rows
from headwater.flow.proof.past_decisions import late_rows
from headwater.flow.proof.verification import fit_shuffle, frames_at
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.evaluation import Replayed, paired
from headwater.flow.rows.event_positions import HAPPENED
from headwater.flow.rows.sources import AT
from headwater.record import TopicPartition

POSITION = ("source", "partition", "offset")


def why_not(node: Node) -> str | None:
    """Why late rows of an operator cannot be replayed; None: they can."""
    if isinstance(node, Dedupe):
        return "whether a row repeats one that is forgotten is not known"
    if not isinstance(node, Windowed):
        return "a join keeps no row that is over"
    if isinstance(node, Lesson):
        return "a model has learned from later windows since"
    if any(isinstance(one, Join) for one in walk(node)):
        return "what a join before it made of other rows of that time is no longer known"
    if node.window.why_not_replayed is not None:
        return node.window.why_not_replayed
    if any(isinstance(one, Dedupe) for one in walk(node)):
        return "whether a row repeats one that is forgotten is not known"
    return None


@dataclass(frozen=True)
class Corrections:
    """What a batch that replays late rows does: corrections in place of the changes of some operators, how many rows of
    each are no longer late, and the records that say so in the late topic."""

    replayed: Replayed = field(default_factory=Replayed)
    rows: Mapping[Node, int] = field(default_factory=dict)
    marks: pa.Table = field(default_factory=lambda: NO_RECORDS)


NO_CORRECTIONS = Corrections()


class LateReplay:
    """Computes the corrections of a job's batches."""

    def __init__(self, context: JobContext, environment: Environment) -> None:
        self._context, self._job, self._environment = context, context.job, environment

    def outstanding(self, batch: int) -> dict[Node, int]:
        """How many rows were late up to a batch and are not replayed yet, for each operator that they can be given
        to."""
        late = self._late_now(batch)
        if late is None:
            return {}
        counts = {row["operator"]: row["count"] for row in late.groupBy("operator").count().collect()}
        return {node: counts[name] for node, name in self._job.operators.items() if counts.get(name)}

    def _late_now(self, batch: int) -> DataFrame | None:
        """For what is asked of late rows at once, in a session of its own: that of a job is not fitted to them."""
        own = replace(self._environment, session=cloned(self._environment.session))
        late = late_rows(own, self._context.app, self._job, self._context.folder, batch)
        if late is not None:
            fit_shuffle(own.session, _ends(own.client, late_topic(self._context.app, self._job.name)))
        return late

    def corrections(self, planned: PlannedBatch) -> Corrections:
        """Of all rows that were late before a batch, the same whenever it is computed."""
        last, environment = planned.batch - 1, self._environment
        before = self._context.folder.finished(last)
        rows = {node: count for node, count in self.outstanding(last).items() if why_not(node) is None}
        late = late_rows(environment, self._context.app, self._job, self._context.folder, last)
        asked = self._late_now(last)
        if before is None or late is None or asked is None or not rows:
            return NO_CORRECTIONS
        named = f.col("operator").isin([self._job.operators[node] for node in rows])
        late, asked = late.where(named), asked.where(named)
        log = frames_at(environment.session, self._job, environment.where, before.end)
        frames = self._near(asked, log, tuple(rows))
        own = {node: late.where(f.col("operator") == self._job.operators[node]).drop("operator") for node in rows}
        then, now = Past(before.passed, own), Past(before.passed)
        changes = {node: self._corrections(node, frames, then, now) for node in self._corrected(tuple(rows))}
        absorbed: dict[Node, DataFrame] = {
            node: self._kept(node, until, frames, own[node], before.watermark_us)
            for node in rows
            if isinstance(node, Windowed) and (until := node.window.kept_until_sql(HAPPENED))
        }
        return Corrections(Replayed(changes, absorbed), rows, self._marks(asked, planned))

    def _corrected(self, windows: tuple[Node, ...]) -> list[Node]:
        """The operators themselves, and comparisons of what they make."""
        found = {node for one in self._job.outputs for node in walk(one.node)}
        compared = [node for node in found if isinstance(node, Compared) and node.windowed in windows]
        return [*windows, *compared]

    def _near(
        self, late: DataFrame, frames: Mapping[Source, DataFrame], windows: tuple[Node, ...]
    ) -> dict[Source, DataFrame]:
        """Of all rows those whose windows any of the late ones may have changed, or are compared with such."""
        bounds = late.agg(f.min("time").alias("first"), f.max("time").alias("last")).collect()[0]
        compared = [node for node in self._corrected(windows) if isinstance(node, Compared)]
        longest_us = max(node.window.longest_us for node in windows if isinstance(node, Windowed))
        wide_us = 2 * longest_us + sum(map(_reach_us, compared))
        wide = timedelta(microseconds=wide_us)
        time = f.col(AT)["time"]
        near = time.between(f.lit(bounds["first"] - wide), f.lit(bounds["last"] + wide))
        return {source: frame.where(near) for source, frame in frames.items()}

    def _corrections(self, node: Node, frames: Mapping[Source, DataFrame], then: Past, now: Past) -> DataFrame:
        """As the operator would emit them."""
        operator = self._operator(node)
        sides = [
            _affected(node, batch_rows(node, frames, past), frames, then).withColumn(SIDE, f.lit(side))
            for past, side in ((then, BEFORE_SIDE), (now, AFTER_SIDE))
        ]
        changed = paired(sides[0].unionByName(sides[1]), tuple(operator.key.names))
        return changed.select(
            *(f.col(quoted(one.name)).cast(one.dataType).alias(one.name) for one in spark_schema(operator.output))
        )

    def _kept(
        self, node: Windowed, until: str, frames: Mapping[Source, DataFrame], late: DataFrame, watermark_us: int | None
    ) -> DataFrame:
        """Late rows that lie in windows whose state is still there."""
        operator = self._operator(node)
        assert isinstance(operator, WindowOperator)
        below_us = operator.work.drop_below(operator.at(None, watermark_us).clock)
        rows = _only(batch_rows(node.input, frames), late)
        return rows if below_us is None else rows.where(f.expr(until) > f.lit(below_us))

    def _operator(self, node: Node) -> WindowOperator | CompareOperator:
        found = next(one.operators[node] for one in self._context.resolved.values() if node in one.operators)
        assert isinstance(found, WindowOperator | CompareOperator)
        return found

    def _marks(self, late: DataFrame, planned: PlannedBatch) -> pa.Table:
        values = []
        for row in late.select("operator", *POSITION).distinct().toArrow().to_pylist():
            source = self._job.sources[row["source"]]
            said = {
                "admitted": True, "operator": row["operator"], "stream": source.name, "topic": source.topic,
                "partition": row["partition"], "offset": row["offset"], "batch": planned.batch,
            }  # fmt: skip
            values.append(json.dumps(said, ensure_ascii=False).encode())
        return records([None] * len(values), values, [planned.time_ms] * len(values))


def _ends(client: Client, topic: str) -> dict[str, dict[int, int]]:
    places = [TopicPartition(topic, number) for number in range(client.partitions([topic])[topic])]
    return {topic: {place.partition: end for place, end in client.offsets(dict.fromkeys(places, LATEST)).items()}}


def _reach_us(node: Compared) -> int:
    window = node.windowed.window
    assert isinstance(window, AlignedWindow)
    return max((reach_us(window, ago) for ago in agos_of(node.comparisons)), default=0)


def _only(rows: DataFrame, late: DataFrame) -> DataFrame:
    return rows.join(late, [rows[AT][name] == late[name] for name in POSITION], "left_semi")


def _affected(node: Node, windows: DataFrame, frames: Mapping[Source, DataFrame], then: Past) -> DataFrame:
    """Of windows those in which late rows lie. Sums of others might differ in their last digit, and that is no news."""
    if not isinstance(node, Windowed):
        return windows
    late = _only(batch_rows(node.input, frames), then.late[node])
    own = {name: f"_late{number}" for number, name in enumerate(node.by)}
    late = late.select(*(f.col(quoted(name)).alias(one) for name, one in own.items()), f.col(AT)["time"].alias(WHEN))
    same_key = [f.col(quoted(name)).eqNullSafe(f.col(one)) for name, one in own.items()]
    return node.window.affected(windows, late, same_key)
