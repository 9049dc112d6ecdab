"""ConsumerGroupDescribe: epochs, members and assignments of groups of the consumer protocol."""

from typing import Any

from headwater.errors import HeadwaterError
from headwater.log.groups.consumer.assignors import Partitions
from headwater.log.groups.consumer.description import ConsumerGroupDescription, ConsumerMemberDescription
from headwater.wire.context import Context
from headwater.wire.handlers.describe_groups import ALL_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.topics import name_of
from headwater.wire.turns import in_turns

CLASSIC, CONSUMER = 0, 1


async def handle(request: Any, context: Context) -> Fields:
    operations = ALL_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    groups = [_described(group_id, operations, context) async for group_id in in_turns(request.group_ids)]
    return Fields(throttle_time=UNTHROTTLED, groups=tuple(groups))


def _described(group_id: str, operations: int, context: Context) -> Fields:
    failure: HeadwaterError | None = None
    group = ConsumerGroupDescription(group_id, state="")
    try:
        group = context.groups.describe_consumer_group(group_id)
    except HeadwaterError as error:
        failure = error
    return Fields(
        error_code=group_error_code(failure),
        error_message=None if failure is None else str(failure),
        group_id=group_id,
        group_state=str(group.state),
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(member, context) for member in group.members),
        authorized_operations=OPERATIONS_NOT_ASKED_FOR if failure else operations,
    )


def _member(member: ConsumerMemberDescription, context: Context) -> Fields:
    data = member.data
    return Fields(
        member_id=member.id,
        instance_id=data.instance_id,
        rack_id=data.rack_id,
        member_epoch=member.epoch,
        client_id=data.client_id,
        client_host=data.client_host,
        subscribed_topic_names=tuple(sorted(data.topics)),
        subscribed_topic_regex=data.pattern or None,
        assignment=partitions_of(member.assigned, context),
        target_assignment=partitions_of(member.target, context),
        member_type=CONSUMER if data.classic is None else CLASSIC,
    )


def partitions_of(partitions: Partitions, context: Context) -> Fields:
    topics: dict[Any, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    named = ((id, name_of(context.log, id), tuple(numbers)) for id, numbers in topics.items())
    return Fields(
        topic_partitions=tuple(
            Fields(topic_id=id, topic_name=name, partitions=numbers) for id, name, numbers in named if name is not None
        )
    )
