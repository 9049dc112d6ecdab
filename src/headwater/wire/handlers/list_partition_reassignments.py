"""ListPartitionReassignments: no partition is ever on its way to another node."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields


async def handle(_request: Any, _context: Context) -> Fields:
    return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.none, error_message=None, topics=())
