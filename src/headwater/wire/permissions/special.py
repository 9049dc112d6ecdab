"""Permissions of the APIs that ask for more than one thing, or answer in a form of their own. As Apache Kafka has it.

Each function is given a request, its context and its handler, and returns the answer.
"""

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.errors import HeadwaterError, ProtocolError
from headwater.wire.answers import NO_ANSWER, Later
from headwater.wire.configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from headwater.wire.context import Context
from headwater.wire.handlers.metadata import AUTO_CREATION_ASKED_FROM, IDS_ASKED_FROM
from headwater.wire.permissions.permits import Permits
from headwater.wire.permissions.refusals import element_type, mirrored
from headwater.wire.protocol import produce as produce_format
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.metadata import NO_ID, NOT_ASKED, OPERATIONS_FROM, MetadataAnswer, TopicAnswer
from headwater.wire.topics import name_of

Handle = Callable[[Any, Context], Awaitable[Any]]

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTION = ResourceType.TRANSACTIONAL_ID
UNAUTHORIZED_TOPIC = ErrorCode.topic_authorization_failed
UNAUTHORIZED_CLUSTER = ErrorCode.cluster_authorization_failed
UNAUTHORIZED_TRANSACTION = ErrorCode.transactional_id_authorization_failed
REFUSED = "Authorization failed."
COORDINATORS = {
    0: (Operation.DESCRIBE, GROUP, ErrorCode.group_authorization_failed),
    1: (Operation.DESCRIBE, TRANSACTION, UNAUTHORIZED_TRANSACTION),
    2: (Operation.CLUSTER_ACTION, CLUSTER, UNAUTHORIZED_CLUSTER),
}
"""By type of key; the last is that of share groups' states, which only brokers look for."""
GROUP_ERROR_FROM = 2
"""The version of OffsetFetch from which on an answer has an error of its own."""


def permits_of(context: Context) -> Permits:
    assert context.permits is not None
    return context.permits


# -- records ---------------------------------------------------------------------------------------------------------


async def produce(request: Any, context: Context, handle: Handle) -> Any:
    permits = permits_of(context)
    transaction = request.transactional_id
    code = UNAUTHORIZED_TOPIC
    if transaction is not None and not permits.may(Operation.WRITE, TRANSACTION, transaction):
        allowed, denied, code = [], list(request.topics), UNAUTHORIZED_TRANSACTION
    else:
        names = [name_of(context.log, topic.topic) for topic in request.topics]
        may = [name is None or permits.may(Operation.WRITE, TOPIC, name) for name in names]
        allowed = [topic for topic, fine in zip(request.topics, may, strict=True) if fine]
        denied = [topic for topic, fine in zip(request.topics, may, strict=True) if not fine]
    if not denied:
        return await handle(request, context)
    if request.acks == 0:
        raise ProtocolError(f"{permits.who} sent records with acks=0 to a topic that it may not write to")
    refused = [
        produce_format.TopicAnswer(
            topic.topic, [produce_format.PartitionAnswer(one.number, code.value) for one in topic.partitions]
        )
        for topic in denied
    ]
    if not allowed:
        return refused
    answer = await handle(request._replace(topics=allowed), context)
    if not isinstance(answer, Later):
        return answer if answer is NO_ANSWER else [*answer, *refused]

    async def later() -> Any:
        return [*await answer.finish(), *refused]

    return Later(later)


async def fetch(request: Any, context: Context, handle: Handle) -> Any:
    """The handler itself asks for each partition: those of a session are not in the request."""
    return await handle(request, context)


# -- topics ----------------------------------------------------------------------------------------------------------


