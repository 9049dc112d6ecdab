"""DescribeGroups: state, protocol and members of groups."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, UnknownGroup
from headwater.log.groups.group_state import State
from headwater.log.groups.member import DescribedGroup
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.turns import in_turns

NOT_FOUND_SINCE = 6
OPERATIONS_NOT_ASKED_FOR = -(2**31)
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8  # read, delete, describe: there is no login that could forbid one

CLASSIC_STATES = {"Assigning": "PreparingRebalance", "Reconciling": "CompletingRebalance"}
"""States of the consumer protocol, in the words that older tools know."""


async def handle(request: Any, context: Context) -> Fields:
    asked = getattr(request, "include_authorized_operations", False)
    operations = ALL_OPERATIONS if asked else OPERATIONS_NOT_ASKED_FOR
    groups = [_described(group_id, operations, context) async for group_id in in_turns(request.groups)]
    return Fields(throttle_time=UNTHROTTLED, groups=tuple(groups))


def _described(group_id: str, operations: int, context: Context) -> Fields:
    try:
        group = context.groups.describe(group_id)
    except HeadwaterError as error:
        return _fields(DescribedGroup(group_id, "", "", ""), operations, error)
    if group is not None:
        return _fields(group, operations, None)
    # Until version 6 an unknown group was a dead group, without an error.
    missing = UnknownGroup(group_id) if context.api_version >= NOT_FOUND_SINCE else None
    return _fields(DescribedGroup(group_id, State.DEAD, "", ""), operations, missing)


def _fields(group: DescribedGroup, operations: int, error: HeadwaterError | None) -> Fields:
    members = tuple(
        Fields(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in group.members
    )
    return Fields(
        error_code=group_error_code(error) if error else ErrorCode.none,
        error_message=str(error) if error else None,
        group_id=group.id,
        group_state=CLASSIC_STATES.get(group.state, str(group.state)),
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=members,
        authorized_operations=operations,
    )
