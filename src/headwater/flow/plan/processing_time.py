"""Windows by when rows were processed, for those who ask for it by name.

All rows of a batch are processed at the moment at which it was planned, and never before the batch that came before it.
That moment is in the plan of the batch, so that one that comes again has the same; and the accounts topic keeps it,
with how far each batch has read, so that it is known of every row for as long as the accounts are.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from headwater.errors import FlowError
from headwater.flow.commit.topic_values import TopicValues
from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.naming import accounts_topic
from headwater.flow.declare.topology.nodes import ARRIVING, Windowed, walk
from headwater.flow.kafka.client import Client
from headwater.flow.plan.planned_batches import Offsets, offsets
from headwater.flow.plan.timestamps import EPOCH


class RecordedBatch(NamedTuple):
    """What the accounts say of a batch: where it ended, and when."""

    batch: int
    end: Offsets
    at_us: int | None = None
    """When it was processed, if windows want to know."""
    watermark_us: int | None = None


def uses_processing_time(job: Job) -> bool:
    return any(isinstance(node, Windowed) and node.processing for one in job.outputs for node in walk(one.node))


def goes_by_batches(job: Job) -> bool:
    """Does a result depend on which rows came in one batch? Then the accounts are kept for as long as the job is."""
    return uses_processing_time(job) or any(
        isinstance(node, ARRIVING) for one in job.outputs for node in walk(one.node)
    )


def processed_batches(client: Client, app: str, job: str) -> list[RecordedBatch]:
    """The batches of a job, each with when it was processed."""
    found = recorded_batches(client, app, job)
    timed = [one for one in found if one.at_us is not None]
    if timed and timed[0].batch > 0:
        raise _unknown(timed[0].batch, app, job)
    return timed


def recorded_batches(client: Client, app: str, job: str, *, after: int = -1) -> list[RecordedBatch]:
    """Of a job, all after one, as its accounts say. FlowError if they do not reach back so far."""
    return read_recorded(map(json.loads, TopicValues(accounts_topic(app)).read_on(client)), app, job, after=after)


def read_recorded(accounts: Iterable[Mapping[str, Any]], app: str, job: str, *, after: int = -1) -> list[RecordedBatch]:
    found: dict[int, RecordedBatch] = {}
    newest = -1
    for row in accounts:
        if row["job"] != job:
            continue
        if row["batch"] < newest:  # a job that was built again
            found.clear()
        newest = row["batch"]
        watermark_us = _microseconds(row["watermark"]) if row.get("watermark") else None
        found[newest] = RecordedBatch(newest, offsets(row["end"]), row.get("processed_us"), watermark_us)
    if lost := set(range(after + 1, newest + 1)) - found.keys():
        raise _unknown(max(lost) + 1, app, job)
    return [found[batch] for batch in sorted(found) if batch > after]


def _unknown(batch: int, app: str, job: str) -> FlowError:
    return FlowError(
        f"which rows batches before {batch} of job {job} took, and when, is no longer known",
        f"Keep the records of topic {accounts_topic(app)} (retention.ms=-1) for as long as those of the streams.",
    )


def _microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)
