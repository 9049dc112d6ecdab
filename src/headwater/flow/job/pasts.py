"""What a job has decided by time up to a batch, read from what it left behind: for whoever proves its windows."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.declare.graph import Job, Planned
from headwater.flow.declare.naming import late_topic
from headwater.flow.declare.nodes import AsOfJoin, IntervalJoin, Node, Windowed, walk
from headwater.flow.job.delays import Passed
from headwater.flow.job.folder import JobFolder
from headwater.flow.job.lateness import times_of
from headwater.flow.job.processing_time import processed_batches, processed_ranges
from headwater.flow.job.rebuilt_late import still_counts
from headwater.flow.job.sources import load
from headwater.flow.job.window_query import Past
from headwater.flow.kafka.client import Client

LATE_ROWS = (
    "operator string, batch long, stream string, partition int, offset long, time timestamp, admitted boolean, "
    "watermark timestamp, rebuilt string"
)
POSITION = ("operator", "source", "partition", "offset")


def past_of(
    session: SparkSession, app: str, job: Job, planned: Planned, folder: JobFolder, batch: int,
    where: Mapping[str, str], client: Client,
) -> Past:  # fmt: skip
    """Of an output that holds a batch."""
    windows = [node for node in walk(planned.node) if isinstance(node, Windowed | IntervalJoin | AsOfJoin)]
    if not windows:
        return Past()
    late = late_rows(session, app, job, folder, batch, where, client)
    chosen: dict[Node, DataFrame] = {}
    if late is not None:
        distinct = late.select(*POSITION, "watermark").distinct()
        chosen = {node: distinct.where(f.col("operator") == job.operators[node]) for node in windows}
    if not any(isinstance(node, Windowed) and node.processing for node in windows):
        return Past(watermarks_of(job, folder, batch), chosen)
    batches = [one for one in processed_batches(client, app, job.name) if one.batch <= batch]
    if not batches or batches[-1].batch < batch:
        raise FlowError(f"batch {batch} of job {job.name} is not in its accounts yet", "Let the job run on.")
    ranges = processed_ranges(session, job, batches)
    return Past(watermarks_of(job, folder, batch), chosen, ranges, batches[-1].at_us)


def watermarks_of(job: Job, folder: JobFolder, batch: int) -> Passed:
    """Those of a batch; they were known before it began, and so also of one that is not finished."""
    record = folder.finished(batch)
    if record is not None:
        return record.passed
    before, end = folder.finished(batch - 1), folder.planned_or_none(batch)
    if end is None or (before is None and batch > 0):
        raise FlowError(
            f"how far time had come in batch {batch} of job {job.name} is no longer known",
            "Let the job run on.",
        )
    start = before.end if before else {}
    tick = folder.planned_tick(batch)
    times = times_of(job.sources, before, start, end, tick)
    return times.stand_still().passed if tick.admits else times.passed


def late_rows(
    session: SparkSession, app: str, job: Job, folder: JobFolder, batch: int, where: Mapping[str, str], client: Client
) -> DataFrame | None:
    """Those that had come too late up to a batch, and had not been taken back: operator, source, partition, offset,
    time. A row that was made into several is there as often."""
    topic = late_topic(app, job.name)
    if topic not in client.topics():
        return None
    reach = {name: value for name, value in where.items() if name in ("address", "data")}
    rows = load(session.read, {**reach, "topic": topic, "format": "json", "schema": LATE_ROWS})
    source = f.coalesce(*(f.when(f.col("stream") == one.name, number) for number, one in enumerate(job.sources)))
    known = rows.where((f.col("batch") <= batch) & still_counts(folder)).withColumn("source", source)
    admitted = known.where("admitted").select(*POSITION).distinct()
    return known.where("admitted is null").join(admitted, list(POSITION), "anti").select(*POSITION, "time", "watermark")
