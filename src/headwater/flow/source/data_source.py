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

from headwater.clock import SystemClock
from headwater.errors import InvalidSetting
from headwater.flow.formats.schema import Field, Schema
from headwater.flow.kafka.client import Client
from headwater.flow.source import positions
from headwater.flow.source.options import SourceOptions, parse_options, read_offsets, written_offsets
from headwater.flow.source.planning import FIRST_STEP_MS, Guess, Plan, plan
from headwater.flow.source.ranges import read_ranges
from headwater.flow.source.reach import Reach
from headwater.flow.source.registering import with_registered
from headwater.flow.source.rows import frame_batches
from headwater.flow.source.splitting import Range, ranges_between, tasks_for
from headwater.flow.source.staging import write_plan
from headwater.flow.source.ticks import Tick, Watch, Wish, next_tick, read_wish, tick_of, with_tick
from headwater.record import TopicPartition

DISCOVERY_MS = 30_000
"""How often a stream looks for new partitions of its topics."""

Offsets = dict[TopicPartition, int]
Written = dict[str, Any]
"""As Spark keeps it: offsets by topic and partition, and for a job a tick."""


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
    """What both readers share: the options, a way to the log, and the work of a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._target: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        fields = tuple(Field(field.name, field.type, field.nullable) for field in self._target)
        self._options: SourceOptions = parse_options(with_registered(options), Schema(fields))
        self._made_reach: Reach | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made_reach": None}

    @property
    def _reach(self) -> Reach:
        if self._made_reach is None:
            self._made_reach = Reach(self._options.address, self._options.data)
        return self._made_reach

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for which, columns in read_ranges(self._options, partition.value or ()):
            yield from frame_batches(columns, which, self._target, nested=self._options.nested)


class BatchReader(_TaskReader, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        try:
            start, end = self._reach.ask(self._edges)
        finally:
            self._reach.close()
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
        self._clock = SystemClock()
        self._places: list[TopicPartition] = []
        self._discovered_ms: int | None = None
        self._latest: Offsets = {}
        self._target_ends: Offsets | None = None
        self._guess: Guess | None = None
        self._watch = Watch()

    def initialOffset(self) -> Written:
        def ask(client: Client) -> Offsets:
            return positions.resolve(client, self._options.starting, self._discovered(client), name="startingOffsets")

        return written_offsets(self._reach.ask(ask))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target_ends = self._reach.ask(self._ends)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Written:
        begin = read_offsets(start)
        self._latest = self._reach.ask(self._ends)
        ends = self._latest
        if self._target_ends is not None:
            ends = {place: min(ends.get(place, end), end) for place, end in self._target_ends.items()}
        positions.check_reachable(begin, ends)
        # A partition that was read and has left the topic's list for a moment must not be forgotten.
        ends = {**{place: offset for place, offset in begin.items() if place not in ends}, **ends}
        made = self._reach.ask(lambda client: self._plan(client, begin, ends, limit))
        if self._options.stage is None:
            return written_offsets(made.ends)
        wish = read_wish(self._options.stage).at(self._clock.now_ms())
        return with_tick(written_offsets(made.ends), self._tick(start, made, wish))

    def _tick(self, start: dict[str, Any], made: Plan, wish: Wish) -> Tick:
        begin, now = read_offsets(start), self._clock.elapsed_ms()
        self._watch.note(self._latest, now)
        return next_tick(
            tick_of(start),
            wish,
            moved=frozenset(place for place, end in made.ends.items() if end > begin.get(place, 0)),
            unread=frozenset(place for place, end in made.ends.items() if end < self._latest.get(place, end)),
            held=made.held,
            silent=self._watch.silent(wish.idle_ms, now),
        )

    def reportLatestOffset(self) -> Written | None:
        return written_offsets(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if self._options.stage is not None:
            write_plan(self._options.stage, start, end)
        ranges = ranges_between(read_offsets(start), read_offsets(end))
        return [ReadTask(task) for task in tasks_for(ranges, cores=self._options.tasks)]

    def stop(self) -> None:
        self._reach.close()

    def _discovered(self, client: Client) -> list[TopicPartition]:
        now = self._clock.elapsed_ms()
        if self._discovered_ms is None or now - self._discovered_ms > DISCOVERY_MS:
            self._places = positions.places_of(client.partitions(self._options.topics))
            self._discovered_ms = now
        return self._places

    def _ends(self, client: Client) -> Offsets:
        return positions.latest(client, self._discovered(client))

    def _plan(self, client: Client, begin: Offsets, ends: Offsets, limit: ReadLimit) -> Plan:
        rows = self._rows_max(client, begin, ends, limit)
        made = plan(begin, ends, rows, lambda time_ms: positions.at_time(client, ends, time_ms), guess=self._guess)
        if made.time_ms is not None:
            step = FIRST_STEP_MS if self._guess is None else made.time_ms - self._guess.time_ms
            self._guess = Guess(made.time_ms, max(1, step))
        return made

    def _rows_max(self, client: Client, begin: Offsets, ends: Offsets, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadAllAvailable):
            return None
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.rows_max
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.bytes_max
        if size is None or not ends:
            return rows
        by_size = max(1, int(size / positions.bytes_per_row(client, begin, ends)))
        return by_size if rows is None else min(rows, by_size)
