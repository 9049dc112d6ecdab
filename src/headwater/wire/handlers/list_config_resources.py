"""ListConfigResources: everything that has settings."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields

BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE = 8, 16
TYPES = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


async def handle(request: Any, context: Context) -> Fields:
    # Version 0 is ListClientMetricsResources: there are none.
    wanted = set(getattr(request, "resource_types", (CLIENT_METRICS_RESOURCE,))) or set(TYPES)
    if not wanted <= set(TYPES):
        return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.unsupported_version, config_resources=())
    node, queues = str(context.node.id), context.groups.share.queues
    names = {
        TOPIC_RESOURCE: sorted(topic.name for topic in context.log.topics()) if TOPIC_RESOURCE in wanted else [],
        GROUP_RESOURCE: [name for name in queues.names() if queues.get(name).configs],
        BROKER_RESOURCE: [node],
        BROKER_LOGGER_RESOURCE: [node],
    }
    resources = tuple(
        Fields(resource_name=name, resource_type=kind) for kind in sorted(wanted) for name in names.get(kind, [])
    )
    return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.none, config_resources=resources)
