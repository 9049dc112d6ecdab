"""DeleteTopics: remove topics, by name or by id, with all their records."""

from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.topics import code_for, refuse_reserved

IDS_FROM = 6


async def handle(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    if context.api_version >= IDS_FROM:
        wanted = [topic.topic_id if topic.name is None else str(topic.name) for topic in request.topics]
    else:
        wanted = list(getattr(request, "topic_names", ()))
    return DeleteTopicsResponse(
        throttle_time=NO_THROTTLE,
        responses=await context.run(_delete_all, context.log, wanted),
    )


def _delete_all(log: Log, wanted: list[str | UUID | None]) -> tuple[DeletableTopicResult, ...]:
    return tuple(_delete(log, topic) for topic in dict.fromkeys(wanted))


def _delete(log: Log, wanted: str | UUID | None) -> DeletableTopicResult:
    name = None if wanted is None or isinstance(wanted, UUID) else wanted
    topic_id = wanted if isinstance(wanted, UUID) else None
    if wanted is None:
        return _result(name, topic_id, ErrorCode.invalid_request, "a topic needs a name or an id")
    try:
        if isinstance(wanted, UUID):
            name = log.topic_by_id(wanted).name
        elif wanted not in log.offline_topics():
            topic_id = log.topic(wanted).id
        assert name is not None
        refuse_reserved(name)
        log.delete_topic(name)
    except HeadwaterError as error:
        return _result(name, topic_id, code_for(error, wanted), str(error))
    return _result(name, topic_id, ErrorCode.none, None)


def _result(name: str | None, topic_id: UUID | None, code: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=None if name is None else TopicName(name), topic_id=topic_id, error_code=code, error_message=message
    )
