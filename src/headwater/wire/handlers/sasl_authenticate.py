"""SaslAuthenticate: one token of a login. What the tokens say is the mechanism's matter."""

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields


async def handle(request: Any, context: Context) -> Fields:
    session = context.session
    if session is None or (not session.possible and not session.open):
        said = "SaslAuthenticate request received after successful authentication"
        return Fields(
            error_code=ErrorCode.illegal_sasl_state, error_message=said, auth_bytes=b"", session_lifetime=UNTHROTTLED
        )
    answer = await session.take(request.auth_bytes)
    return Fields(
        error_code=ErrorCode.sasl_authentication_failed if answer.failure else ErrorCode.none,
        error_message=answer.failure or None,
        auth_bytes=answer.token,
        session_lifetime=timedelta(milliseconds=answer.lifetime_ms),
    )
