"""Windows by when rows were processed, for those who ask for it by name.

All rows of a batch are processed at the moment at which it was planned, and never before the batch that came before it.
That moment is in the plan of the batch, so that one that comes again has the same; and the accounts topic keeps it,
with how far each batch has read, so that it is known of every row for as long as the accounts are.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.commit.topic_values import TopicValues
from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.naming import accounts_topic
from headwater.flow.declare.topology.nodes import Windowed, walk
from headwater.flow.kafka.client import Client
from headwater.flow.plan.planned_batches import Offsets, offsets
from headwater.flow.plan.timestamps import moment
from headwater.flow.rows.event_positions import with_time
from headwater.flow.rows.row_batch import AT

RANGES = "source int, partition int, first long, end long, processed timestamp"


class Processed(NamedTuple):
    """When a batch was processed, and where it ended."""

    batch: int
    end: Offsets
    at_us: int


def uses_processing_time(job: Job) -> bool:
    return any(isinstance(node, Windowed) and node.processing for one in job.outputs for node in walk(one.node))


def processed_batches(client: Client, app: str, job: str) -> list[Processed]:
    """Of a job, from its first batch on, as its accounts say. FlowError if they do not reach back to it."""
    return read_processed(map(json.loads, TopicValues(accounts_topic(app)).read_on(client)), app, job)


def read_processed(accounts: Iterable[Mapping[str, Any]], app: str, job: str) -> list[Processed]:
    found: dict[int, Processed] = {}
    newest = -1
    for row in accounts:
        if row["job"] != job or row.get("processed_us") is None:
            continue
        if row["batch"] < newest:  # a job that was built again
            found.clear()
        newest = row["batch"]
        found[newest] = Processed(newest, offsets(row["end"]), row["processed_us"])
    if found and min(found) > 0:
        raise FlowError(
            f"when batches before {min(found)} of job {job} were processed is no longer known",
            f"Keep the records of topic {accounts_topic(app)} (retention.ms=-1) for as long as those of the streams.",
        )
    return [found[batch] for batch in sorted(found)]


def processed_ranges(session: SparkSession, job: Job, batches: Iterable[Processed]) -> DataFrame:
    """For each part of a partition when it was processed."""
    ranges: list[tuple[int, int, int, int, datetime]] = []
    before: dict[tuple[int, int], int] = {}
    for one in batches:
        for number, source in enumerate(job.sources):
            for partition, end in one.end.get(source.topic, {}).items():
                first = before.get((number, partition), 0)
                if end > first:
                    ranges.append((number, partition, first, end, moment(one.at_us)))
                before[number, partition] = end
    return session.createDataFrame(ranges, RANGES)


def as_processed(rows: DataFrame, ranges: DataFrame) -> DataFrame:
    """Rows of the log as if each had happened when it was processed."""
    position = rows[AT]
    on = [position[name] == ranges[name] for name in ("source", "partition")]
    inside = (position["offset"] >= ranges["first"]) & (position["offset"] < ranges["end"])
    joined = rows.join(f.broadcast(ranges), [*on, inside])
    timed = with_time(joined, f.col("processed"))
    return timed.select(*rows.columns)
