"""DescribeLogDirs: where the records are, how much room they take and how much is left."""

import shutil

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE

UNKNOWN_BYTES = -1


async def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results=(await context.run(_describe, request, context.log),),
    )


def _describe(request: DescribeLogDirsRequest, log: Log) -> DescribeLogDirsResult:
    total, usable = _disk_bytes(log)
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=str(log.path.absolute()),
        topics=tuple(
            DescribeLogDirsTopic(name=TopicName(name), partitions=_partitions(log, name, numbers))
            for name, numbers in _wanted(request, log).items()
        ),
        total_bytes=i64(total),
        usable_bytes=i64(usable),
        is_cordoned=False,
    )


def _wanted(request: DescribeLogDirsRequest, log: Log) -> dict[str, list[int]]:
    if request.topics is None:
        return {topic.name: list(range(topic.partitions)) for topic in log.topics()}
    return {topic.topic: list(topic.partitions) for topic in request.topics}


def _partitions(log: Log, topic: str, numbers: list[int]) -> tuple[DescribeLogDirsPartition, ...]:
    described = []
    for number in numbers:
        try:
            size = log.partition(topic, number).local_size_bytes
        except HeadwaterError:
            continue  # what does not exist takes no room; the API has no other way to say so
        described.append(
            DescribeLogDirsPartition(
                partition_index=i32(number), partition_size=i64(size), offset_lag=i64(0), is_future_key=False
            )
        )
    return tuple(described)


def _disk_bytes(log: Log) -> tuple[int, int]:
    """All bytes of the disk and those still free, where there is a disk."""
    try:
        usage = shutil.disk_usage(log.path)
    except OSError:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
    return usage.total, usage.free
