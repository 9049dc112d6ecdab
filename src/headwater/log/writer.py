"""Records into batches into a partition: the in-process way to append."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from headwater.errors import TopicFull
from headwater.log.batch_format import encode_batch
from headwater.log.partition import Partition
from headwater.record import Position, Record

BATCH_BYTES = 512 * 1024
RECORD_OVERHEAD_BYTES = 32


def append_records(
    partition: Partition, records: Sequence[Record], *, compression: str, durable: bool, now_ms: int
) -> Position:
    """Append in batches of moderate size; records without a timestamp get `now_ms`."""
    last = -1
    for group in batches_of(records, now_ms=now_ms):
        batch = encode_batch(group, compression=compression)
        last = append_when_there_is_room(partition, partial(_append, partition, batch, durable=durable))
    if durable:
        partition.make_durable(last + 1)
    return Position(partition.topic, partition.number, last)


def _append(partition: Partition, batch: bytearray, *, durable: bool) -> int:
    return partition.append(batch, durable=durable).last_offset


def append_when_there_is_room(partition: Partition, append: Callable[[], int]) -> int:
    """What `append` answers; it is called again whenever a full partition that makes producers wait has changed."""
    freed = threading.Event()
    unsubscribe = partition.subscribe(freed.set)
    try:
        while True:
            freed.clear()
            try:
                return append()
            except TopicFull as full:
                if not full.blocking:
                    raise
            freed.wait()
    finally:
        unsubscribe()


def batches_of(records: Sequence[Record], *, now_ms: int) -> list[list[Record]]:
    """Records in groups of moderate size; those without a timestamp get `now_ms`."""
    groups: list[list[Record]] = []
    room = 0
    for record in records:
        size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        if not groups or size > room:
            groups.append([])
            room = BATCH_BYTES
        groups[-1].append(record if record.timestamp_ms >= 0 else replace(record, timestamp_ms=now_ms))
        room -= size
    return groups
