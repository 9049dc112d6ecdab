"""InitProducerId: a number under which a producer's retries are recognised.

With a transactional id it is also the end of every producer that had the id before: what it left open is aborted.
"""

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.wire.context import Context
from headwater.wire.protocol.transaction_codes import transaction_code
from headwater.wire.protocol.values import NO_THROTTLE

FENCED_KNOWN_FROM = 4
NONE = -1


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    expected = ProducerIdentity(getattr(request, "producer_id", NONE), getattr(request, "producer_epoch", NONE))
    if (expected.id == NONE) != (expected.epoch == NONE):
        return _refusal(ErrorCode.invalid_request)
    try:
        # Reserving a block of ids may touch the disk.
        found = await context.run(
            _identity, context.log, request.transactional_id, request.transaction_timeout,
            None if expected.id == NONE else expected,
        )  # fmt: skip
    except HeadwaterError as error:
        return _refusal(transaction_code(error, fenced_known=context.api_version >= FENCED_KNOWN_FROM))
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id=ProducerId(found.id),
        producer_epoch=i16(found.epoch),
    )


def _identity(
    log: Log, transactional_id: str | None, timeout: timedelta, expected: ProducerIdentity | None
) -> ProducerIdentity:
    if transactional_id is None:
        return ProducerIdentity(log.next_producer_id(), 0)
    timeout_ms = timeout // timedelta(milliseconds=1)
    return log.transactions.register(transactional_id, timeout_ms=timeout_ms, expected=expected)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=code, producer_id=ProducerId(-1), producer_epoch=i16(-1)
    )
