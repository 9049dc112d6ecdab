"""ConsumerGroupHeartbeat: join, stay in and leave a group whose partitions the coordinator assigns (KIP-848)."""

import base64
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from headwater.access.acls import Operation, ResourceType
from headwater.errors import HeadwaterError
from headwater.log.groups.consumer.assignors import PartitionId, Partitions
from headwater.log.groups.consumer.heartbeat import JOINING, Heartbeat
from headwater.settings import milliseconds
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.topic_catalog import TopicCatalog

UNCHANGED = -1


async def handle(request: Any, context: Context) -> Fields:
    try:
        answer = await context.groups.consumer_heartbeat(
            request.group_id, _heartbeat(request, context), catalog_of(context)
        )
    except HeadwaterError as error:
        return Fields(
            throttle_time=UNTHROTTLED, error_code=group_error_code(error), error_message=str(error),
            member_id=None, member_epoch=0, heartbeat_interval=UNTHROTTLED, assignment=None,
        )  # fmt: skip
    leaving = answer.epoch < 0
    return Fields(
        throttle_time=UNTHROTTLED,
        error_code=group_error_code(None),
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval=UNTHROTTLED if leaving else context.settings.group_consumer_heartbeat_interval,
        assignment=None if answer.assignment is None else assignment_of(answer.assignment),
    )


def catalog_of(context: Context) -> TopicCatalog:
    """The topics that the client may see."""
    permits = context.permits
    if permits is None:
        return TopicCatalog(context.log)
    return TopicCatalog(context.log, lambda name: permits.sees(Operation.DESCRIBE, ResourceType.TOPIC, name))


def assignment_of(partitions: Partitions) -> Fields:
    topics: dict[Any, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return Fields(
        topic_partitions=tuple(Fields(topic_id=id, partitions=tuple(numbers)) for id, numbers in topics.items())
    )


def _heartbeat(request: Any, context: Context) -> Heartbeat:
    member_id = request.member_id
    if not member_id and context.api_version == 0 and request.member_epoch == JOINING:
        member_id = base64.urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
    rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    return Heartbeat(
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if rebalance_timeout_ms == UNCHANGED else rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        pattern=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
    )


def _owned(topics: Iterable[Any] | None) -> Partitions | None:
    if topics is None:
        return None
    return frozenset(PartitionId(topic.topic_id, number) for topic in topics for number in topic.partitions)
