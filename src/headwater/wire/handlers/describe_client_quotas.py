"""DescribeClientQuotas: which quotas there are."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.quotas import CLIENT, USER, Entity
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields

EXACT, DEFAULT, ANY = 0, 1, 2
IP = "ip"
"""Kafka has quotas for addresses, too; here no address has one."""


async def handle(request: Any, context: Context) -> Fields:
    components = {component.entity_type: component for component in request.components}
    code, why = _problem(request.components)
    if code is not ErrorCode.none:
        return _answer(code, why, None)
    entries = tuple(
        Fields(
            entity=tuple(Fields(entity_type=kind, entity_name=name) for kind, name in entity.parts),
            values=tuple(Fields(key=key, value=value) for key, value in sorted(limits.items())),
        )
        for entity, limits in sorted(context.secured.store.quotas().items(), key=str)
        if _matches(entity, components, strict=request.strict)
    )
    return _answer(ErrorCode.none, None, entries)


def _problem(components: Any) -> tuple[ErrorCode, str]:
    kinds = [component.entity_type for component in components]
    if len(set(kinds)) < len(kinds):
        return ErrorCode.invalid_request, "an entity type is named twice"
    if "" in kinds:
        return ErrorCode.invalid_request, "an entity type is empty"
    if any(kind not in (USER, CLIENT, IP) for kind in kinds):
        return ErrorCode.unsupported_version, f"quotas are for {USER} and {CLIENT}"
    if IP in kinds and len(kinds) > 1:
        return ErrorCode.invalid_request, f"{IP} stands alone"
    for component in components:
        if component.match_type not in (EXACT, DEFAULT, ANY):
            return ErrorCode.invalid_request, "a match is exact, default or any"
        # Otherwise a client that leaves the name out by mistake would be answered with the default's quota.
        if (component.match_type == EXACT) != (component.match is not None):
            return ErrorCode.invalid_request, "an exact match has a name, and only that"
    return ErrorCode.none, ""


def _matches(entity: Entity, components: Any, *, strict: bool) -> bool:
    parts = dict(entity.parts)
    if strict and len(parts) != len(components):
        return False
    return all(kind in parts and _fits(component, parts[kind]) for kind, component in components.items())


def _fits(component: Any, name: str | None) -> bool:
    if component.match_type == EXACT:
        return bool(name == component.match)
    return component.match_type == ANY or name is None


def _answer(code: ErrorCode, message: str | None, entries: tuple[Fields, ...] | None) -> Fields:
    return Fields(throttle_time=UNTHROTTLED, error_code=code, error_message=message, entries=entries)
