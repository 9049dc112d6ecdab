"""ShareGroupDescribe: members and assignments of share groups (KIP-932)."""

from typing import Any

from headwater.errors import HeadwaterError
from headwater.log.groups.share.assignment import ASSIGNOR
from headwater.log.groups.share.membership import ShareGroup, ShareMember
from headwater.wire.context import Context
from headwater.wire.handlers.consumer_group_describe import partitions_of
from headwater.wire.handlers.consumer_group_heartbeat import catalog_of
from headwater.wire.handlers.describe_groups import ALL_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.turns import in_turns

DEAD = "Dead"


async def handle(request: Any, context: Context) -> Fields:
    operations = ALL_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    groups = [_described(group_id, operations, context) async for group_id in in_turns(request.group_ids)]
    return Fields(throttle_time=UNTHROTTLED, groups=tuple(groups))


def _described(group_id: str, operations: int, context: Context) -> Fields:
    failure: HeadwaterError | None = None
    group, state = ShareGroup(group_id, 0), DEAD
    try:
        group = context.groups.share.describe(group_id, catalog_of(context))
        state = group.state
    except HeadwaterError as error:
        failure = error
    return Fields(
        error_code=group_error_code(failure),
        error_message=None if failure is None else str(failure),
        group_id=group_id,
        group_state=str(state),
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name="" if failure else ASSIGNOR,
        members=tuple(_member(member, group, context) for member in group.members.values()),
        authorized_operations=OPERATIONS_NOT_ASKED_FOR if failure else operations,
    )


def _member(member: ShareMember, group: ShareGroup, context: Context) -> Fields:
    return Fields(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        assignment=partitions_of(group.target.get(member.id, frozenset()), context),
    )
