"""What stands between a request and its handler on a port with logins: the table of permissions, carried out."""

import dataclasses
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.access.acls import ResourceType
from headwater.wire.answers import Later, Nothing
from headwater.wire.context import Context
from headwater.wire.permissions.refusals import element_type, mirrored, refusal
from headwater.wire.permissions.table import CODES, RULES, Each, Handle
from headwater.wire.protocol.fields import Fields
from headwater.wire.topics import name_of

if TYPE_CHECKING:
    from headwater.wire.routes import Route


async def guarded(route: "Route", request: Any, context: Context) -> Any:
    """The answer to a request, of which the handler sees only what the client may do."""
    permits = context.permits
    if permits is None:
        return await route.handle(request, context)
    rule = RULES[route.name]
    for need in rule.whole:
        name = need.name(request)
        if name is None or (need.alternative and permits.sees(need.alternative, need.resource_type, name)):
            continue
        if not permits.may(need.operation, need.resource_type, name):
            return refusal(request, route.api_key, context.api_version, CODES[need.resource_type])
    handle: Handle = route.handle
    if rule.special is not None:
        special = rule.special

        async def specially(remaining: Any, of: Context) -> Any:
            return await special(remaining, of, route.handle)

        handle = specially
    if rule.each is None:
        return await handle(request, context)
    return await _each(rule.each, route, request, context, handle)


async def _each(each: Each, route: "Route", request: Any, context: Context, handle: Handle) -> Any:
    permits = context.permits
    assert permits is not None
    allowed, denied = [], []
    for element in getattr(request, each.array):
        name = _name(element, each, context)
        if name is None or permits.may(each.operation, each.resource_type, name):
            allowed.append(element)
        else:
            denied.append(element)
    if not denied:
        return await handle(request, context)
    if allowed:
        answer = await handle(dataclasses.replace(request, **{each.array: tuple(allowed)}), context)
    else:
        # Nothing is left to ask for: a group, say, that does not exist would hide what is refused.
        answer = refusal(Fields(), route.api_key, context.api_version, ErrorCode.none)
    kind = element_type(route.api_key, context.api_version, each.answers)
    refused = [_refused(element, each, kind) for element in denied]
    return with_more(answer, each.answers, refused)


def _name(element: Any, each: Each, context: Context) -> str | None:
    """None for a topic id that no topic has: the handler says so."""
    if isinstance(element, str):
        return element
    if each.resource_type is ResourceType.TOPIC and not hasattr(element, each.name):
        return name_of(context.log, element.topic_id)
    name: str | None = getattr(element, each.name)
    return name


def _refused(element: Any, each: Each, kind: Any) -> Fields:
    source = Fields(**{each.name: element}) if isinstance(element, str) else element
    return mirrored(source, kind, CODES[each.resource_type], None)


def with_more(answer: Any, array: str, more: list[Fields]) -> Any:
    """The answer with more elements in one of its arrays."""
    if isinstance(answer, Later):

        async def later() -> Any:
            return with_more(await answer.finish(), array, more)

        return Later(later)
    if isinstance(answer, Nothing):
        return answer
    if getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.none:
        return answer  # the whole was refused, and has no elements
    elements = (*getattr(answer, array), *more)
    if isinstance(answer, Fields):
        return Fields(**{**vars(answer), array: elements})
    return dataclasses.replace(answer, **{array: elements})
