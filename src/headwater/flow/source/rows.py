"""Chunks of record batches to rows of the frame, and what became of the others. No Spark here."""

import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptBatch, InvalidRecord
from headwater.flow.formats.decoding import NULL_VALUE, CellDecoder, Decoded, Decoder, decoder_for
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.source.batch_plan.admission import Loss
from headwater.flow.source.columns import HIDDEN, RAW, Part, microseconds
from headwater.flow.source.poison import NO_POISON, Poison
from headwater.flow.source.reach import Reach
from headwater.flow.source.record_batches.files import Chunk, divided
from headwater.flow.source.record_batches.readable import read_around
from headwater.flow.source.record_batches.reading import read_range
from headwater.flow.source.record_batches.records import (
    UNPACKED_BYTES_MAX,
    Records,
    UnreadableBatch,
    decode_batches,
)
from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import POISONED_SCHEMA, Counts
from headwater.flow.source.streams import STREAM, Stream
from headwater.flow.source.times.event_time import as_microseconds, doubtful, estimated
from headwater.flow.source.times.producers import hear, hear_all
from headwater.flow.source.times.punctuation import Promise, Punctuation, find_punctuation

_logger = logging.getLogger(__name__)

Indices = npt.NDArray[np.int64]

BATCH_ROWS_MAX = 65_536
"""Larger batches cost Spark memory and gain nothing."""

TIMESTAMP_MS_MAX = 253_402_300_799_000
"""The last second of the year 9999."""