async def metadata(request: Any, context: Context, handle: Handle) -> Any:
    permits, version = permits_of(context), context.api_version
    if request.topics is None or (version == 0 and not request.topics):
        answer = await handle(request, context)
        topics = [topic for topic in answer.topics if permits.sees(Operation.DESCRIBE, TOPIC, topic.name)]
    else:
        refused: list[TopicAnswer] = []
        seen = [asked for asked in request.topics if _seen(asked, request, context, refused)]
        if seen or version > 0:
            answer = await handle(dataclasses.replace(request, topics=tuple(seen)), context)
        else:
            node = context.node
            answer = MetadataAnswer(node.id, node.host, node.port, context.log.cluster_id, [])
        topics = [*answer.topics, *refused]
    if version >= OPERATIONS_FROM and request.include_topic_authorized_operations:
        topics = [_with_operations(topic, permits) for topic in topics]
    operations = answer.cluster_operations
    if operations != NOT_ASKED:
        operations = _cluster_operations(permits)
    return answer._replace(topics=topics, cluster_operations=operations, written=None)


def _seen(asked: Any, request: Any, context: Context, refused: list[TopicAnswer]) -> bool:
    """May the client see this topic, or have it created? If not, its answer goes to `refused`."""
    permits, log = permits_of(context), context.log
    topic_id = asked.topic_id if context.api_version >= IDS_ASKED_FROM else None
    if asked.name is None:
        name = name_of(log, topic_id)
        if name is None or permits.may(Operation.DESCRIBE, TOPIC, name):
            return True
        # An id that is refused looks like one that does not exist: its name must not be revealed.
        refused.append(TopicAnswer(None, topic_id or NO_ID, ErrorCode.unknown_topic_id.value))
        return False
    name = str(asked.name)
    if permits.may(Operation.DESCRIBE, TOPIC, name) and not _creates_in_vain(name, request, context):
        return True
    refused.append(TopicAnswer(name, NO_ID, UNAUTHORIZED_TOPIC.value))
    return False


def _creates_in_vain(name: str, request: Any, context: Context) -> bool:
    """Would the topic have to be created, which the client may not?"""
    asks = context.api_version < AUTO_CREATION_ASKED_FROM or request.allow_auto_topic_creation
    if not asks or not context.settings.auto_create_topics:
        return False
    permits = permits_of(context)
    return not _exists(name, context) and not (
        permits.sees(Operation.CREATE, CLUSTER) or permits.may(Operation.CREATE, TOPIC, name)
    )


def _exists(name: str, context: Context) -> bool:
    try:
        context.log.topic(name)
    except HeadwaterError:
        return name in context.log.offline_topics()
    return True


def _with_operations(topic: TopicAnswer, permits: Permits) -> TopicAnswer:
    if topic.error_code or topic.name is None:
        return topic
    return topic._replace(operations=permits.operations(TOPIC, topic.name))


def _cluster_operations(permits: Permits) -> int:
    return permits.operations(CLUSTER) if permits.sees(Operation.DESCRIBE, CLUSTER) else 0


async def create_topics(request: Any, context: Context, handle: Handle) -> Any:
    permits = permits_of(context)
    everywhere = permits.sees(Operation.CREATE, CLUSTER)
    allowed = [one for one in request.topics if everywhere or permits.may(Operation.CREATE, TOPIC, one.name)]
    denied = [one for one in request.topics if one not in allowed]
    answer = await handle(dataclasses.replace(request, topics=tuple(allowed)), context)
    made = [_with_configs(one, permits) for one in answer.topics]
    if not request.validate_only:
        for one in made:
            if one.error_code is ErrorCode.none:
                context.note_change("CREATE", f"TOPIC:{one.name}")
    kind = element_type(19, context.api_version, "topics")
    refused = [mirrored(Fields(name=one.name), kind, UNAUTHORIZED_TOPIC, REFUSED) for one in denied]
    return Fields(throttle_time=answer.throttle_time, topics=(*made, *refused))


def _with_configs(made: Any, permits: Permits) -> Any:
    """A client that may create a topic may still not see how the node would set it up."""
    if made.error_code is not ErrorCode.none or permits.sees(Operation.DESCRIBE_CONFIGS, TOPIC, made.name):
        return made
    return dataclasses.replace(
        made, topic_config_error_code=UNAUTHORIZED_TOPIC.value, num_partitions=-1, replication_factor=-1, configs=()
    )


