"""DeleteGroups: forget groups without members, and their offsets."""

import asyncio
from typing import Any

from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    results = await asyncio.gather(*(_delete(group_id, context) for group_id in request.groups_names))
    return Fields(throttle_time=UNTHROTTLED, results=tuple(results))


async def _delete(group_id: str, context: Context) -> Fields:
    failure: HeadwaterError | None = None
    try:
        await context.groups.delete(group_id)
    except HeadwaterError as error:
        failure = error
    return Fields(group_id=group_id, error_code=group_error_code(failure))
