"""Batches without a streaming query: from one position to another, in as many steps as asked for.

Rebuilding a view replays its topics so, up to where the job stands; tests cut a log into any batches they like. Each
step writes down where it ends, in the form in which Spark does, before it begins.
"""

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.flow.declare.graph import Job
from headwater.flow.job.folder import JobFolder, Offsets
from headwater.flow.job.processing import Processor
from headwater.flow.job.sources import load, source_options
from headwater.flow.source.staging import write_plan
from headwater.flow.source.ticks import NO_TICK, Tick


class Stepper:
    """Takes the batches of one job one by one. `where` says how the log is reached."""

    def __init__(
        self, session: SparkSession, job: Job, folder: JobFolder, processor: Processor, where: Mapping[str, str]
    ) -> None:
        self._session, self._job, self._folder, self._processor = session, job, folder, processor
        self._where = {name: value for name, value in where.items() if name in ("address", "data")}

    def step(self, batch: int, start: Offsets, end: Offsets, *, time_ms: int, tick: Tick = NO_TICK) -> None:
        """Process what lies between; the same batch may be stepped again."""
        self._folder.plan(batch, end, time_ms=time_ms, tick=tick)
        self._folder.stage.mkdir(parents=True, exist_ok=True)
        write_plan(self._folder.stage, _texts(start), _texts(end))
        options = {
            **source_options(self._job, self._where),
            "startingOffsets": json.dumps(_texts(start)),
            "endingOffsets": json.dumps(_texts(end)),
            "poisoned": "stage",
            "stage": str(self._folder.stage),
        }
        self._processor.process(load(self._session.read, options), batch)


def _texts(position: Offsets) -> dict[str, dict[str, int]]:
    return {topic: {str(number): offset for number, offset in parts.items()} for topic, parts in position.items()}
