"""Prove a view: recompute it in batch, from the log, at the view's own position, and compare."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

from headwater.errors import FlowError
from headwater.flow.commit.batch_evaluation import SHUFFLE_PARTITIONS
from headwater.flow.commit.job_context import Environment
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import Job, Planned
from headwater.flow.declare.topology.nodes import Source
from headwater.flow.formats.schema import quoted
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.local.session import is_local
from headwater.flow.operators.windows.step import END, START
from headwater.flow.plan.planned_batches import partition_offsets
from headwater.flow.proof import checkpoint
from headwater.flow.proof.approximation import refuse_derived
from headwater.flow.proof.batch_query import batch_rows, input_rows
from headwater.flow.proof.by_batch.arrivals import refuse_compacted
from headwater.flow.proof.certificate import Certificate, Content, content_of
from headwater.flow.proof.tolerances import BOUNDS, RULE, bounds_among, near, rule_of
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.row_steps import visible
from headwater.flow.rows.sources import AT, frames_of, load, source_options
from headwater.flow.source.options import written_offsets
from headwater.record import TopicPartition
from headwater.views.query import Query
from headwater.views.store import ViewStore

PROVED, RESTS_ON_LATE, DIFFERENT, UNPROVABLE = "proved", "rests on late rows", "different", "unprovable"
ROWS_PER_PARTITION = 100_000
"""Of a shuffle, at least: a proof of few rows spent most of its time in starting Spark's 200 tasks for each."""
SHOWN_MAX = 10
OFFSETS_MAX = 5
Position = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Wanted:
    """What is to be kept of a proof, if the view is what the log says."""

    certificate: bool = False
    checkpoint: bool = False


NOTHING = Wanted()


@dataclass(frozen=True)
class Difference:
    key: Mapping[str, Any]
    view: Mapping[str, Any] | None
    """What the view holds; None: it lacks the key."""
    log: Mapping[str, Any] | None
    """What the log says; None: there should be no such key."""
    offsets: list[str]
    """Newest records that touch the key, as topic/partition@offset."""


@dataclass(frozen=True)
class DeclaredLate:
    """A row that the job left out, or used only from then on, because it was late."""

    record: str
    """As topic/partition@offset."""
    batch: int
    reason: str


@dataclass(frozen=True)
class Verified:
    view: str
    position: Mapping[str, Mapping[int, int]]
    rows: int
    different: int
    """Keys whose rows are not what the log says, with what the job declared late left out where time decides."""
    shown: list[Difference]
    late: int = 0
    """Rows that its operators declared late."""
    late_shown: list[DeclaredLate] = field(default_factory=list)
    otherwise: int = 0
    """Of a view that does not differ: keys that would be otherwise if none of them had been."""
    batch: int = -1
    content: Content | None = None
    """What the log says, of a view that does not differ, if a certificate is wanted."""
    since: Mapping[str, Mapping[int, int]] | None = None
    """The position of the checkpoint that the proof rests on, as records before it are gone."""
    kept: bool = False
    """It has left a checkpoint."""
    unkept: str = ""
    """Why it has left none that was wanted."""

    @property
    def result(self) -> str:
        return DIFFERENT if self.different else RESTS_ON_LATE if self.otherwise else PROVED