async def delete_topics(request: Any, context: Context, handle: Handle) -> Any:
    permits = permits_of(context)
    by_name = hasattr(request, "topic_names")
    asked = request.topic_names if by_name else request.topics
    allowed, refused = [], []
    for one in asked:
        given = one if by_name else one.name
        name = given if given is not None else name_of(context.log, one.topic_id)
        if name is None or permits.may(Operation.DELETE, TOPIC, name):
            allowed.append(one)
            continue
        described = permits.sees(Operation.DESCRIBE, TOPIC, name)
        topic_id = None if by_name else one.topic_id
        refused.append(
            Fields(
                name=name if described or given is not None else None, topic_id=topic_id,
                error_code=UNAUTHORIZED_TOPIC, error_message=REFUSED,
            )
        )  # fmt: skip
    field = "topic_names" if by_name else "topics"
    answer = await handle(dataclasses.replace(request, **{field: tuple(allowed)}), context)
    for one in answer.responses:
        if one.error_code is ErrorCode.none:
            context.note_change("DELETE", f"TOPIC:{one.name}")
    return Fields(throttle_time=answer.throttle_time, responses=(*answer.responses, *refused))


# -- configuration ---------------------------------------------------------------------------------------------------


async def describe_configs(request: Any, context: Context, handle: Handle) -> Any:
    return await _configs(request, context, handle, Operation.DESCRIBE_CONFIGS, "results")


async def alter_configs(request: Any, context: Context, handle: Handle) -> Any:
    answer = await _configs(request, context, handle, Operation.ALTER_CONFIGS, "responses")
    if not request.validate_only:
        for one in answer.responses:
            if one.error_code is ErrorCode.none:
                context.note_change("ALTER_CONFIGS", f"{one.resource_type}:{one.resource_name}")
    return answer


async def _configs(request: Any, context: Context, handle: Handle, operation: Operation, answers: str) -> Any:
    permits = permits_of(context)
    allowed, refused = [], []
    for one in request.resources:
        code = _config_refusal(one, operation, permits)
        if code is None:
            allowed.append(one)
        else:
            refused.append(
                Fields(
                    error_code=code, error_message=None, resource_type=one.resource_type,
                    resource_name=one.resource_name, configs=(),
                )
            )  # fmt: skip
    answer = await handle(dataclasses.replace(request, resources=tuple(allowed)), context)
    return Fields(throttle_time=answer.throttle_time, **{answers: (*getattr(answer, answers), *refused)})


def _config_refusal(one: Any, operation: Operation, permits: Permits) -> ErrorCode | None:
    if one.resource_type == TOPIC_RESOURCE:
        return None if permits.may(operation, TOPIC, one.resource_name) else UNAUTHORIZED_TOPIC
    if one.resource_type == GROUP_RESOURCE:
        allowed = permits.may(operation, GROUP, one.resource_name)
        return None if allowed else ErrorCode.group_authorization_failed
    # The node itself; and kinds that the handler refuses, which reveal nothing.
    if one.resource_type == BROKER_RESOURCE and not permits.may(operation, CLUSTER):
        return UNAUTHORIZED_CLUSTER
    return None


async def describe_cluster(request: Any, context: Context, handle: Handle) -> Any:
    answer = await handle(request, context)
    if not request.include_cluster_authorized_operations:
        return answer
    return dataclasses.replace(answer, cluster_authorized_operations=_cluster_operations(permits_of(context)))


async def alter_user_scram_credentials(request: Any, context: Context, handle: Handle) -> Any:
    """Refused for each user, of whom the request has two lists."""
    if permits_of(context).may(Operation.ALTER, CLUSTER):
        return await handle(request, context)
    names = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    results = [Fields(user=name, error_code=UNAUTHORIZED_CLUSTER, error_message=None) for name in names]
    return Fields(throttle_time=UNTHROTTLED, results=tuple(results))


# -- groups ----------------------------------------------------------------------------------------------------------


