"""CreateTopics: make topics, or only say whether they could be made."""

from collections import Counter
from collections.abc import Sequence

from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32

from headwater.errors import HeadwaterError, InvalidPartitions, InvalidSetting
from headwater.log.topic import Topic
from headwater.wire.configs import topic_entries
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.topics import refuse_reserved

BY_DEFAULT = -1
COPIES = 1


async def handle(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    names = Counter(topic.name for topic in request.topics)
    twice = {name for name, count in names.items() if count > 1}
    wanted = {topic.name: topic for topic in request.topics}
    results = [
        _refusal(topic, ErrorCode.invalid_request, "the topic is named twice in one request")
        if topic.name in twice
        else await _create(topic, context, validate_only=request.validate_only)
        for topic in wanted.values()
    ]
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))


async def _create(wanted: CreatableTopic, context: Context, *, validate_only: bool) -> CreatableTopicResult:
    placement = _placement_error(wanted, context.node.id)
    if placement is not None:
        return _refusal(wanted, *placement)
    make = context.log.planned_topic if validate_only else context.log.create_topic
    try:
        refuse_reserved(wanted.name)
        topic = await context.run(make, wanted.name, partitions=_partitions(wanted, context), configs=_configs(wanted))
    except HeadwaterError as error:
        return _refusal(wanted, error_code(error), str(error))
    return _success(topic, context)


def _placement_error(wanted: CreatableTopic, node_id: int) -> tuple[ErrorCode, str] | None:
    """What is wrong with where the copies of the partitions should be; there is one node for them."""
    if not wanted.assignments:
        if wanted.replication_factor not in (COPIES, BY_DEFAULT):
            message = f"replication factor {wanted.replication_factor} is larger than the number of nodes, which is 1"
            return ErrorCode.invalid_replication_factor, message
        return None
    if wanted.num_partitions != BY_DEFAULT or wanted.replication_factor != BY_DEFAULT:
        return ErrorCode.invalid_request, "give either replica assignments, or numbers of partitions and replicas"
    return assignment_error(wanted.assignments, node_id)


def assignment_error(assignments: Sequence[CreatableReplicaAssignment], node_id: int) -> tuple[ErrorCode, str] | None:
    if sorted(assignment.partition_index for assignment in assignments) != list(range(len(assignments))):
        return ErrorCode.invalid_replica_assignment, "partitions must be numbered from 0 without a gap"
    if any(tuple(assignment.broker_ids) != (node_id,) for assignment in assignments):
        return ErrorCode.invalid_replica_assignment, f"every partition must be on node {node_id}: there is no other"
    return None


def _partitions(wanted: CreatableTopic, context: Context) -> int:
    if wanted.assignments:
        return len(wanted.assignments)
    if wanted.num_partitions == BY_DEFAULT:
        return context.settings.default_partitions
    if wanted.num_partitions <= 0:
        raise InvalidPartitions(wanted.name, wanted.num_partitions, "it needs one at least")
    return wanted.num_partitions


def _configs(wanted: CreatableTopic) -> dict[str, str]:
    configs = {}
    for config in wanted.configs:
        if config.value is None:
            raise InvalidSetting(config.name, None, "it needs a value")
        configs[config.name] = config.value
    return configs


def _refusal(wanted: CreatableTopic, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=wanted.name, topic_id=None, error_code=code, error_message=message, configs=None)


def _success(topic: Topic, context: Context) -> CreatableTopicResult:
    entries = topic_entries(topic, dict(context.log.settings.topic_defaults))
    return CreatableTopicResult(
        name=topic.name,  # type: ignore[arg-type]  # kio's own kind of string
        topic_id=topic.id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=i32(topic.partitions),
        replication_factor=i16(COPIES),
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=i8(entry.source),
                is_sensitive=False,
            )
            for entry in entries
        ),
    )
