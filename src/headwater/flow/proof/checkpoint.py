"""A checkpoint keeps what a proof computed, so that a view can be proved when the log no longer has its first records.

    <job>/proved/revenue.json          position and batch, what the view is made from, topics, file and its SHA-256
    <job>/proved/revenue-41.parquet    rows of the one operator that the view is made by

It is of the plain query, and of nothing that the job keeps: of a table that is read or the latest of a stream the row
of each key as it was read, of aggregates their results. It is written only after a proof, the file before the note. A
later proof reads what lies behind the position, and puts both together; it may leave the next one.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.errors import FlowError
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import Planned
from headwater.flow.declare.topology.nodes import (
    STATEFUL,
    Aggregate,
    Changes,
    Latest,
    Node,
    Source,
    SourceTable,
    walk,
)
from headwater.flow.deploy.descriptions import describe
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.plan.planned_batches import offsets, partition_offsets
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.proof.batch_query import batch_rows, known_of
from headwater.flow.proof.certificate import inexact, used_versions
from headwater.flow.proof.plain_query import MERGED, POSITION, aggregated, newest_whole
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.row_steps import PATH
from headwater.flow.rows.sources import AT
from headwater.log.storage import LocalStorage, replace_durably

Position = Mapping[str, Mapping[int, int]]
FOLDER = "proved"
SCOPE = "It keeps tables that are read, latest(...), and count, sum, min and max of a stream that no operator made."
KEPT: tuple[type[Node], ...] = (SourceTable, Latest, Aggregate)


@dataclass(frozen=True)
class Checkpoint:
    """What stands in its note."""

    batch: int
    position: Position
    made_from: str
    topics: Mapping[str, str]
    """Their ids: a topic that was made again has another."""
    schema: str
    file: str
    sha256: str
    versions: Mapping[str, str]


def kept_operator(planned: Planned) -> Node:
    """The operator whose rows are all that a view depends on. FlowError if it is not of a kind that is kept."""
    operators = [one for one in walk(planned.node) if isinstance(one, (*STATEFUL, Changes))]
    (first, *others) = operators
    if others or type(first) not in KEPT:
        other = next((one for one in operators if type(one) not in KEPT), operators[-1])
        raise FlowError(
            f"view {planned.name} has no checkpoint: it is made by {type(other).__name__.lower()} at {other.place}",
            SCOPE,
        )
    return first


def computed(planned: Planned, frames: Mapping[Source, DataFrame], past: Past) -> DataFrame:
    """What a checkpoint keeps."""
    node = kept_operator(planned)
    known = known_of(node, past)
    if isinstance(node, SourceTable):
        return newest_whole(frames[node], node.key, *POSITION, known=known)
    if isinstance(node, Latest):
        return newest_whole(batch_rows(node.input, frames, past), node.key, AT, PATH, known=known)
    assert isinstance(node, Aggregate)
    rows = batch_rows(node.input, frames, past)
    specs = read_aggregates(node, rows).specs
    found = aggregated(node, rows, known)
    for spec in specs:
        if spec.kind not in MERGED or (spec.kind == "sum" and inexact(found.schema[spec.name])):
            raise FlowError(
                f"view {planned.name} has no checkpoint: column {spec.name} is a {spec.kind}, which those of two parts "
                "of the rows do not make exactly",
                SCOPE,
            )
    return found.select(*node.key, *(spec.name for spec in specs))


def keep(
    folder: JobFolder, client: Client, planned: Planned, rows: DataFrame, batch: int, position: Position
) -> Checkpoint:
    """Durably: the one before counts until this one is whole."""
    content = io.BytesIO()
    pq.write_table(rows.toArrow(), content)
    name, before = f"{FOLDER}/{planned.name}-{batch}.parquet", folder.read(_note(planned))
    made = Checkpoint(
        batch, position, _made_from(planned), client.topic_ids(position), rows.schema.json(), name,
        hashlib.sha256(content.getvalue()).hexdigest(), used_versions(),
    )  # fmt: skip
    (folder.path / FOLDER).mkdir(exist_ok=True)
    replace_durably(LocalStorage(folder.path), name, content.getvalue())
    folder.write(_note(planned), asdict(made))
    if before is not None and before["file"] != name:
        (folder.path / before["file"]).unlink(missing_ok=True)
    return made


def usable(folder: JobFolder, client: Client, planned: Planned, position: Position) -> Checkpoint | None:
    """The checkpoint of a view at a position, or None if there is none. FlowError if it is there and of no use."""
    row = folder.read(_note(planned))
    if row is None:
        return None
    kept = Checkpoint(**{**row, "position": offsets(row["position"])})
    starts, ends = partition_offsets(kept.position), partition_offsets(position)
    firsts = client.offsets(dict.fromkeys(ends, EARLIEST))
    ahead = any(starts.get(place, 0) > ends.get(place, 0) for place in {*starts, *ends})
    gap = next((place for place, first in firsts.items() if first > starts.get(place, 0)), None)
    whys = {
        "it was made from other code": kept.made_from != _made_from(planned),
        "a topic was deleted and made again": kept.topics != client.topic_ids(position),
        "the view was taken back to before it": ahead,
        f"records of {gap.topic}/{gap.partition} behind it are gone, too" if gap else "": gap is not None,
    }
    if why := next((why for why, holds in whys.items() if holds), None):
        raise FlowError(
            f"the checkpoint of view {planned.name} is of no use: {why}",
            "Keep the topic's records (retention.ms=-1, or an archive), and prove with --checkpoint before they go.",
        )
    return kept


def read(folder: JobFolder, session: SparkSession, planned: Planned, kept: Checkpoint) -> tuple[Node, DataFrame]:
    """The operator, and what was kept of it."""
    try:
        content = (folder.path / kept.file).read_bytes()
    except OSError as error:
        raise folder.damaged(kept.file, str(error.strerror)) from None
    if hashlib.sha256(content).hexdigest() != kept.sha256:
        raise folder.damaged(kept.file, "its checksum is not that of its note")
    schema = StructType.fromJson(json.loads(kept.schema))
    return kept_operator(planned), session.createDataFrame(pq.read_table(io.BytesIO(content)), schema)


def _note(planned: Planned) -> str:
    return f"{FOLDER}/{planned.name}.json"


def _made_from(planned: Planned) -> str:
    """Of the steps, and of the types of what they read."""
    reads: list[Any] = [str(one.schema) for one in walk(planned.node) if isinstance(one, Source)]
    return hashlib.sha256(json.dumps([describe(planned.node), reads], sort_keys=True).encode()).hexdigest()
