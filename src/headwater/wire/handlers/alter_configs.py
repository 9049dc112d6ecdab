"""AlterConfigs: give a topic exactly these settings of its own; all others go back to their defaults."""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from headwater.errors import InvalidSetting
from headwater.log.topic import Topic
from headwater.wire.alter_topic import Refusal, alter_topic
from headwater.wire.config_changes import Changes, replacing
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE


async def handle(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    responses = [await _alter(resource, context, validate_only=request.validate_only) for resource in request.resources]
    return AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


async def _alter(
    resource: AlterConfigsResource, context: Context, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    def changes(topic: Topic) -> Changes:
        for config in resource.configs:
            if config.value is None:
                raise InvalidSetting(config.name, None, "it needs a value")
        return replacing(topic.configs, {config.name: config.value for config in resource.configs})

    refusal: Refusal = await alter_topic(
        context, resource.resource_type, resource.resource_name, changes, validate_only=validate_only
    )
    return AlterConfigsResourceResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
