"""EndTxn: commit or abort. Answered when the decision is durable, and its markers are written if that is possible."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.transactions.transaction import NEWER_CLIENTS, ProducerIdentity
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.transaction_codes import transaction_code

FENCED_KNOWN_FROM = 2
NEWER_CLIENTS_FROM = 5


async def handle(request: Any, context: Context) -> Fields:
    producer, code = ProducerIdentity(request.producer_id, request.producer_epoch), ErrorCode.none
    following = ProducerIdentity(-1, -1)
    try:
        following = await context.run(
            context.log.transactions.end, request.transactional_id, producer, commit=request.committed,
            version=NEWER_CLIENTS if context.api_version >= NEWER_CLIENTS_FROM else 0,
        )  # fmt: skip
    except HeadwaterError as error:
        code = transaction_code(error, fenced_known=context.api_version >= FENCED_KNOWN_FROM)
    return Fields(
        throttle_time=UNTHROTTLED, error_code=code, producer_id=following.id, producer_epoch=following.epoch
    )  # fmt: skip
