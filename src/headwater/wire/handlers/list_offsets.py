"""ListOffsets: which offset belongs to a time, or to one of the special offsets that negative times stand for."""

import asyncio

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32, i64

from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.log.snapshot import TimeOffset
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.topics import FAILURES, code_for, epoch_error

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_ARCHIVED = -5
EARLIEST_TO_ARCHIVE = -6

AT_HAND = frozenset({LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_ARCHIVED, EARLIEST_TO_ARCHIVE})
"""Special offsets that are known without reading a record."""

LEADER_EPOCH_FROM = 4
READ_COMMITTED = 1
NOT_FOUND = TimeOffset(-1, -1)
TIMESTAMP_MAX = 2**63 - 1


async def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    by_time = any(wanted.timestamp not in AT_HAND for topic in request.topics for wanted in topic.partitions)
    # A time may lead to the archive: a slow one must not keep others waiting.
    executor = context.shared.cold_executor if by_time else context.executor
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, _answer, request, context.log, context.api_version)


def _answer(request: ListOffsetsRequest, log: Log, version: int) -> ListOffsetsResponse:
    committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _answer_partition(log, topic.name, wanted, version, committed=committed)
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _answer_partition(
    log: Log, topic: str, wanted: ListOffsetsPartition, version: int, *, committed: bool
) -> ListOffsetsPartitionResponse:
    try:
        partition = log.partition(topic, wanted.partition_index)
        known_epoch = wanted.current_leader_epoch if version >= LEADER_EPOCH_FROM else -1
        error = epoch_error(partition, known_epoch)
        found = NOT_FOUND if error is not ErrorCode.none else _find(partition, wanted.timestamp, committed=committed)
        if abs(found.timestamp_ms) > TIMESTAMP_MAX:  # a record may say anything of itself
            found = found._replace(timestamp_ms=-1)
    except FAILURES as failure:
        error, found = code_for(failure, topic), NOT_FOUND
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=error,
        timestamp=i64(found.timestamp_ms),
        offset=i64(found.offset),
        leader_epoch=i32(-1 if found.offset == -1 else 0),
    )


def _find(partition: Partition, timestamp: int, *, committed: bool) -> TimeOffset:
    """For a reader of committed records nothing lies after the last stable offset."""
    found = _find_any(partition, timestamp)
    if not committed or found.offset < (stable := partition.last_stable_offset):
        return found
    if timestamp == LATEST:
        return TimeOffset(-1, stable)
    return found if timestamp == EARLIEST else NOT_FOUND


def _find_any(partition: Partition, timestamp: int) -> TimeOffset:
    match timestamp:
        case -1:
            return TimeOffset(-1, partition.high_watermark)
        case -2:
            return TimeOffset(-1, partition.start_offset)
        case -3:
            return partition.newest_timestamp() or NOT_FOUND
        case -4:
            return TimeOffset(-1, partition.snapshot().local_start_offset)
        case -5:
            return NOT_FOUND if partition.archive.empty else TimeOffset(-1, partition.archive.end_offset - 1)
        case _ if timestamp < 0:
            return NOT_FOUND
        case _:
            return partition.offset_for_time(timestamp) or NOT_FOUND