async def find_coordinator(request: Any, context: Context, handle: Handle) -> Any:
    permits = permits_of(context)
    operation, kind, code = COORDINATORS.get(getattr(request, "key_type", 0), COORDINATORS[0])
    if not hasattr(request, "coordinator_keys"):
        if permits.may(operation, kind, request.key):
            return await handle(request, context)
        refused = _no_coordinator(request.key, code)
        refused.throttle_time = UNTHROTTLED
        return refused
    keys = request.coordinator_keys
    allowed = [key for key in keys if permits.may(operation, kind, CLUSTER_NAME if kind is CLUSTER else key)]
    refusals = [_no_coordinator(key, code) for key in request.coordinator_keys if key not in allowed]
    answer = await handle(dataclasses.replace(request, coordinator_keys=tuple(allowed)), context)
    return Fields(throttle_time=UNTHROTTLED, coordinators=(*answer.coordinators, *refusals))


def _no_coordinator(key: str, code: ErrorCode) -> Fields:
    return Fields(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None)


async def list_groups(request: Any, context: Context, handle: Handle) -> Any:
    permits, answer = permits_of(context), await handle(request, context)
    if permits.sees(Operation.DESCRIBE, CLUSTER):
        return answer
    answer.groups = tuple(group for group in answer.groups if permits.sees(Operation.DESCRIBE, GROUP, group.group_id))
    return answer


async def describe_groups(request: Any, context: Context, handle: Handle) -> Any:
    answer = await handle(request, context)
    if getattr(request, "include_authorized_operations", False):
        for group in answer.groups:
            group.authorized_operations = permits_of(context).operations(GROUP, group.group_id)
    return answer


async def consumer_group_heartbeat(request: Any, context: Context, handle: Handle) -> Any:
    """Topics that a member names must be visible to it; its pattern matches only those that are."""
    permits = permits_of(context)
    if all(permits.may(Operation.DESCRIBE, TOPIC, name) for name in request.subscribed_topic_names or ()):
        return await handle(request, context)
    return Fields(
        throttle_time=UNTHROTTLED, error_code=UNAUTHORIZED_TOPIC, error_message=None, member_id=None, member_epoch=0,
        heartbeat_interval=UNTHROTTLED, assignment=None,
    )  # fmt: skip


async def consumer_group_describe(request: Any, context: Context, handle: Handle) -> Any:
    """A group that reads topics which may not be seen is described without its members."""
    permits, answer = permits_of(context), await handle(request, context)
    for group in answer.groups:
        if request.include_authorized_operations and group.error_code is ErrorCode.none:
            group.authorized_operations = permits.operations(GROUP, group.group_id)
        _hide_members(group, ("assignment", "target_assignment"), permits)
    return answer


async def share_group_describe(request: Any, context: Context, handle: Handle) -> Any:
    permits, answer = permits_of(context), await handle(request, context)
    for group in answer.groups:
        if request.include_authorized_operations and group.error_code is ErrorCode.none:
            group.authorized_operations = permits.operations(GROUP, group.group_id)
        _hide_members(group, ("assignment",), permits)
    return answer


def _hide_members(group: Any, fields: tuple[str, ...], permits: Permits) -> None:
    shares = [getattr(member, field) for member in group.members for field in fields]
    named = {topic.topic_name for share in shares for topic in share.topic_partitions}
    if not all(permits.sees(Operation.DESCRIBE, TOPIC, name) for name in named):
        group.error_code, group.members = UNAUTHORIZED_TOPIC, ()
        group.error_message = "the group reads topics that this client may not see"


