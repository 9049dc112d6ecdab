"""DescribeClientQuotas: which quotas there are."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.quotas import CLIENT, USER, Entity
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields

EXACT, DEFAULT, ANY = 0, 1, 2


async def handle(request: Any, context: Context) -> Fields:
    components = {component.entity_type: component for component in request.components}
    why = _problem(request.components)
    if why:
        return _answer(ErrorCode.invalid_request, why, None)
    entries = tuple(
        Fields(
            entity=tuple(Fields(entity_type=kind, entity_name=name) for kind, name in entity.parts),
            values=tuple(Fields(key=key, value=value) for key, value in sorted(limits.items())),
        )
        for entity, limits in sorted(context.secured.store.quotas().items(), key=str)
        if _matches(entity, components, strict=request.strict)
    )
    return _answer(ErrorCode.none, None, entries)


def _problem(components: Any) -> str:
    kinds = [component.entity_type for component in components]
    if len(set(kinds)) < len(kinds):
        return "an entity type is named twice"
    if any(kind not in (USER, CLIENT) for kind in kinds):
        return f"quotas are for {USER} and {CLIENT}"
    if any(component.match_type not in (EXACT, DEFAULT, ANY) for component in components):
        return "a match is exact, default or any"
    return ""


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