def verify(
    environment: Environment, job: Job, planned: Planned, store: ViewStore, folder: JobFolder,
    past: Callable[[int], Past], wanted: Wanted = NOTHING,
) -> Verified:  # fmt: skip
    """Compare a view with the log; the view may go on being written meanwhile. `past` says what a batch of its job has
    decided by time."""
    with store.snapshot(planned.name) as snapshot:
        position, shape, batch = snapshot.mark.position, snapshot.shape, snapshot.mark.batch
        stored = snapshot.select(Query())
    session, client, since = environment.session, environment.client, None
    if _gone(client, position) and (since := checkpoint.usable(folder, client, planned, position)) is None:
        _refuse_if_gone(client, planned, position)
    known, key = past(batch), tuple(shape.key)
    fit_shuffle(session, position)
    if since is not None:
        known = replace(known, known=checkpoint.read(folder, session, planned, since))
    frames = frames_at(session, job, environment.where, position, {} if since is None else since.position)
    compared = _differing(session, planned, frames, known, stored, key)
    different, first = _counted(compared, compared)
    if different and known.arrivals is not None:
        refuse_compacted(client, planned, position)
    shown = [_difference(row.asDict(recursive=True), planned, frames, known) for row in first]
    late, late_shown = _declared_late(known)
    otherwise = 0
    if late and not different:
        otherwise = _differing(session, planned, frames, replace(known, late={}), stored, key).count()
    verified = Verified(planned.name, position, len(stored), different, shown, late, late_shown, otherwise, batch)
    content = content_of(expected_rows(planned, frames, known)) if wanted.certificate and not different else None
    verified = replace(verified, content=content, since=None if since is None else since.position)
    if not wanted.checkpoint or verified.result != PROVED:
        return verified
    try:
        rows = checkpoint.computed(planned, frames, known)
    except FlowError as error:
        return replace(verified, unkept=str(error))
    checkpoint.keep(folder, client, planned, rows, batch, position)
    return replace(verified, kept=True)


def recomputed(environment: Environment, job: Job, planned: Planned, certificate: Certificate, past: Past) -> Content:
    """What the log says today at the position of a certificate."""
    _refuse_if_gone(environment.client, planned, certificate.position)
    fit_shuffle(environment.session, certificate.position)
    frames = frames_at(environment.session, job, environment.where, certificate.position)
    return content_of(expected_rows(planned, frames, past))


def expected_rows(planned: Planned, frames: Mapping[Source, DataFrame], past: Past) -> DataFrame:
    """What a view should hold, with the columns that tolerances look at."""
    expected = batch_rows(planned.node, frames, past)
    refuse_derived(expected, planned.name)
    bounds = [name for name in bounds_among(expected.schema) if name in expected.columns]
    return expected.select(*map(quoted, (*visible(expected), *bounds)))


def _differing(
    session: SparkSession, planned: Planned, frames: Mapping[Source, DataFrame], past: Past,
    stored: list[dict[str, Any]], key: tuple[str, ...],
) -> DataFrame:  # fmt: skip
    """Keys of the view whose rows are not what one plain query gives."""
    expected = expected_rows(planned, frames, past)
    names = visible(expected)
    frame_schema = StructType([expected.schema[name] for name in names])
    schema = arrow_schema(frame_schema)
    rows = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in stored], schema=schema)
    return _compared(expected, session.createDataFrame(rows, frame_schema), key)


def _counted(rows: DataFrame, ordered: DataFrame) -> tuple[int, list[Row]]:
    """How many there are, and the first of them: where these are all, they are computed once."""
    first = ordered.limit(SHOWN_MAX + 1).collect()
    return len(first) if len(first) <= SHOWN_MAX else rows.count(), first[:SHOWN_MAX]


def _declared_late(past: Past) -> tuple[int, list[DeclaredLate]]:
    """How many rows, and the first of them."""
    if past.declared is None:
        return 0, []
    rows = past.declared.groupBy("topic", "partition", "offset").agg(f.min("batch").alias("batch"), f.min("reason"))
    count, first = _counted(rows, rows.orderBy("batch", "topic", "partition", "offset"))
    return count, [DeclaredLate(f"{topic}/{place}@{offset}", batch, why) for topic, place, offset, batch, why in first]


def _gone(client: Client, position: Position) -> dict[TopicPartition, int]:
    """The first offsets of partitions whose first records are gone."""
    firsts = client.offsets(dict.fromkeys(partition_offsets(position), EARLIEST))
    return {place: first for place, first in firsts.items() if first > 0}


def _refuse_if_gone(client: Client, planned: Planned, position: Position) -> None:
    for place, first in _gone(client, position).items():
        raise FlowError(
            f"view {planned.name} cannot be proved: offsets 0 to {first - 1} of {place.topic}/{place.partition} "
            "are gone",
            "Keep the topic's records (retention.ms=-1, or an archive), or prove it with --checkpoint before they go.",
        )