async def describe_share_group_offsets(request: Any, context: Context, handle: Handle) -> Any:
    """Topics that were named are refused; where all were asked for, those that may not be seen are left out."""
    permits, asked, refused = permits_of(context), [], {}
    kind = element_type(90, context.api_version, "groups")
    for group in request.groups:
        may = [permits.may(Operation.DESCRIBE, TOPIC, one.topic_name) for one in group.topics or ()]
        kept = tuple(one for one, fine in zip(group.topics or (), may, strict=True) if fine)
        denied = tuple(one for one, fine in zip(group.topics or (), may, strict=True) if not fine)
        asked.append(dataclasses.replace(group, topics=None if group.topics is None else kept))
        refused[group.group_id] = mirrored(dataclasses.replace(group, topics=denied), kind, UNAUTHORIZED_TOPIC, REFUSED)
    answer = await handle(dataclasses.replace(request, groups=tuple(asked)), context)
    for group in answer.groups:
        seen = [one for one in group.topics if permits.sees(Operation.DESCRIBE, TOPIC, one.topic_name)]
        group.topics = (*seen, *refused[group.group_id].topics)
    return answer


async def offset_fetch(request: Any, context: Context, handle: Handle) -> Any:
    permits = permits_of(context)
    if not hasattr(request, "groups"):
        kept, refused = _offsets_asked(request, context)
        if kept is None:
            code = ErrorCode.group_authorization_failed
            # Only the answers of old versions have no error of their own.
            topics = () if context.api_version >= GROUP_ERROR_FROM else _no_offsets(request.topics or (), code)
            return Fields(throttle_time=UNTHROTTLED, error_code=code, topics=topics)
        answer = await handle(kept, context)
        answer.topics = (*_visible(answer.topics, permits), *refused)
        return answer
    allowed, by_group, denied = [], {}, []
    for group in request.groups:
        kept, by_group[group.group_id] = _offsets_asked(group, context)
        if kept is None:
            denied.append(Fields(group_id=group.group_id, error_code=ErrorCode.group_authorization_failed, topics=()))
        else:
            allowed.append(kept)
    answer = await handle(dataclasses.replace(request, groups=tuple(allowed)), context)
    for group in answer.groups:
        if group.error_code is ErrorCode.none:
            group.topics = (*_visible(group.topics, permits), *by_group[group.group_id])
    return Fields(throttle_time=UNTHROTTLED, groups=(*answer.groups, *denied))


def _offsets_asked(group: Any, context: Context) -> tuple[Any, tuple[Fields, ...]]:
    """The question for what may be seen, and the refusals of the rest; None if the group may not be seen."""
    permits = permits_of(context)
    if not permits.may(Operation.DESCRIBE, GROUP, group.group_id):
        return None, ()
    if group.topics is None:
        return group, ()
    names = [name_of(context.log, getattr(one, "name", None) or getattr(one, "topic_id", None)) for one in group.topics]
    may = [name is None or permits.may(Operation.DESCRIBE, TOPIC, name) for name in names]
    kept = tuple(one for one, fine in zip(group.topics, may, strict=True) if fine)
    denied = [one for one, fine in zip(group.topics, may, strict=True) if not fine]
    return dataclasses.replace(group, topics=kept), _no_offsets(denied, UNAUTHORIZED_TOPIC)


def _no_offsets(topics: Any, code: ErrorCode) -> tuple[Fields, ...]:
    return tuple(
        Fields(
            name=getattr(one, "name", ""), topic_id=getattr(one, "topic_id", None),
            partitions=tuple(
                Fields(partition_index=number, committed_offset=-1, committed_leader_epoch=-1, metadata="",
                       error_code=code)
                for number in one.partition_indexes
            ),
        )
        for one in topics
    )  # fmt: skip


def _visible(topics: Any, permits: Permits) -> list[Any]:
    """All of a group's offsets were asked for: topics that may not be seen are left out."""
    return [one for one in topics if not one.name or permits.sees(Operation.DESCRIBE, TOPIC, one.name)]


# -- the cluster ----------------------------------------------------------------------------------------------------


async def alter_replica_log_dirs(request: Any, context: Context, handle: Handle) -> Any:
    if permits_of(context).may(Operation.ALTER, CLUSTER):
        return await handle(request, context)
    topics = [topic for directory in request.dirs for topic in directory.topics]
    refused = [
        Fields(
            topic_name=topic.name,
            partitions=tuple(
                Fields(partition_index=number, error_code=UNAUTHORIZED_CLUSTER) for number in topic.partitions
            ),
        )
        for topic in topics
    ]
    return Fields(throttle_time=UNTHROTTLED, results=tuple(refused))


