"""DescribeConfigs: the settings of topics, of share groups and of this node."""

from collections.abc import Sequence

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from headwater.errors import HeadwaterError
from headwater.wire.configs import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Entry,
    group_entries,
    node_entries,
    topic_entries,
)
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.turns import in_turns

DOCUMENTATION_FROM = 3
TURN_RESOURCES = 10
"""Each is a score of settings."""


async def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    documented = context.api_version >= DOCUMENTATION_FROM and request.include_documentation
    described = [
        _describe(resource, context, synonyms=request.include_synonyms, documented=documented)
        async for resource in in_turns(request.resources, TURN_RESOURCES)
    ]
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(described))


def _describe(
    resource: DescribeConfigsResource, context: Context, *, synonyms: bool, documented: bool
) -> DescribeConfigsResult:
    try:
        entries = _entries(resource, context)
    except HeadwaterError as error:
        return _result(resource, error_code(error), str(error), ())
    if isinstance(entries, str):
        return _result(resource, ErrorCode.invalid_request, entries, ())
    keys = resource.configuration_keys
    configs = [
        _config(entry, synonyms=synonyms, documented=documented)
        for entry in entries
        if keys is None or entry.name in keys
    ]
    return _result(resource, ErrorCode.none, None, configs)


def _entries(resource: DescribeConfigsResource, context: Context) -> list[Entry] | str:
    """The settings, or a sentence that says why there are none."""
    log = context.log
    if resource.resource_type == TOPIC_RESOURCE:
        return topic_entries(log.topic(resource.resource_name), dict(log.settings.topic_defaults))
    if resource.resource_type == GROUP_RESOURCE:
        queue = context.groups.share.queue(resource.resource_name)
        return group_entries({} if queue is None else queue.configs)
    if resource.resource_type != BROKER_RESOURCE:
        return f"settings of resources of type {resource.resource_type} do not exist here"
    if resource.resource_name == "":
        return []  # what would hold for all nodes of a cluster; ours is configured as one node
    if resource.resource_name != str(context.node.id):
        return f"there is no node {resource.resource_name[:20]!r}, only node {context.node.id}"
    return node_entries(context.settings, log.settings, context.node, directory=str(log.path.absolute()))


def _config(entry: Entry, *, synonyms: bool, documented: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=i8(entry.source),
        is_sensitive=False,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=i8(synonym.source))
            for synonym in entry.synonyms
        )
        if synonyms
        else (),
        config_type=i8(entry.kind),
        documentation=entry.documentation if documented else None,
    )


def _result(
    resource: DescribeConfigsResource,
    code: ErrorCode,
    message: str | None,
    configs: Sequence[DescribeConfigsResourceResult],
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(configs),
    )
