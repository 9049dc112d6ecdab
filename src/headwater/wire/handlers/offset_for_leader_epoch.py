"""OffsetForLeaderEpoch: where a leader's term ended. There is one leader with one term, so it ends at the end."""

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.static.primitive import i32, i64

from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.topics import code_for, epoch_error
from headwater.wire.turns import in_turns

UNDEFINED = -1


async def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple([_answer(topic.topic, wanted, context) async for wanted in in_turns(topic.partitions)]),
        )
        async for topic in in_turns(request.topics)
    ]
    return OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _answer(topic: str, wanted: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    epoch, end = UNDEFINED, UNDEFINED
    try:
        partition = context.log.partition(topic, wanted.partition)
        error = epoch_error(partition, wanted.current_leader_epoch)
        if error is ErrorCode.none and wanted.leader_epoch == partition.leader_epoch:
            epoch, end = partition.leader_epoch, partition.end_offset
    except HeadwaterError as failure:
        error = code_for(failure, topic)
    return EpochEndOffset(error_code=error, partition=wanted.partition, leader_epoch=i32(epoch), end_offset=i64(end))
