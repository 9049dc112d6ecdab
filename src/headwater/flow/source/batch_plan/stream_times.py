"""Which offset belongs to which time, by the clock that the rows of each topic are compared by. Thin.

    a stream with a `time` column           that column: found by probing (event_time_index.py)
    a stream without, versions of a table   the timestamps of records: the broker's index knows
    a table that is joined as it is         no time of its own: it is read as far as it had come when the last of the
                                            other rows were written

Of a topic with several clocks the earliest offset counts, and that of a table as it is if it is later.
"""

import threading
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from headwater.errors import CorruptBatch
from headwater.flow.kafka.client import Client
from headwater.flow.source.batch_plan.admission import Estimate, Loss, OffsetsAtTime, Plan, rows_between
from headwater.flow.source.batch_plan.event_time_index import (
    STEPS_MAX,
    EventTimeIndex,
    Found,
    Probe,
    TimeLine,
    probe_of,
)
from headwater.flow.source.options import SourceOptions
from headwater.flow.source.reach import Reach, unpacked_bytes_max
from headwater.flow.source.record_batches.files import Chunk, divided
from headwater.flow.source.record_batches.readable import read_around
from headwater.flow.source.record_batches.reading import read_range
from headwater.flow.source.record_batches.records import Records, UnreadableBatch
from headwater.flow.source.rows import RangeReader
from headwater.flow.source.splitting import Range
from headwater.flow.source.streams import Stream
from headwater.flow.source.times.event_time import as_microseconds
from headwater.log.batch_table import BASE_OFFSET, MAX_TIMESTAMP, find_batches
from headwater.log.record_columns import Int64Array
from headwater.record import TopicPartition

PROBE_BYTES = 64 * 1024
TIMELESS_MAX = 8
"""Chunks of a probe without any time, after which it is taken for one that has none."""
RECORD_TIME = "_timestamp"

NOTHING: Int64Array = np.empty(0, dtype=np.int64)

Offsets = dict[TopicPartition, int]


class StreamTimes:
    """Looks offsets up for the plans of one source, one after the other. Not thread-safe."""

    def __init__(self, options: SourceOptions, *, stopping: threading.Event | None = None) -> None:
        self._options = options
        self._reach = Reach(options.address, options.data, stopping=stopping)
        # A plain topic that is named twice is read once.
        own = options.streams if options.nested else {stream.topic: stream for stream in options.streams}.values()
        self._clocks: dict[str, set[str | None]] = {}
        for stream in own:
            self._clocks.setdefault(stream.topic, set()).add(stream.time)
        self._indexes = [
            (stream, EventTimeIndex(_Probes(stream, options, self._reach).read))
            for stream in own
            if stream.time not in (None, RECORD_TIME)
        ]
        several = {topic for topic, clocks in self._clocks.items() if len(clocks - {None}) > 1}
        producers = {stream.topic for stream in own if stream.clock.producer is not None}
        self.unordered = frozenset(several | producers)
        """Topics in which rows may follow that are older than those that were read by any time."""

    def lookup(self, client: Client, start: Offsets, ends: Offsets, limit: int | None) -> OffsetsAtTime:
        """For one plan. Beyond what fits into a batch nothing is looked for."""
        for _, index in self._indexes:
            index.begin_plan(start)
        stops = {
            place: end if limit is None else min(end, start.get(place, 0) + limit + 1) for place, end in ends.items()
        }

        def at(time_ms: int) -> Offsets:
            found = self._probed(time_ms, start, stops, ends)
            return self._recorded(client, time_ms, found, ends)

        return at

    def estimate(self, start: Offsets, ends: Offsets, limit: int | None) -> Estimate | None:
        """What is known of the rows of a plan before anything is looked for in it; None if some topic goes by another
        clock than the columns of its rows."""
        if limit is None or rows_between(start, ends) <= limit:
            return None
        indexes = {place: index for stream, index in self._indexes for place in ends if place.topic == stream.topic}
        unread = {place: end for place, end in ends.items() if start.get(place, 0) < end}
        if unread.keys() - indexes.keys():
            return None

        def known() -> OffsetsAtTime:
            lines = {place: self._time_line(indexes[place], place, start, end, limit) for place, end in unread.items()}
            return lambda time_ms: {place: line.offset(time_ms) for place, line in lines.items()}

        return known

    def _time_line(
        self, index: EventTimeIndex, place: TopicPartition, start: Offsets, end: int, limit: int
    ) -> TimeLine:  # fmt: skip
        begin = start.get(place, 0)
        return index.time_line(place, begin, min(end, begin + limit + 1), end)

    def settled(self, made: Plan) -> Plan:
        """Partitions that are left with rows which may be of any time are waited for."""
        unordered = frozenset(place for place in made.ahead if place.topic in self.unordered)
        return made._replace(held=made.held | unordered, ahead=made.ahead - unordered)

    def close(self) -> None:
        self._reach.close()

    def _probed(
        self, time_ms: int, start: Offsets, stops: Offsets, ends: Offsets
    ) -> dict[TopicPartition, Found]:  # fmt: skip
        found: dict[TopicPartition, Found] = {}
        for stream, index in self._indexes:
            for place, stop in stops.items():
                if place.topic == stream.topic:
                    one = index.first_at(place, time_ms, start.get(place, 0), stop, ends[place])
                    found[place] = min(found.get(place, one), one, key=lambda known: known.offset)
        return found

    def _recorded(
        self, client: Client, time_ms: int, found: dict[TopicPartition, Found], ends: Offsets
    ) -> Offsets:  # fmt: skip
        arrived = [one.arrived_ms for one in found.values() if one.arrived_ms is not None]
        if not found or any(RECORD_TIME in clocks for clocks in self._clocks.values()):
            arrived.append(time_ms - 1)
        read_until = max(arrived, default=-1) + 1
        asked: Offsets = {}
        for place in ends:
            clocks = self._clocks.get(place.topic, {None})
            if RECORD_TIME in clocks:
                asked[place] = time_ms
            if None in clocks and not (clocks - {None, RECORD_TIME}):
                asked[place] = max(asked.get(place, read_until), read_until)
        # Times below 0 have a meaning of their own for a broker, and no record is that old.
        offsets = client.offsets({place: max(0, time_ms) for place, time_ms in asked.items()}) if asked else {}
        for place, one in found.items():
            known = offsets.get(place, one.offset)
            offsets[place] = one.offset if known < 0 else min(known, one.offset)
        return offsets


