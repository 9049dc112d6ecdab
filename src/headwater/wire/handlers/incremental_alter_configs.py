"""IncrementalAlterConfigs: set, unset, and change lists among the settings of a topic or a share group."""

from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource, IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from headwater.log.topic import Topic
from headwater.wire.alter_group import alter_group
from headwater.wire.alter_topic import alter_topic
from headwater.wire.config_changes import Changes, Operation, changing
from headwater.wire.configs import GROUP_RESOURCE, topic_entries
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE


async def handle(request: IncrementalAlterConfigsRequest, context: Context) -> IncrementalAlterConfigsResponse:
    responses = [await _alter(resource, context, validate_only=request.validate_only) for resource in request.resources]
    return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


async def _alter(
    resource: AlterConfigsResource, context: Context, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    operations = [Operation(config.name, config.config_operation, config.value) for config in resource.configs]
    defaults = dict(context.log.settings.topic_defaults)

    def changes(topic: Topic) -> Changes:
        current = {entry.name: entry.value for entry in topic_entries(topic, defaults)}
        return changing(current, operations)

    if resource.resource_type == GROUP_RESOURCE:
        refusal = await alter_group(
            context, resource.resource_name, lambda now: changing(now, operations), validate_only=validate_only
        )
    else:
        refusal = await alter_topic(
            context, resource.resource_type, resource.resource_name, changes, validate_only=validate_only
        )
    return AlterConfigsResourceResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