class RangeReader:
    """Rows of one range of one stream; counts and poisoned rows add up until it is done."""

    def __init__(
        self, stream: Stream, one: Range, *, poisoned: str, unpacked_bytes_max: int = UNPACKED_BYTES_MAX
    ) -> None:
        self._stream, self._range, self._policy, self._bytes_max = stream, one, poisoned, unpacked_bytes_max
        self.counts = Counts()
        self.poisoned: list[pa.RecordBatch] = []

    def read(self, chunk: Chunk) -> dict[str, pa.Array]:
        """The columns of the stream's frame; all have the same length, which may be 0."""
        records = self._decode(chunk, headers=self._stream.needs_headers)
        self._count(records)
        part = Part(self._range.topic, self._range.partition, records)
        if self._stream.schema is None:
            columns, kept = {name: column.of(part) for name, column in RAW.items()}, None
        else:
            columns, kept = self._typed(part, chunk)
        self._note_event_times(columns, records.timestamps_ms if kept is None else records.timestamps_ms[kept])
        return columns

    def set_batch_aside(self, batch: UnreadableBatch) -> None:
        """Each offset of it that is in the range is a poisoned row; one row of the stage stands for all of them."""
        first = max(batch.base_offset, self._range.first)
        end = min(batch.last_offset + 1, self._range.end)
        place = f'"{self._range.topic}/{self._range.partition}"'
        if self._policy == "fail":
            raise _undecodable(f"offsets {first} to {end - 1} of {place} do not decode: {batch.reason}")
        self.counts.rows += end - first
        self.counts.poisoned += end - first
        _logger.warning("offsets %d to %d of %s are poisoned: %s", first, end - 1, place, batch.reason)
        if self._policy == "stage":
            time_us = 1000 * min(max(batch.max_timestamp_ms, 0), TIMESTAMP_MS_MAX)
            row = {
                "topic": self._range.topic, "partition": self._range.partition, "offset": first, "timestamp": time_us,
                "key": None, "value": None, "headers": None,
                "reason": f"a batch that cannot be read, offsets {first} to {end - 1}: {batch.reason}",
            }  # fmt: skip
            self.poisoned.append(pa.RecordBatch.from_pylist([row], POISONED_SCHEMA))

    def lose(self, rows: int) -> None:
        self.counts.lost += rows

    def _decode(self, chunk: Chunk, *, headers: bool) -> Records:
        end = min(chunk.next_offset, self._range.end)
        return decode_batches(chunk.data, chunk.first, end, headers=headers, bytes_max=self._bytes_max)

    def _typed(self, part: Part, chunk: Chunk) -> tuple[dict[str, pa.Array], npt.NDArray[np.bool_] | None]:
        """Columns of the rows that decode, and which those are; None if all do."""
        decoded = _decoded(_decoder(self._stream), part.records)
        poison = Poison(decoded.bad, decoded.reasons)
        promised = self._promised(part, chunk)
        read = part if decoded.deleted is None else _with_deletions(part, decoded.deleted)
        if self._stream.tombstones == "keep":
            poison = poison.without_tombstones(read.records.values)
        elif decoded.deleted is not None:
            gone = np.flatnonzero(decoded.deleted)
            poison = poison.joined(Poison(gone, [NULL_VALUE] * len(gone)))
        elif promised is not None:
            poison = promised.broken.joined(poison.without([one.row for one in promised.promises]))
        columns = dict(zip(decoded.columns.schema.names, decoded.columns.columns, strict=True))
        poison = poison.joined(self._judge_times(columns, part.records.timestamps_ms))
        columns |= {name: HIDDEN[name].of(read) for name in self._stream.columns}
        if not len(poison.rows) and promised is None:
            return columns, None
        kept = np.ones(len(part.records.offsets), dtype=np.bool_)
        if len(poison.rows):
            self._set_aside(poison, part, chunk)
            kept[poison.rows] = False
        if promised is not None:
            self._note_promises(promised.promises, part.records.timestamps_ms)
            kept[[one.row for one in promised.promises]] = False
        mask = pa.array(kept)
        return {name: column.filter(mask) for name, column in columns.items()}, kept

    def _promised(self, part: Part, chunk: Chunk) -> Punctuation | None:
        """Only where null values mean nothing else are they looked at; None if there are none."""
        records = part.records
        if self._stream.tombstones == "keep" or not records.spans.nulls:
            return None
        headers = records.headers if records.headers is not None else self._decode(chunk, headers=True).headers
        assert headers is not None
        return find_punctuation(records.values, records.keys, headers, records.timestamps_ms, self._stream.clock)

    def _note_promises(self, promises: Sequence[Promise], timestamps_ms: Indices) -> None:
        counts = self.counts
        counts.rows -= len(promises)
        counts.punctuation += len(promises)
        for one in promises:
            if one.producer is None or self._stream.clock.producer is None:
                counts.no_more_before_us = _most(counts.no_more_before_us, one.no_more_before_us)
            else:
                hear(
                    counts.producers,
                    one.producer,
                    arrived_ms=int(timestamps_ms[one.row]),
                    promised_us=one.no_more_before_us,
                )

    def _judge_times(self, columns: dict[str, pa.Array], timestamps_ms: Indices) -> Poison:
        """Rows whose time is not believed; fills in the column that is worked out from others."""
        name, rules = self._stream.time, self._stream.clock
        doubt = NO_POISON
        if rules.device is not None:
            columns[rules.device.into], doubt = estimated(rules.device, columns, timestamps_ms)
        if name is None or name == "_timestamp":
            return doubt
        return doubt.joined(doubtful(name, rules, as_microseconds(columns[name]), timestamps_ms))

    def _set_aside(self, poison: Poison, part: Part, chunk: Chunk) -> None:
        place = f'"{part.topic}/{part.partition}"'
        if self._policy == "fail":
            offset = part.records.offsets[poison.rows[0]]
            raise _undecodable(f"offset {offset} of {place} does not decode: {poison.reasons[0]}")
        self.counts.poisoned += len(poison.rows)
        if self._policy == "stage":
            if part.records.headers is None:
                part = part._replace(records=self._decode(chunk, headers=True))
            self.poisoned.append(_poisoned_rows(poison, part))

    def _count(self, records: Records) -> None:
        counts = self.counts
        counts.rows += len(records.offsets)
        counts.bytes += _content_bytes(records.keys) + records.spans.bytes
        if len(records.offsets):
            newest = int(records.timestamps_ms.max())
            counts.timestamp_max_ms = (
                newest if counts.timestamp_max_ms is None else max(counts.timestamp_max_ms, newest)
            )

    def _note_event_times(self, columns: dict[str, pa.Array], timestamps_ms: Indices) -> None:
        name = self._stream.time
        if name is None:
            return
        times = pa.array(microseconds(timestamps_ms))
        if name != "_timestamp":
            own = as_microseconds(columns[name])
            times = pc.coalesce(own, times) if own.null_count else own
        edges = pc.min_max(times)
        least, most = edges["min"].as_py(), edges["max"].as_py()
        counts = self.counts
        counts.event_time_min_us = _least(counts.event_time_min_us, least)
        counts.event_time_max_us = _most(counts.event_time_max_us, most)
        if self._stream.clock.producer is not None:
            hear_all(counts.producers, columns[self._stream.clock.producer], times, timestamps_ms)


