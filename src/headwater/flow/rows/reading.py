"""How the tasks of a batch read the log themselves."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import Source, SourceStream, SourceTable, SourceVersions
from headwater.flow.exchange.blocks import Exchange
from headwater.flow.exchange.co_partitioning import ranges_by_shard
from headwater.flow.rows.log_rows import LogInput, ReadTask, SourceRows
from headwater.flow.rows.sources import source_options
from headwater.flow.source.options import parse_options
from headwater.flow.source.splitting import Range, tasks_for

LogInputs = Mapping[int, tuple[LogInput, ...]]
"""By the number of the source."""


@dataclass(frozen=True)
class Reading:
    """The ranges of a batch of a job. `where` says how the log is reached, `partitions` how many each topic has."""

    job: Job
    where: Mapping[str, str]
    stage: str
    ranges: Sequence[Range]
    partitions: Mapping[str, int]
    exchange: Exchange

    def task(self, inputs: LogInputs, schemas: Mapping[int, pa.Schema], topics: Collection[str]) -> ReadTask:
        """Reads some topics for the operators that want their rows; `schemas` are those of the sources' rows."""
        options = parse_options({**source_options(self.job, self.where), "poisoned": "stage", "stage": self.stage})
        own = [one for one in self.ranges if one.topic in topics]
        sources = {number: source_rows(self.job.sources[number], number, schemas[number]) for number in inputs}
        return ReadTask(options, tasks_for(own, cores=options.tasks) or [[]], sources, inputs, self.exchange)

    def by_shard(self, task: ReadTask, topics: Collection[str]) -> ReadTask | None:
        """The same with a task for each shard that reads the partitions of it; None if there is none."""
        wanted = {self.job.sources[number].topic for number in task.inputs}
        counts = {topic: self.partitions.get(topic, 0) for topic in wanted}
        own = [one for one in self.ranges if one.topic in topics]
        tasks = ranges_by_shard(own, counts, self.exchange.shards)
        return None if tasks is None else replace(task, tasks=tasks)


def source_rows(source: Source, number: int, schema: pa.Schema) -> SourceRows:
    """How rows of a schema are made of what is read of a source."""
    rows = SourceRows(number, source.topic, schema, source.time if isinstance(source, SourceStream) else None)
    if isinstance(source, SourceTable | SourceVersions):
        return replace(rows, key=source.key, version_id=source.version_id)
    return rows
