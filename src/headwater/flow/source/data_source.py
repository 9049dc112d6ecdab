"""The Spark data source `headwater`: topics as frames, in batch and in Structured Streaming.

    spark.readStream.format("headwater").option("data", "data").option("topic", "orders").schema("id long").load()

Spark makes these objects in processes of its own: the stream reader lives in one beside the driver, `read` runs in the
workers. What crosses over is pickled by Spark, so readers hold plain values and connect when they have to.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headwater.errors import InvalidSetting
from headwater.flow.formats.schema import Field, Schema
from headwater.flow.kafka.client import Client
from headwater.flow.source import positions
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.flow.source.options import SourceOptions, parse_options, read_offsets, written_offsets
from headwater.flow.source.ranges import read_ranges
from headwater.flow.source.reach import Reach
from headwater.flow.source.registering import with_registered
from headwater.flow.source.rows import frame_batches
from headwater.flow.source.splitting import Range, ranges_between, tasks_for
from headwater.record import TopicPartition

Offsets = dict[TopicPartition, int]
Written = dict[str, Any]
"""As Spark keeps it: offsets by topic and partition."""


class ReadTask(InputPartition):
    """What one Spark task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(tuple(ranges))


class HeadwaterSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> str:
        return parse_options(with_registered(self.options)).frame.ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self.options, schema)


class _TaskReader:
    """What both readers share: the options, and the work of a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._target: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        fields = tuple(Field(field.name, field.type, field.nullable) for field in self._target)
        self._options: SourceOptions = parse_options(with_registered(options), Schema(fields))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for which, columns in read_ranges(self._options, partition.value or ()):
            yield from frame_batches(columns, which, self._target, nested=self._options.nested)


class BatchReader(_TaskReader, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        reach = Reach(self._options.address, self._options.data)
        try:
            start, end = reach.ask(self._edges)
        finally:
            reach.close()
        return [ReadTask(ranges) for ranges in tasks_for(ranges_between(start, end), cores=self._options.tasks)]

    def _edges(self, client: Client) -> tuple[Offsets, Offsets]:
        places = positions.places_of(client.partitions(self._options.topics))
        start = positions.resolve(client, self._options.starting, places, name="startingOffsets")
        end = positions.resolve(client, self._options.ending, places, name="endingOffsets")
        for place, known in positions.latest(client, places).items():
            if end[place] > known:
                why = f'"{place.topic}/{place.partition}" ends at {known}'
                raise InvalidSetting("endingOffsets", end[place], why)
        return start, end


class StreamReader(_TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._made_planner: BatchPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made_planner": None}

    @property
    def _planner(self) -> BatchPlanner:
        if self._made_planner is None:
            self._made_planner = BatchPlanner(self._options)
        return self._made_planner

    def initialOffset(self) -> Written:
        return written_offsets(self._planner.beginning())

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.fix_ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Written:
        rows_max, bytes_max = self._options.rows_max, self._options.bytes_max
        if isinstance(limit, ReadAllAvailable):
            rows_max = bytes_max = None
        elif isinstance(limit, ReadMaxRows):
            rows_max = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            bytes_max = limit.max_bytes
        return written_offsets(self._planner.next(read_offsets(start), rows_max=rows_max, bytes_max=bytes_max).ends)

    def reportLatestOffset(self) -> Written | None:
        return written_offsets(self._planner.latest) if self._planner.latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = ranges_between(read_offsets(start), read_offsets(end))
        return [ReadTask(task) for task in tasks_for(ranges, cores=self._options.tasks)]

    def stop(self) -> None:
        self._planner.close()
