"""What the log has for a queue between two offsets: batches, and what their records say about their delivery."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headwater.errors import DamagedRange, HeadwaterError
from headwater.log.batch_format import decode_batch
from headwater.log.partition import Partition
from headwater.log.queues.delivery import Found, Span
from headwater.log.queues.settings import QueueSettings
from headwater.log.reader import StoredBatch, read_stored
from headwater.record import Record

DELIVER_AT, EXPIRES_AT = "headwater.deliver.at", "headwater.expires.at"
"""Headers with a time as text, in milliseconds since 1970."""


RECORDS_MAX = 2_000
Decode = Callable[[StoredBatch], list[Record]]


class Candidates(NamedTuple):
    found: Found
    batches: Sequence[StoredBatch]


class Times(NamedTuple):
    """One moment by both clocks."""

    wall_ms: int
    elapsed_ms: int


class Extent(NamedTuple):
    """How much of the log to look at: at least a batch."""

    bytes_max: int
    records_max: int
    """Of records that are looked into; more where they have an order, which needs to know what is behind."""


def candidates(
    partition: Partition, offset: int, settings: QueueSettings, times: Times, extent: Extent, decode: Decode
) -> Candidates:
    """Messages from an offset on. A batch that is damaged is stepped over."""
    try:
        batches, end = read_stored(partition, offset, bytes_max=extent.bytes_max, committed=settings.committed)
    except DamagedRange as damage:
        return Candidates(Found(offset, (), damage.end), ())
    if not settings.looks_into_records:
        spans = [Span(max(one.header.base_offset, offset), one.header.next_offset - 1) for one in batches]
        return Candidates(Found(offset, spans, end), batches)
    records_max = RECORDS_MAX if settings.by_key else extent.records_max
    looked: list[Record] = []
    for batch in batches:
        records = decode(batch)
        begin = bisect_left(records, offset, key=lambda record: record.offset)
        room = records_max - len(looked)
        looked += records[begin : begin + room]
        if len(records) - begin > room:  # the rest of the batch is for the next look
            end = looked[-1].offset + 1
            break
    return Candidates(Found(offset, [_span(record, settings, times) for record in looked], end), batches)


def records_in(batch: StoredBatch, unpacked_max: int) -> list[Record]:
    """Records of a batch; none if they cannot be unpacked: nobody could process them."""
    try:
        return decode_batch(batch.data, bytes_max=unpacked_max)
    except HeadwaterError:
        return []


def keys_between(
    partition: Partition, first: int, last: int, *, committed: bool, unpacked_max: int
) -> Iterator[tuple[int, bytes | None]]:
    """Offsets and keys of the messages in these bounds."""
    offset = first
    while offset <= last:
        try:
            batches, end = read_stored(partition, offset, bytes_max=1024**2, committed=committed)
        except DamagedRange as damage:
            offset = damage.end
            continue
        for batch in batches:
            yield from (
                (one.offset, one.key) for one in records_in(batch, unpacked_max) if offset <= one.offset <= last
            )
        if end == offset:
            return
        offset = end


def _span(record: Record, settings: QueueSettings, times: Times) -> Span:
    said = dict(record.headers) if settings.headwater_queue_headers else {}
    ahead_ms = times.wall_ms - times.elapsed_ms
    deliver_at, expires_at = _time(said.get(DELIVER_AT)), _time(said.get(EXPIRES_AT))
    ttl_ms = settings.headwater_queue_message_ttl_ms
    outlived = ttl_ms >= 0 and record.timestamp_ms + ttl_ms < times.wall_ms
    outlived = outlived or (expires_at is not None and expires_at < times.wall_ms)
    not_before_ms = 0 if deliver_at is None or deliver_at <= times.wall_ms else deliver_at - ahead_ms
    return Span(record.offset, record.offset, not_before_ms, outlived, record.key)


def _time(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) <= 18 else None
