"""DeleteRecords: give up everything below an offset."""

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from headwater.log.log import Log
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.topics import FAILURES, RESERVED_TOPICS, code_for


async def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    return await context.run(_answer, request, context.log)


def _answer(request: DeleteRecordsRequest, log: Log) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(_delete(log, topic.name, wanted) for wanted in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _delete(log: Log, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    low_watermark = -1
    try:
        # On a topic that is only compacted, a key's last value is kept for ever: that is its promise.
        if topic in RESERVED_TOPICS or not log.topic(topic).settings.deleted:
            error = ErrorCode.policy_violation
        else:
            low_watermark = log.partition(topic, wanted.partition_index).delete_records(wanted.offset)
            error = ErrorCode.none
    except FAILURES as failure:
        error = code_for(failure, topic)
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=i64(low_watermark), error_code=error
    )
