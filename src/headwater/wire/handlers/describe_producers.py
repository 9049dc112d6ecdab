"""DescribeProducers: who writes to a partition, and which transactions are open in it."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.log.log import Log
from headwater.log.transactions.markers import COORDINATOR_EPOCH
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.topics import FAILURES, code_for


async def handle(request: Any, context: Context) -> Fields:
    return await context.run(_answer, request, context.log)


def _answer(request: Any, log: Log) -> Fields:
    topics = tuple(
        Fields(name=topic.name, partitions=tuple(_partition(log, topic.name, one) for one in topic.partition_indexes))
        for topic in request.topics
    )
    return Fields(throttle_time=UNTHROTTLED, topics=topics)


def _partition(log: Log, topic: str, number: int) -> Fields:
    code, message, producers = ErrorCode.none, None, []
    try:
        producers = log.partition(topic, number).producers()
    except FAILURES as error:
        code, message = code_for(error, topic), str(error)
    active = tuple(
        Fields(
            producer_id=id,
            producer_epoch=one.epoch,
            last_sequence=one.batches[-1].last_sequence if one.batches else -1,
            last_timestamp=one.last_timestamp_ms,
            coordinator_epoch=COORDINATOR_EPOCH if one.marker_offset >= 0 else -1,
            current_txn_start_offset=-1 if begun is None else begun.first_offset,
        )
        for id, one, begun in producers
    )
    return Fields(partition_index=number, error_code=code, error_message=message, active_producers=active)
