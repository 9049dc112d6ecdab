"""InitProducerId: a number under which a producer's retries are recognised."""

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.values import NO_THROTTLE


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        # Clients take this as final and say so, instead of trying again for ever.
        return _refusal(ErrorCode.unsupported_version)
    try:
        # Reserving a block of ids may touch the disk.
        producer_id = await context.run(context.log.next_producer_id)
    except HeadwaterError as error:
        return _refusal(error_code(error))
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(0),
    )


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=code, producer_id=ProducerId(-1), producer_epoch=i16(-1)
    )
