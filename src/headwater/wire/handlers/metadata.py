"""Metadata: the nodes of the cluster (one) and the topics a client asks about, made on the way if that is allowed."""

from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v10.response import MetadataResponse as ResponseWithClusterOperations
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from headwater.errors import HeadwaterError, TopicExists, UnknownTopic
from headwater.log.log import Log
from headwater.log.topic import Topic, check_name
from headwater.wire.context import Context
from headwater.wire.protocol.values import CLUSTER_OPERATIONS, NO_THROTTLE, NOT_ASKED, TOPIC_OPERATIONS
from headwater.wire.topics import RESERVED_TOPICS, code_for

AUTO_CREATION_ASKED_FROM = 4
OPERATIONS_FROM = 8
CLUSTER_OPERATIONS_UNTIL = 10
IDS_ASKED_FROM = 10


async def handle(request: MetadataRequest, context: Context) -> MetadataResponse | ResponseWithClusterOperations:
    version = context.api_version
    create = context.settings.auto_create_topics and (
        version < AUTO_CREATION_ASKED_FROM or request.allow_auto_topic_creation
    )
    operations = (
        TOPIC_OPERATIONS if version >= OPERATIONS_FROM and request.include_topic_authorized_operations else NOT_ASKED
    )
    topics = await _topics(request, context, create=create, operations=operations)
    broker = MetadataResponseBroker(
        node_id=BrokerId(context.node.id), host=context.node.host, port=i32(context.node.port)
    )
    if OPERATIONS_FROM <= version <= CLUSTER_OPERATIONS_UNTIL:
        asked: bool = getattr(request, "include_cluster_authorized_operations", False)
        return ResponseWithClusterOperations(
            throttle_time=NO_THROTTLE,
            brokers=(broker,),  # type: ignore[arg-type]  # fields are written by name
            cluster_id=context.log.cluster_id,
            controller_id=BrokerId(context.node.id),
            topics=topics,  # type: ignore[arg-type]
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        )
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(broker,),
        cluster_id=context.log.cluster_id,
        controller_id=BrokerId(context.node.id),
        topics=topics,
        error_code=ErrorCode.none,
    )


async def _topics(
    request: MetadataRequest, context: Context, *, create: bool, operations: i32
) -> tuple[MetadataResponseTopic, ...]:
    # In version 0 an empty list asks for all topics; later versions say null for all, and mean an empty list.
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return await context.run(_describe_all, context, operations)
    described = {}
    for asked in request.topics:
        topic_id = asked.topic_id if context.api_version >= IDS_ASKED_FROM else None
        key = topic_id if asked.name is None and topic_id is not None else asked.name or ""
        if key not in described:
            described[key] = await _describe_asked(key, context, create=create, operations=operations)
    return tuple(described.values())


async def _describe_asked(key: str | UUID, context: Context, *, create: bool, operations: i32) -> MetadataResponseTopic:
    log = context.log
    try:
        if isinstance(key, UUID):
            topic = log.topic_by_id(key)
        else:
            topic = await _existing_or_new(log, key, context, create=create)
    except HeadwaterError as error:
        by_id = isinstance(key, UUID)
        return MetadataResponseTopic(
            error_code=code_for(error, key),
            name=None if isinstance(key, UUID) else TopicName(key),
            topic_id=key if isinstance(key, UUID) else None,
            is_internal=not by_id and key in RESERVED_TOPICS,
            partitions=(),
            topic_authorized_operations=NOT_ASKED,
        )
    return _describe(topic, context, operations)


async def _existing_or_new(log: Log, name: str, context: Context, *, create: bool) -> Topic:
    try:
        return log.topic(name)
    except UnknownTopic:
        check_name(name)
        if not create or name in RESERVED_TOPICS:
            raise
    try:
        return await context.run(log.create_topic, name, partitions=context.settings.default_partitions)
    except TopicExists:
        return log.topic(name)  # somebody else was first


def _describe_all(context: Context, operations: i32) -> tuple[MetadataResponseTopic, ...]:
    return tuple(_describe(topic, context, operations) for topic in context.log.topics())


def _describe(topic: Topic, context: Context, operations: i32) -> MetadataResponseTopic:
    node = BrokerId(context.node.id)
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.name in RESERVED_TOPICS,
        partitions=tuple(
            MetadataResponsePartition(
                error_code=ErrorCode.none,
                partition_index=i32(number),
                leader_id=node,
                leader_epoch=i32(0),
                replica_nodes=(node,),
                isr_nodes=(node,),
                offline_replicas=(),
            )
            for number in range(topic.partitions)
        ),
        topic_authorized_operations=operations,
    )
