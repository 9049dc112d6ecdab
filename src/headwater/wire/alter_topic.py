"""Changing a topic's settings on behalf of a client, or only checking that it could be done."""

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.topic import Topic
from headwater.log.topic_settings import TopicSettings
from headwater.wire.config_changes import Changes
from headwater.wire.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.topics import refuse_reserved


class Refusal(NamedTuple):
    """Why nothing was changed; `none` says that it was."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None


async def alter_topic(
    context: Context, resource_type: int, name: str, changes: Callable[[Topic], Changes], *, validate_only: bool
) -> Refusal:
    if resource_type == BROKER_RESOURCE:
        return Refusal(ErrorCode.invalid_request, "the settings of a node are given when it is started")
    if resource_type != TOPIC_RESOURCE:
        return Refusal(ErrorCode.invalid_request, f"settings of resources of type {resource_type} do not exist here")
    try:
        await context.run(_alter, context.log, name, changes, validate_only=validate_only)
    except HeadwaterError as error:
        return Refusal(error_code(error), str(error))
    return Refusal()


def _alter(log: Log, name: str, changes: Callable[[Topic], Changes], *, validate_only: bool) -> None:
    refuse_reserved(name)
    wanted = changes(log.topic(name))
    if validate_only:
        TopicSettings.from_configs({key: value for key, value in wanted.items() if value is not None})
    else:
        log.alter_topic(name, wanted)