def read_rows(
    readers: Sequence[RangeReader], one: Range, reach: Reach, *, data: Path | None, account_losses: bool
) -> Iterator[list[dict[str, pa.Array]]]:
    """All of a range, chunk by chunk, as each of several streams over it sees it; it is read once."""
    for found in read_range(one, reach, data=data, account_losses=account_losses):
        if isinstance(found, Loss):
            for reader in readers:
                reader.lose(found.end - found.first)
            _logger.warning("rows %d to %d of %s/%d are lost", found.first, found.end - 1, one.topic, one.partition)
        elif len(found.data):
            for piece in divided(found):
                try:
                    yield from _read_piece(readers, piece)
                except CorruptBatch:
                    if data is None:
                        raise
                    # The node looks at what it serves, and knows how far the damage goes.
                    part = one._replace(first=piece.first, end=piece.next_offset)
                    yield from read_rows(readers, part, reach, data=None, account_losses=account_losses)


def _read_piece(readers: Sequence[RangeReader], piece: Chunk) -> Iterator[list[dict[str, pa.Array]]]:
    # Only the first reader can find damage: what it has decoded the others can too.
    for found in read_around(piece, lambda part: [reader.read(part) for reader in readers]):
        if isinstance(found, UnreadableBatch):
            for reader in readers:
                reader.set_batch_aside(found)
        else:
            yield found


def frame_batches(
    columns: dict[str, pa.Array], which: int, target: pa.Schema, *, nested: bool
) -> Iterator[pa.RecordBatch]:
    """Batches exactly of the frame's schema; none if there are no rows."""
    rows = len(next(iter(columns.values())))
    if not rows:
        return
    if nested:
        own = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        columns = {STREAM: pa.array(np.full(rows, which, dtype=np.int32)), target.names[1 + which]: own}
    arrays = [
        pa.nulls(rows, field.type) if field.name not in columns else _cast(columns[field.name], field.type)
        for field in target
    ]
    whole = pa.RecordBatch.from_arrays(arrays, schema=target)
    for first in range(0, rows, BATCH_ROWS_MAX):
        yield whole.slice(first, BATCH_ROWS_MAX)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type.equals(wanted, check_metadata=True) else array.cast(wanted)


@lru_cache(maxsize=64)
def _decoder_of(format: str, ddl: str, options: tuple[tuple[str, str], ...]) -> Decoder:
    return decoder_for(format, parse_ddl(ddl), dict(options))


def _decoder(stream: Stream) -> Decoder:
    return _decoder_of(stream.format, stream.value.ddl, tuple(sorted(stream.options.items())))


def _decoded(decoder: Decoder, records: Records) -> Decoded:
    spans = records.spans
    if isinstance(decoder, CellDecoder):
        return decoder.decode_cells(spans.body, spans.starts, spans.lengths)
    return decoder.decode(records.values)


def _undecodable(message: str) -> InvalidRecord:
    error = InvalidRecord(message)
    error.hint = 'Fix the producer or the schema; to continue without such rows, set poisoned to "stage" or "drop".'
    return error


def _poisoned_rows(poison: Poison, part: Part) -> pa.RecordBatch:
    chosen = pa.array(poison.rows)
    columns = {name: column.of(part).take(chosen) for name, column in RAW.items()}
    columns["reason"] = pa.array(poison.reasons, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in POISONED_SCHEMA.names], schema=POISONED_SCHEMA)


def _content_bytes(array: pa.BinaryArray) -> int:
    ends = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return int(ends[array.offset + len(array)] - ends[array.offset])


def _least(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)


def _most(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


def _with_deletions(part: Part, deleted: npt.NDArray[np.bool_]) -> Part:
    """A value that says its key is gone is the same as none."""
    values = pc.if_else(pa.array(deleted), pa.scalar(None, part.records.values.type), part.records.values)
    return part._replace(records=part.records.with_values(values))
