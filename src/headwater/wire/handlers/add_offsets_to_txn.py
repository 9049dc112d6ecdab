"""AddOffsetsToTxn: a producer is about to commit offsets of a group in its transaction."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.groups.offsets import check_group
from headwater.log.log import Log
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.transaction_codes import transaction_code

FENCED_KNOWN_FROM = 2


async def handle(request: Any, context: Context) -> Fields:
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    code = ErrorCode.none
    try:
        await context.run(_add, context.log, request.transactional_id, producer, request.group_id)
    except HeadwaterError as error:
        code = transaction_code(error, fenced_known=context.api_version >= FENCED_KNOWN_FROM)
    return Fields(throttle_time=UNTHROTTLED, error_code=code)


def _add(log: Log, transactional_id: str, producer: ProducerIdentity, group: str) -> None:
    check_group(group)
    log.transactions.add(transactional_id, producer, {log.group_offsets.place_of(group)})
