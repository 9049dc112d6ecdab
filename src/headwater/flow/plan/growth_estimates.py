"""How large state that grows for ever would be by now: estimated from a sample of the records that topics hold.

Records are read at several places of each partition, as many as a bound allows, and go through the steps before the
operator. Of a topic that is no larger than the bound the keys are counted. Of a larger one a key that is there several
times in the sample is taken to be known, and one that is there once to stand for the root of N / n keys, where n of N
records were read: the estimate errs by that root at most, either way (Charikar et al., "Towards estimation error
guarantees for distinct values", 2000).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pyarrow as pa

from headwater.flow.declare.app import App
from headwater.flow.declare.pictures.growth import growth_of
from headwater.flow.declare.topology.graph import Job, plan
from headwater.flow.declare.topology.nodes import Node
from headwater.flow.exchange.blocks import Address, Exchange
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.operate.reports import ROWS
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.resolution import resolve
from headwater.flow.prepare.inputs import LogSteps
from headwater.flow.rows.log_rows import LogInput
from headwater.flow.rows.prepared_blocks import Preparation
from headwater.flow.rows.reading import source_rows
from headwater.flow.rows.sources import source_options
from headwater.flow.source.options import parse_options
from headwater.flow.source.ranges import Columns, read_ranges
from headwater.flow.source.splitting import Range
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers
from headwater.record import TopicPartition

RECORDS_MAX, BYTES_MAX = 100_000, 64_000_000
"""Of a sample."""
PLACES = 8
"""At which a partition is read."""
HASH_BYTES = 8


@dataclass(frozen=True)
class Estimate:
    """Of the state of one operator. `read` of `records` in the topic were looked at."""

    rows: int
    bytes: int
    read: int
    records: int

    def __str__(self) -> str:
        size = f"{self.rows:,} rows and {_size(self.bytes)} by now"
        if self.read >= self.records:
            return f"{size}, before compression"
        return f"about {size}, before compression: estimated from {self.read:,} of {self.records:,} records"


def growth_estimates(app: App, client: Client, where: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """For people, by job and operator, of those that are given rows of a topic. `where` says how the log is reached."""
    found: dict[tuple[str, str], str] = {}
    with local_columns():
        for job in plan(app, explain):
            growing = [node for node in job.operators if growth_of(node) and not any(one.keyed for one in node.inputs)]
            for node, said in _of_job(job, growing, client, where):
                found[job.name, job.operators[node]] = said
    return found


def _of_job(job: Job, growing: list[Node], client: Client, where: Mapping[str, str]) -> Iterator[tuple[Node, str]]:
    if not growing:
        return
    try:
        resolved = resolve(LocalSession.as_spark(), job)
    except Exception:  # noqa: BLE001  whatever it is: it is raised, or not, with Spark
        yield from ((node, "not estimated: only Spark can evaluate its rows") for node in growing)
        return
    inputs = {one: steps for output in resolved.values() for one, steps in output.inputs.items()}
    for node in growing:
        steps = inputs.get((node, 0))
        if not isinstance(steps, LogSteps):
            yield node, "not estimated: only Spark can evaluate its rows, or another operator makes them"
            continue
        topic = job.sources[steps.source].topic
        places = _places(client, topic)
        if not places:
            yield node, f"not estimated: topic {topic} has no records yet"
        else:
            yield node, str(_estimated(job, node, steps, places, where))


def _places(client: Client, topic: str) -> list[Range]:
    """What each partition of a topic holds."""
    if topic not in client.topics():
        return []
    partitions = [TopicPartition(topic, number) for number in range(client.partitions([topic])[topic])]
    first, end = (client.offsets(dict.fromkeys(partitions, bound)) for bound in (EARLIEST, LATEST))
    return [Range(topic, one.partition, first[one], end[one]) for one in partitions if end[one] > first[one]]


def sample_of(places: list[Range], records_max: int) -> list[Range]:
    """Ranges all over some partitions, and those of all partitions in turn; no two have a record in common.

    Each partition gives its share of so many records, but a few at least: a partition of few records is read whole.

    >>> sample_of([Range("t", 0, 0, 100)], 16)[:2]
    [Range(topic='t', partition=0, first=0, end=2), Range(topic='t', partition=0, first=14, end=16)]
    >>> sample_of([Range("t", 0, 0, 3), Range("t", 1, 0, 97)], 16)[:2]
    [Range(topic='t', partition=0, first=0, end=3), Range(topic='t', partition=1, first=0, end=1)]
    """
    rows = sum(one.rows for one in places)
    if rows <= records_max:
        return places
    found = []
    for number in range(PLACES):
        for one in places:
            each = max(records_max * one.rows // (rows * PLACES), 1)
            if one.rows <= PLACES * each:
                found += [one] if number == 0 else []
                continue
            first = one.first + number * (one.rows - each) // (PLACES - 1)
            found.append(one._replace(first=first, end=first + each))
    return found


def _estimated(job: Job, node: Node, steps: LogSteps, places: list[Range], where: Mapping[str, str]) -> Estimate:
    records = sum(one.rows for one in places)
    ranges = sample_of(places, RECORDS_MAX)
    options = parse_options({**source_options(job, where), "poisoned": "drop"})
    given = LogInput(job.operators[node], steps.steps, steps.prepare, Address(0, 0))
    source = source_rows(job.sources[steps.source], steps.source, steps.read)
    unused = Preparation(given.operator, given.prepare, given.to, Exchange(1, None))
    hashes, counts, kept_bytes, rows, read, size = [], [], 0, 0, 0, 0

    def taken(columns: Columns) -> pa.RecordBatch:
        typed = source.typed(columns)
        return steps.prepare.prepare(given.rows(source, typed, source.times(typed), unused)).rows

    for number, columns in read_ranges(options, ranges):
        if number != steps.source or not len(columns["_offset"]):
            continue
        read += len(columns["_offset"])
        size += sum(column.nbytes for column in columns.values())
        made = taken(columns)
        hashes.append(made.column(HASH).to_numpy())
        counts.append(made.column(ROWS).to_numpy())
        kept_bytes += sum(made.column(name).nbytes for name in made.schema.names if name not in (HASH, ROWS))
        rows += made.num_rows
        if size > BYTES_MAX:
            break
    distinct = distinct_of(np.concatenate(hashes), np.concatenate(counts), read=read, records=records) if hashes else 0
    whole = distinct * (HASH_BYTES + kept_bytes / rows) if rows else 0
    return Estimate(distinct, round(whole), read if ranges != places or size > BYTES_MAX else records, records)


def distinct_of(hashes: Integers, counts: Integers, *, read: int, records: int) -> int:
    """How many keys there are among all records, from those of a sample: their hashes, and how many rows each has.

    >>> distinct_of(np.array([1, 1, 2]), np.array([1, 1, 1]), read=3, records=12)
    3
    """
    known, numbers = np.unique(hashes, return_inverse=True)
    rows = np.bincount(numbers, weights=counts, minlength=len(known))
    single = int((rows == 1).sum())
    return len(known) - single + round(single * sqrt(max(records, read) / read))


UNITS = ("B", "kB", "MB", "GB", "TB")


def _size(count: float) -> str:
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:,.0f} {UNITS[unit]}" if unit == 0 else f"{count:,.1f} {UNITS[unit]}"