async def elect_leaders(request: Any, context: Context, handle: Handle) -> Any:
    """Version 0 has room for errors of partitions only."""
    if permits_of(context).may(Operation.ALTER, CLUSTER):
        return await handle(request, context)
    refused = [
        Fields(
            topic=topic.topic,
            partition_result=tuple(
                Fields(partition_id=number, error_code=UNAUTHORIZED_CLUSTER, error_message=None)
                for number in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    ]
    return Fields(throttle_time=UNTHROTTLED, error_code=UNAUTHORIZED_CLUSTER, replica_election_results=tuple(refused))


# -- producers and transactions --------------------------------------------------------------------------------------


async def init_producer_id(request: Any, context: Context, handle: Handle) -> Any:
    permits, code = permits_of(context), ErrorCode.none
    if request.transactional_id is not None:
        if not permits.may(Operation.WRITE, TRANSACTION, request.transactional_id):
            code = UNAUTHORIZED_TRANSACTION
    elif not permits.may_on_any(Operation.WRITE, TOPIC) and not permits.may(Operation.IDEMPOTENT_WRITE, CLUSTER):
        code = UNAUTHORIZED_CLUSTER
    if code is ErrorCode.none:
        return await handle(request, context)
    return Fields(
        throttle_time=UNTHROTTLED, error_code=code, producer_id=-1, producer_epoch=-1,
        ongoing_txn_producer_id=-1, ongoing_txn_producer_epoch=-1,
    )  # fmt: skip


async def add_partitions_to_txn(request: Any, context: Context, handle: Handle) -> Any:
    permits = permits_of(context)
    if not hasattr(request, "v3_and_below_topics"):
        # From version 4 on other brokers ask it, of which there are none.
        if permits.may(Operation.CLUSTER_ACTION, CLUSTER):
            return await handle(request, context)
        return Fields(throttle_time=UNTHROTTLED, error_code=UNAUTHORIZED_CLUSTER, results_by_transaction=())
    topics = request.v3_and_below_topics
    if not permits.may(Operation.WRITE, TRANSACTION, request.v3_and_below_transactional_id):
        return _not_added(topics, dict.fromkeys([one.name for one in topics], UNAUTHORIZED_TRANSACTION))
    denied = {one.name for one in topics if not permits.may(Operation.WRITE, TOPIC, one.name)}
    if not denied:
        return await handle(request, context)
    codes = {
        one.name: UNAUTHORIZED_TOPIC if one.name in denied else ErrorCode.operation_not_attempted for one in topics
    }
    return _not_added(topics, codes)


def _not_added(topics: Any, codes: dict[str, ErrorCode]) -> Fields:
    return Fields(
        throttle_time=timedelta(0),
        results_by_topic_v3_and_below=tuple(
            Fields(
                name=one.name,
                results_by_partition=tuple(
                    Fields(partition_index=number, partition_error_code=codes[one.name]) for number in one.partitions
                ),
            )
            for one in topics
        ),
    )


async def describe_transactions(request: Any, context: Context, handle: Handle) -> Any:
    """Topics of a transaction that may not be seen are left out."""
    permits, answer = permits_of(context), await handle(request, context)
    for state in answer.transaction_states:
        state.topics = tuple(one for one in state.topics if permits.sees(Operation.DESCRIBE, TOPIC, one.topic))
    return answer


async def list_transactions(request: Any, context: Context, handle: Handle) -> Any:
    permits, answer = permits_of(context), await handle(request, context)
    visible = tuple(
        one for one in answer.transaction_states if permits.sees(Operation.DESCRIBE, TRANSACTION, one.transactional_id)
    )
    if isinstance(answer, Fields):
        return Fields(**{**vars(answer), "transaction_states": visible})
    return dataclasses.replace(answer, transaction_states=visible)
