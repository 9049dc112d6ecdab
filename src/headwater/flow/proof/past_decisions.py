"""What a job has decided by time up to a batch, read from its folder and its topics: for the proof of its windows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.commit.job_context import Environment
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import Job, Planned
from headwater.flow.declare.topology.naming import late_topic
from headwater.flow.declare.topology.nodes import (
    ARRIVING,
    AsOfJoin,
    Dedupe,
    IntervalJoin,
    Node,
    Recognized,
    Windowed,
    walk,
)
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.late.late_records import NO_ROW
from headwater.flow.plan.batch_context import batch_context
from headwater.flow.plan.delays import Passed
from headwater.flow.plan.processing_time import RecordedBatch, processed_batches, recorded_batches
from headwater.flow.proof.by_batch.arrivals import Arrivals
from headwater.flow.proof.rebuilt_late import RebuiltBatches, rebuilt_batches, still_counts
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.sources import load
from headwater.record import TopicPartition

LATE_ROWS = (
    "operator string, batch long, stream string, partition int, offset long, time timestamp, admitted boolean, "
    "watermark timestamp, rebuilt string, topic string, reason string, alone boolean"
)
POSITION = ("operator", "source", "partition", "offset")


def past_of(environment: Environment, app: str, job: Job, planned: Planned, folder: JobFolder, batch: int) -> Past:
    """Of an output that holds a batch."""
    client = environment.client
    by_time = (Windowed, IntervalJoin, AsOfJoin, Dedupe, Recognized)
    timed = [node for node in walk(planned.node) if isinstance(node, by_time)]
    arrivals = arrivals_of(client, app, job, planned, folder, batch)
    if not timed:
        return Past(arrivals=arrivals)
    late = late_rows(environment, app, job, folder, batch)
    chosen: dict[Node, DataFrame] = {}
    declared = None
    if late is not None:
        _refuse_if_gone(client, job, planned, late_topic(app, job.name))
        # Whether an event has no partner is what a proof finds out by itself.
        late = late.where(~f.col("alone"))
        distinct = late.select(*POSITION, "watermark").distinct()
        chosen = {node: distinct.where(f.col("operator") == job.operators[node]) for node in timed}
        declared = late.where(f.col("operator").isin([job.operators[node] for node in timed]))
    return Past(watermarks_of(job, folder, batch), chosen, declared, arrivals)


def arrivals_of(client: Client, app: str, job: Job, planned: Planned, folder: JobFolder, batch: int) -> Arrivals | None:
    """Which rows came in each batch, for an output that depends on it; None for others."""
    nodes = walk(planned.node)
    processing = any(isinstance(node, Windowed) and node.processing for node in nodes)
    if not processing and not any(isinstance(node, ARRIVING) for node in nodes):
        return None
    if processing:  # a rebuild of such an output takes the batches of the job
        rebuilt, read = RebuiltBatches([], -1), processed_batches(client, app, job.name)
    else:
        operators = [job.operators[one] for one in nodes if one in job.operators]
        rebuilt = rebuilt_batches(folder, operators) or RebuiltBatches([], -1)
        read = recorded_batches(client, app, job.name, after=rebuilt.until)
    found = [one for one in read if one.batch <= batch]
    if (found[-1].batch if found else rebuilt.until) < batch:
        found.append(_under_way(job, folder, batch, found[-1].batch if found else rebuilt.until))
    return Arrivals(job.sources, [*rebuilt.batches, *found])


def _under_way(job: Job, folder: JobFolder, batch: int, before: int) -> RecordedBatch:
    """A batch that a view holds and its job has not finished; a plan says the same of it."""
    planned, last = folder.planned_or_none(batch), folder.finished(batch - 1)
    if planned is None or before != batch - 1 or (last is None and batch > 0):
        raise FlowError(f"batch {batch} of job {job.name} is not in its accounts yet", "Let the job run on.")
    times = batch_context(job, planned, last).times
    return RecordedBatch(batch, planned.end, times.processed_us, times.watermark_us)


def _refuse_if_gone(client: Client, job: Job, planned: Planned, topic: str) -> None:
    places = [TopicPartition(topic, number) for number in range(client.partitions([topic])[topic])]
    if gone := max(client.offsets(dict.fromkeys(places, EARLIEST)).values()):
        raise FlowError(
            f"view {planned.name} cannot be proved: which rows were late for job {job.name} is no longer known, "
            f"since offsets 0 to {gone - 1} of {topic} are gone",
            "Keep its records (retention.ms=-1, or an archive) if views that time decides are to be provable.",
        )


def watermarks_of(job: Job, folder: JobFolder, batch: int) -> Passed:
    """Those of a batch; they were known before it began, and so also of one that is not finished."""
    record = folder.finished(batch)
    if record is not None:
        return record.passed
    before, planned = folder.finished(batch - 1), folder.planned_or_none(batch)
    if planned is None or (before is None and batch > 0):
        raise FlowError(
            f"how far time had come in batch {batch} of job {job.name} is no longer known",
            "Let the job run on.",
        )
    return batch_context(job, planned, before).times.passed


def late_rows(environment: Environment, app: str, job: Job, folder: JobFolder, batch: int) -> DataFrame | None:
    """Those that were late up to a batch, and had not been replayed: operator, source, partition, offset,
    time. A row that was made into several is there as often."""
    topic = late_topic(app, job.name)
    if topic not in environment.client.topics():
        return None
    reach = {name: value for name, value in environment.where.items() if name in ("address", "data")}
    rows = load(environment.session.read, {**reach, "topic": topic, "format": "json", "schema": LATE_ROWS})
    source = f.coalesce(*(f.when(f.col("stream") == one.name, number) for number, one in enumerate(job.sources)))
    known = rows.where((f.col("batch") <= batch) & still_counts(folder)).withColumn("source", source)
    admitted = known.where("admitted").select(*POSITION).distinct()
    # Those of earlier versions say it in words alone.
    alone = f.coalesce(f.col("alone"), f.col("reason").startswith(NO_ROW), f.lit(False)).alias("alone")
    left = known.where("admitted is null").join(admitted, list(POSITION), "anti")
    return left.select(*POSITION, "time", "watermark", "batch", "topic", "reason", alone)
