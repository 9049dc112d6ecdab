"""WriteTxnMarkers: end transactions in partitions, whatever their coordinator says.

Between brokers it carries out decisions; here the coordinator writes its markers itself. What remains is the tool of an
administrator, for hanging transactions: those that no coordinator knows, and that keep readers of committed records
waiting for ever.
"""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.groups.journal import TOPIC as OFFSETS_TOPIC
from headwater.log.log import Log
from headwater.log.transactions.markers import Marker
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.protocol.fields import Fields
from headwater.wire.topics import code_for


async def handle(request: Any, context: Context) -> Fields:
    return await context.run(_answer, request, context.log)


def _answer(request: Any, log: Log) -> Fields:
    return Fields(
        markers=tuple(
            Fields(
                producer_id=one.producer_id,
                topics=tuple(
                    Fields(
                        name=topic.name,
                        partitions=tuple(
                            Fields(partition_index=number, error_code=_mark(log, one, topic.name, number))
                            for number in topic.partition_indexes
                        ),
                    )
                    for topic in one.topics
                ),
            )
            for one in request.markers
        )
    )


def _mark(log: Log, wanted: Any, topic: str, number: int) -> ErrorCode:
    marker = Marker(ProducerIdentity(wanted.producer_id, wanted.producer_epoch), bool(wanted.transaction_result))
    try:
        log.partition(topic, number)
        if topic == OFFSETS_TOPIC:
            settle = log.group_offsets.append_marker(number, marker)
        else:
            settle = log.transactions.mark(TopicPartition(topic, number), marker)
        settle()
    except HeadwaterError as error:
        return code_for(error, topic)
    return ErrorCode.none
