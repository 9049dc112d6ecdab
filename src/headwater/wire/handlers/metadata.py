"""Metadata: the nodes of the cluster (one) and the topics a client asks about, made on the way if that is allowed."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kio.schema.metadata.v13.request import MetadataRequest

from headwater.errors import HeadwaterError, TopicExists, UnknownTopic
from headwater.log.log import Log
from headwater.log.topic import Topic, check_name
from headwater.wire.context import Context
from headwater.wire.protocol.metadata import NO_ID, NOT_ASKED, OPERATIONS_FROM, MetadataAnswer, TopicAnswer
from headwater.wire.protocol.values import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from headwater.wire.topic_list import described_topic
from headwater.wire.topics import RESERVED_TOPICS, code_for
from headwater.wire.turns import in_turns

logger = logging.getLogger("headwater.wire")

AUTO_CREATION_ASKED_FROM = 4
IDS_ASKED_FROM = 10


async def handle(request: MetadataRequest, context: Context) -> MetadataAnswer:
    version = context.api_version
    asked = version >= OPERATIONS_FROM and request.include_topic_authorized_operations
    operations = TOPIC_OPERATIONS if asked else NOT_ASKED
    of_cluster = getattr(request, "include_cluster_authorized_operations", False)
    cluster_operations = CLUSTER_OPERATIONS if of_cluster else NOT_ASKED
    # In version 0 an empty list asks for all topics; later versions say null for all, and mean an empty list.
    if request.topics is None or (version == 0 and not request.topics):
        topics = context.shared.topic_list
        return await topics.answer(context, operations=operations, cluster_operations=cluster_operations)
    create = context.settings.auto_create_topics and (
        version < AUTO_CREATION_ASKED_FROM or request.allow_auto_topic_creation
    )
    topics_named = await _topics(request.topics, context, create=create, operations=operations)
    node = context.node
    return MetadataAnswer(node.id, node.host, node.port, context.log.cluster_id, topics_named, cluster_operations)


async def _topics(named: Iterable[Any], context: Context, *, create: bool, operations: int) -> list[TopicAnswer]:
    described: dict[str | UUID, TopicAnswer] = {}
    async for asked in in_turns(named):
        topic_id = asked.topic_id if context.api_version >= IDS_ASKED_FROM else None
        key = topic_id if asked.name is None and topic_id is not None else asked.name or ""
        if key not in described:
            described[key] = await _describe_asked(key, context, create=create, operations=operations)
    return list(described.values())


async def _describe_asked(key: str | UUID, context: Context, *, create: bool, operations: int) -> TopicAnswer:
    log = context.log
    try:
        if isinstance(key, UUID):
            topic = log.topic_by_id(key)
        else:
            topic = await _existing_or_new(log, key, context, create=create)
    except HeadwaterError as error:
        return _refused(error, key)
    return described_topic(topic, operations)


def _refused(error: HeadwaterError, key: str | UUID) -> TopicAnswer:
    code = code_for(error, key).value
    if isinstance(key, UUID):
        return TopicAnswer(None, key, code)
    return TopicAnswer(key, NO_ID, code, internal=key in RESERVED_TOPICS)


async def _existing_or_new(log: Log, name: str, context: Context, *, create: bool) -> Topic:
    try:
        return log.topic(name)
    except UnknownTopic:
        check_name(name)
        if not create or name in RESERVED_TOPICS or not _may_create(name, context):
            raise
    try:
        return await context.run(log.create_topic, name, partitions=context.settings.default_partitions)
    except TopicExists:
        return log.topic(name)  # another request created it first


def _may_create(name: str, context: Context) -> bool:
    """One request may name thousands. Clients ask again for a topic they still miss, and have it a little later."""
    counter, now = context.shared.auto_creation, asyncio.get_running_loop().time()
    why = counter.refusal(context.settings, topics=context.log.topic_count, now=now)
    if why and counter.worth_saying(now):
        logger.warning('topic "%s" is not created for %s: %s', name, context.client_host, why)
    return not why
