"""FindCoordinator: there is one node, and it coordinates everything."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.turns import in_turns

GROUP, TRANSACTION, SHARE = 0, 1, 2
SEVERAL_KEYS_SINCE = 4


async def handle(request: Any, context: Context) -> Fields:
    key_type: int = getattr(request, "key_type", GROUP)
    if context.api_version < SEVERAL_KEYS_SINCE:
        coordinator = _coordinator(request.key, key_type, context)
        coordinator.throttle_time = UNTHROTTLED
        return coordinator
    coordinators = [_coordinator(key, key_type, context) async for key in in_turns(request.coordinator_keys)]
    return Fields(throttle_time=UNTHROTTLED, coordinators=tuple(coordinators))


def _coordinator(key: str, key_type: int, context: Context) -> Fields:
    if key_type not in (GROUP, TRANSACTION, SHARE):
        message = f"coordinators of type {key_type} do not exist here"
        return Fields(
            key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.invalid_request, error_message=message
        )
    node = context.node
    return Fields(
        key=key, node_id=node.id, host=node.host, port=node.port, error_code=ErrorCode.none, error_message=None
    )