class _Probes:
    """Reads probes of one stream: with the decoder, and the doubts about times, that its rows are read with."""

    def __init__(self, stream: Stream, options: SourceOptions, reach: Reach) -> None:
        self._stream = replace(stream, columns=("_offset", RECORD_TIME))
        self._options, self._reach = options, reach

    def read(self, place: TopicPartition, offset: int, end: int) -> Probe:
        one = Range(place.topic, place.partition, offset, end)
        try:
            return self._read(one, self._options.data)
        except CorruptBatch:
            if self._options.data is None:
                raise
            # The node looks at what it serves, and knows how far the damage goes.
            return self._read(one, None)

    def _read(self, one: Range, data: Path | None) -> Probe:
        first, following, arrived_ms = one.first, one.first + 1, -1
        chunks = read_range(one, self._reach, data=data, account_losses=True, chunk_bytes=PROBE_BYTES)
        for found in islice(chunks, TIMELESS_MAX):
            if isinstance(found, Loss):
                following = max(following, found.end)
                continue
            following = max(following, found.next_offset)
            if len(found.data):
                table = find_batches(found.data)
                first = min(first, int(table.rows[0, BASE_OFFSET]))
                arrived_ms = max(arrived_ms, int(table.column(MAX_TIMESTAMP).max()))
                offsets, times_ms = self._times(one, found._replace(first=first))
                if len(offsets):
                    return probe_of(first, following, offsets, times_ms, arrived_ms)
        return probe_of(first, following, NOTHING, NOTHING, arrived_ms)

    def _times(self, one: Range, chunk: Chunk) -> tuple[Int64Array, Int64Array]:
        """Offsets and event times of the rows that decode and are believed."""
        name = self._stream.time
        assert name is not None
        bytes_max = unpacked_bytes_max(self._options.data)
        for kind in (SampleReader, RangeReader):
            reader = kind(self._stream, one, poisoned="drop", unpacked_bytes_max=bytes_max)
            offsets, times = [NOTHING], [NOTHING]
            for piece in divided(chunk):
                for columns in read_around(piece, reader.read):
                    if not isinstance(columns, UnreadableBatch):
                        offsets.append(columns["_offset"].to_numpy())
                        times_us = pc.coalesce(as_microseconds(columns[name]), as_microseconds(columns[RECORD_TIME]))
                        times.append(times_us.to_numpy() // 1000)
            if sum(map(len, offsets)):  # of the sample, or else of all
                break
        return np.concatenate(offsets), np.concatenate(times)


class SampleReader(RangeReader):
    """Decodes some records of a chunk, evenly apart: a batch may hold thousands, and a time somewhere in it will do."""

    def _decode(self, chunk: Chunk, *, headers: bool) -> Records:
        records = super()._decode(chunk, headers=headers)
        step = -(-len(records.offsets) // STEPS_MAX)
        if step < 2:
            return records
        return records.take(np.arange(0, len(records.offsets), step))
