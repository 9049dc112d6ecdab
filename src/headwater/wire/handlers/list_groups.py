"""ListGroups: every group this node knows, by state and type if asked."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.groups.member import DescribedGroup
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    states = {state.lower() for state in getattr(request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(request, "types_filter", ())}
    try:
        groups = context.groups.groups()
    except HeadwaterError as error:
        return Fields(throttle_time=UNTHROTTLED, error_code=group_error_code(error), groups=())
    listed = tuple(
        _listed(group)
        for group in groups
        if (not states or group.state.lower() in states) and (not types or group.kind in types)
    )
    return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.none, groups=listed)


def _listed(group: DescribedGroup) -> Fields:
    return Fields(
        group_id=group.id, protocol_type=group.protocol_type, group_state=str(group.state), group_type=group.kind
    )  # fmt: skip
