"""The rows of a planned batch as a frame: tasks of plain Python that read ranges of the log.

Spark's data source would ask two Python processes for each batch, one for the source and one for its partitions. Here
no process is asked: the driver knows the ranges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import Job
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.rows.sources import source_options
from headwater.flow.source.options import SourceOptions, parse_options
from headwater.flow.source.ranges import read_ranges
from headwater.flow.source.rows import frame_batches
from headwater.flow.source.splitting import Range, tasks_for


@dataclass(frozen=True)
class FrameTask:
    """Reads ranges of the log; the numbers of `tasks` come to it as rows."""

    options: SourceOptions
    tasks: Sequence[Sequence[Range]]
    target: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for which, columns in read_ranges(self.options, self.tasks[number]):
                    yield from frame_batches(columns, which, self.target, nested=self.options.nested)


class BatchFrames:
    """Frames of the batches of one job. `where` says how the log is reached."""

    def __init__(self, session: SparkSession, job: Job, folder: JobFolder, where: Mapping[str, str]) -> None:
        reach = {name: value for name, value in where.items() if name in ("address", "data", "onLoss", "tasks")}
        given = {**source_options(job, reach), "poisoned": "stage", "stage": str(folder.stage)}
        self.session, self._options = session, parse_options(given)
        self._schema = spark_schema(self._options.frame.arrow)
        self._target = arrow_schema(self._schema)

    def frame(self, planned: PlannedBatch) -> DataFrame:
        """The rows of all sources of a batch, each as the struct of its source."""
        # Without a task that reads nothing, Spark would run no task for a batch without rows, and visit no shard. Nor
        # would it visit all of them if there were one partition: what lies in one needs no shuffle by key.
        tasks = tasks_for(planned.ranges, cores=self._options.tasks) or [[]]
        task = FrameTask(self._options, tasks, self._target)
        numbers = self.session.range(0, len(tasks), 1, max(2, len(tasks)))
        return numbers.mapInArrow(task, self._schema)