def frames_at(
    session: SparkSession, job: Job, where: Mapping[str, str], position: Position, since: Position | None = None
) -> dict[Source, DataFrame]:
    """All rows of a job's sources up to a position, from the beginning or from another position."""
    edges = {"endingOffsets": position, **({"startingOffsets": since} if since else {})}
    said = {name: json.dumps(written_offsets(partition_offsets(edge))) for name, edge in edges.items()}
    reach = {name: value for name, value in where.items() if name in ("address", "data")}
    return frames_of(job, load(session.read, {**source_options(job, reach), **said, "poisoned": "drop"}))


def fit_shuffle(session: SparkSession, position: Mapping[str, Mapping[int, int]]) -> None:
    """As few partitions as the rows need, unless the user has set a number. The session is the proof's own: in that of
    a job the number is that of its shards."""
    if is_local(session) or session.sparkContext.getConf().contains(SHUFFLE_PARTITIONS):
        return
    rows = sum(offset + 1 for parts in position.values() for offset in parts.values())
    needed = max(session.sparkContext.defaultParallelism, -(-rows // ROWS_PER_PARTITION))
    session.conf.set(SHUFFLE_PARTITIONS, min(needed, int(session.conf.get(SHUFFLE_PARTITIONS) or needed)))


def _compared(expected: DataFrame, actual: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Keys whose rows are not the same on both sides."""

    def whole(frame: DataFrame, name: str) -> DataFrame:
        row = f.struct(*(f.col(quoted(column)) for column in frame.columns)).alias(name)
        columns = [f.col(quoted(column)) for column in key] or [f.lit(0)]  # without a key there is one row
        return frame.select(*(column.alias(f"_key{place}") for place, column in enumerate(columns)), row)

    one, other = whole(expected, "log"), whole(actual, "view")
    on = [one[f"_key{place}"].eqNullSafe(other[f"_key{place}"]) for place in range(max(len(key), 1))]
    joined = one.join(other, on, "full_outer").select("log", "view")
    same = f.lit(True)
    for one_of in expected.schema:
        if one_of.name in actual.columns:
            same = same & _same(f.col("log"), f.col("view"), one_of)
    present = f.col("log").isNotNull() & f.col("view").isNotNull()
    return joined.where(~(present & same))


def _same(log: Column, view: Column, field: StructField) -> Column:
    one, other = log[field.name], view[field.name]
    if RULE in field.metadata:
        return rule_of(field.metadata[RULE])(one, other, log[field.metadata[BOUNDS]])
    if isinstance(field.dataType, DoubleType | FloatType):
        return near(one, other, f.lit(0.0))
    return one.eqNullSafe(other)


def _difference(row: dict[str, Any], planned: Planned, frames: Mapping[Source, DataFrame], past: Past) -> Difference:
    row = {side: _visible(values) for side, values in row.items()}
    there = row["log"] or row["view"]
    key = {name: there[name] for name in planned.output.key}
    return Difference(key, row["view"], row["log"], _offsets(key, planned, frames, past))


def _visible(values: dict[str, Any] | None) -> dict[str, Any] | None:
    return values and {name: value for name, value in values.items() if not name.startswith("_")}


def _offsets(key: Mapping[str, Any], planned: Planned, frames: Mapping[Source, DataFrame], past: Past) -> list[str]:
    rows = input_rows(planned.node, frames, past)
    if rows is None:
        return []
    topics = [source.topic for source in frames]
    touching = rows
    for name, value in key.items():
        if name in rows.columns:
            touching = touching.where(f.col(quoted(name)).eqNullSafe(f.lit(value)))
    if START in key and END in key:
        touching = touching.where(f.col(AT)["time"].between(key[START], key[END]))
    newest = touching.select(f"{AT}.*").orderBy(f.desc("time"), f.desc("offset")).limit(OFFSETS_MAX).collect()
    known = [place for place in newest if place.source >= 0]  # changes of a table lie nowhere
    return [f"{topics[place.source]}/{place.partition}@{place.offset}" for place in known]
