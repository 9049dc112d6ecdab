"""A SELECT over topics, computed by Spark in batch: all records up to the ends that partitions had when it was asked.

A topic has the columns that an app declares for it, those of its schema in the registry, or else those of any record.
What an app declares as a table is its newest rows, without those that were deleted.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.errors import HeadwaterError
from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import Source
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.proof.batch_query import batch_rows
from headwater.flow.registry.describing import KINDS
from headwater.flow.rows.row_steps import visible
from headwater.flow.rows.sources import frames_of, load, source_options
from headwater.flow.source.positions import latest, places_of
from headwater.flow.source.registering import with_registered

LOOK_SECONDS = 0.5
Position = dict[str, dict[int, int]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TopicRelation:
    """What a name of the statement stands for. `source` is what an app declares; None: no app does."""

    name: str
    topic: str
    source: Source | None = None


@dataclass(frozen=True)
class ViewRelation:
    """Rows of a view, as JSON says them, and their columns in Spark's words."""

    name: str
    ddl: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Found:
    """The first rows of an answer, and whether there are more."""

    rows: pa.Table
    cut: bool
    poisoned: int
    """Records that were left out, because they do not decode as what the topic has."""


def ends_of(client: Client, topics: Sequence[str]) -> tuple[Position, int]:
    """Where topics end now, and how many offsets there are up to there."""
    places = places_of({topic: count for topic, count in client.partitions(topics).items() if topic in topics})
    ends, firsts = latest(client, places), client.offsets(dict.fromkeys(places, EARLIEST))
    position: Position = {topic: {} for topic in topics}
    for place, end in ends.items():
        position[place.topic][place.partition] = end
    return position, sum(ends[place] - firsts[place] for place in places)


@dataclass(frozen=True)
class TopicQuery:
    session: SparkSession
    where: Mapping[str, str]
    """How the log is reached: options of the source."""

    def run(
        self, sql: str, relations: Sequence[TopicRelation | ViewRelation], position: Position, limit: int,
        progress: Progress = lambda done, tasks: None,
    ) -> Found:  # fmt: skip
        """Spark's own errors where the statement cannot be resolved or evaluated. An interrupt cancels it."""
        with tempfile.TemporaryDirectory(prefix="headwater-query-") as stage:
            for one in relations:
                frame = self._view(one) if isinstance(one, ViewRelation) else self._topic(one, position, stage)
                frame.createOrReplaceTempView(f"`{one.name}`")
            try:
                rows = self._collected(self.session.sql(sql).limit(limit + 1), progress)
            finally:
                for one in relations:
                    self.session.catalog.dropTempView(f"`{one.name}`")
            return Found(rows.slice(0, limit), rows.num_rows > limit, _poisoned(Path(stage)))

    def _view(self, view: ViewRelation) -> DataFrame:
        texts = [(json.dumps(row, ensure_ascii=False),) for row in view.rows]
        frame = self.session.createDataFrame(texts, "said string")
        return frame.select(f.from_json("said", view.ddl).alias("row")).select("row.*")

    def _topic(self, relation: TopicRelation, position: Position, stage: str) -> DataFrame:
        ends = {relation.topic: {str(number): end for number, end in position[relation.topic].items()}}
        bounds = {"endingOffsets": json.dumps(ends), "poisoned": "stage", "stage": f"{stage}/{uuid4().hex}"}
        Path(bounds["stage"]).mkdir()
        source = relation.source
        if source is None:
            return load(self.session.read, {**self._options(relation.topic), **bounds})
        job = Job("query", (source,), (), {})
        frames = frames_of(job, load(self.session.read, {**source_options(job, self.where), **bounds}))
        rows = batch_rows(source, frames)
        return rows.select(*(f.col(f"`{name}`") for name in visible(rows)))

    def _options(self, topic: str) -> dict[str, str]:
        """With the columns of its registered schema, if the registry of the node has one."""
        plain = {**self.where, "topic": topic}
        for format in KINDS if "data" in self.where else ():
            try:
                return with_registered({**plain, "registry": "", "format": format})
            except (HeadwaterError, OSError):
                continue
        return plain

    def _collected(self, frame: DataFrame, progress: Progress) -> pa.Table:
        context, group = self.session.sparkContext, f"headwater-query-{uuid4().hex}"
        results, failures = list[pa.Table](), list[BaseException]()

        def collect() -> None:
            try:
                context.setJobGroup(group, "headwater sql", interruptOnCancel=True)
                results.append(frame.toArrow())
            except BaseException as error:  # noqa: BLE001  raised again where it was asked
                failures.append(error)

        thread = InheritableThread(collect, name="headwater-query", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(LOOK_SECONDS)
                progress(*self._tasks(group))
        except BaseException:
            context.cancelJobGroup(group)
            thread.join()
            raise
        if failures:
            raise failures[0]
        return results[0]

    def _tasks(self, group: str) -> tuple[int, int]:
        """How many are done, and of how many."""
        tracker = self.session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
        known = [one for one in stages if one is not None]
        return sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known)


def _poisoned(stage: Path) -> int:
    return sum(int(json.loads(file.read_text())["poisoned"]) for file in stage.glob("*/*.json"))
