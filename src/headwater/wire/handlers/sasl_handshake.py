"""SaslHandshake: the client says how it wants to log in."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import Fields


async def handle(request: Any, context: Context) -> Fields:
    session = context.session
    if session is None or not session.possible:
        return Fields(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    chosen = await session.choose(request.mechanism)
    code = ErrorCode.none if chosen else ErrorCode.unsupported_sasl_mechanism
    return Fields(error_code=code, mechanisms=session.mechanisms)
