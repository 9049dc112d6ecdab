"""From a job's declared sources to one frame that reads them all together, and back to a frame for each.

One source in Spark's sense reads all topics of a job, so that every batch advances them together in time.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructField, StructType

from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import (
    CHANGELOGS,
    LatestJoin,
    Source,
    SourceStream,
    SourceTable,
    SourceVersions,
    sources_of,
    walk,
)
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.formats.schema import Field, Schema, quoted
from headwater.flow.local.frames import local_frame
from headwater.flow.rows.deletion_keys import can_be_read, with_keys
from headwater.flow.source.options import parse_options
from headwater.flow.source.staging import staged_name

POSITION = ("_partition", "_offset", "_timestamp")
OF_TABLES = ("_key", "_tombstone")
AT, DELETED = "_at", "_deleted"


def source_options(job: Job, where: Mapping[str, str]) -> dict[str, str]:
    """The options of format("headwater") for all sources of a job; `where` says how the log is reached, and limits."""
    if len(job.sources) == 1:
        return {**where, **_only(job.sources[0])}
    streams = [_stream(source, f"s{number}") for number, source in enumerate(job.sources)]
    leading = {"leading": ",".join(sorted(topics))} if (topics := leading_topics(job)) else {}
    return {**where, **leading, "streams": json.dumps(streams)}


def leading_topics(job: Job) -> frozenset[str]:
    """Topics that nothing but tables are read from, and rows of which say since when they hold. Not where events meet
    such a table as it is: they want it as it was when they came."""
    dated = {source.topic for source in job.sources if isinstance(source, SourceVersions) and source.valid_from}
    streams = {source.topic for source in job.sources if not isinstance(source, CHANGELOGS)}
    met = {
        source.topic
        for output in job.outputs
        for node in walk(output.node)
        if isinstance(node, LatestJoin)
        for source in sources_of(node.right)
    }
    return frozenset(dated - streams - met)


def _only(source: Source) -> dict[str, str]:
    """Of a single source the columns come as they are, which costs less than one struct of them."""
    said = _stream(source, "")
    options = {f"format.{name}": value for name, value in said["options"].items()}
    plain = {name: said[name] for name in ("topic", "format", "schema", "tombstones")}
    time = {"time": said["time"]} if said["time"] else {}
    clock = {"clock": json.dumps(said["clock"])} if said["clock"] else {}
    return {**plain, **time, **clock, **options, "columns": ",".join(said["columns"])}


def staged_names(job: Job) -> dict[Source, str]:
    """Under which name the counts of each source lie in the stage (source/staging.py)."""
    before: Counter[str] = Counter()
    names = {}
    for source in job.sources:
        names[source] = staged_name(source.topic, before[source.topic])
        before[source.topic] += 1
    return names


def source_frame(job: Job) -> Schema:
    """The columns that a job's frame has."""
    return parse_options(source_options(job, {"data": "."})).frame


def _stream(source: Source, name: str) -> dict[str, Any]:
    keyed = isinstance(source, CHANGELOGS)
    return {
        "name": name,
        "topic": source.topic,
        "format": source.format,
        "schema": source.schema.ddl,
        "options": dict(source.format_options),
        "columns": [*POSITION, *(OF_TABLES if keyed else ())],
        "time": (source.time or "_timestamp") if isinstance(source, SourceStream) else None,
        "tombstones": "keep" if keyed else "poison",
        "clock": source.clock.to_json() if isinstance(source, SourceStream) else None,
    }


def load(reader: DataFrameReader, options: Mapping[str, str]) -> DataFrame:
    return reader.format("headwater").options(**options).load()


def frames_of(job: Job, frame: DataFrame) -> dict[Source, DataFrame]:
    """The rows of each source, with `_at`: when, and where in the log."""
    found: dict[Source, DataFrame] = {}
    for number, source in enumerate(job.sources):
        own = frame
        if len(job.sources) > 1:
            own = frame.where(f.col("_stream") == number).select(f"s{number}.*")
        found[source] = _with_position(source, own, number)
    return found


def _with_position(source: Source, frame: DataFrame, number: int) -> DataFrame:
    time = f.col("_timestamp")
    if isinstance(source, SourceStream) and source.time is not None:
        time = f.coalesce(f.col(quoted(source.time)), time)
    position = f.struct(
        time.alias("time"), f.lit(number).alias("source"), f.col("_partition").alias("partition"),
        f.col("_offset").alias("offset"),
    )  # fmt: skip
    frame = frame.withColumn(AT, position)
    if isinstance(source, SourceTable | SourceVersions):
        frame = _with_deletions(source, frame)
        if source.version_id:
            record = f.concat(f.lit(f"{source.topic}/"), f.col("_partition"), f.lit("@"), f.col("_offset"))
            frame = frame.withColumn(source.version_id, record)
    return frame.drop(*POSITION, *OF_TABLES)


def _with_deletions(source: SourceTable | SourceVersions, frame: DataFrame) -> DataFrame:
    """A record without a value deletes its key, which is then read from the key of the record."""
    if local_frame(frame) is not None:
        return _with_read_keys(source, frame)
    keys = Schema(tuple(Field(name, source.schema.field(name).type) for name in source.key))
    text = f.col("_key").cast("string")
    parsed = f.from_json(text, keys.ddl)
    columns = {DELETED: f.col("_tombstone")}
    for name in source.key:
        own = parsed[name]
        if len(source.key) == 1:
            kind = frame.schema[name].dataType
            own = f.coalesce(
                own, f.expr(f"try_cast(trim(both '\"' from cast(_key as string)) as {kind.simpleString()})")
            )
        columns[name] = f.coalesce(f.col(quoted(name)), own)
    return frame.withColumns(columns)


@dataclass(frozen=True)
class ReadKeys:
    """Reads keys that rows lack from the keys of their records, on Arrow."""

    key: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            made = {**with_keys(columns, self.key), DELETED: columns["_tombstone"]}
            yield pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def _with_read_keys(source: SourceTable | SourceVersions, frame: DataFrame) -> DataFrame:
    kinds = [source.schema.field(name).type for name in source.key]
    if not all(map(can_be_read, kinds)):
        raise Untranslatable(f"keys of {source.name} in types that Spark reads")
    made = StructType([*frame.schema, StructField(DELETED, BooleanType())])
    return frame.mapInArrow(ReadKeys(source.key), made)
