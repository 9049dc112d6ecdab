"""AlterClientQuotas: set and forget quotas of users and client ids."""

import math
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.quotas import CLIENT, KEYS, USER, Entity
from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.fields import UNTHROTTLED, Fields


async def handle(request: Any, context: Context) -> Fields:
    entries = [await _alter(entry, context, validate_only=request.validate_only) for entry in request.entries]
    return Fields(throttle_time=UNTHROTTLED, entries=tuple(entries))


async def _alter(entry: Any, context: Context, *, validate_only: bool) -> Fields:
    parts = [(part.entity_type, part.entity_name) for part in entry.entity]
    why = _problem(parts, entry.ops)
    if why:
        return _result(entry, ErrorCode.invalid_request, why)
    if validate_only:
        return _result(entry, ErrorCode.none, None)
    store, entity = context.secured.store, Entity(tuple(sorted(parts)))
    limits = dict(store.quotas().get(entity, {}))
    for op in entry.ops:
        if op.remove:
            limits.pop(op.key, None)
        else:
            limits[op.key] = op.value
    try:
        await context.run(store.set_quota, entity, limits)
    except HeadwaterError as error:
        return _result(entry, error_code(error), str(error))
    context.note_change("ALTER_CONFIGS", f"QUOTA:{parts}")
    return _result(entry, ErrorCode.none, None)


def _problem(parts: list[tuple[str, str | None]], ops: Any) -> str:
    kinds = [kind for kind, _ in parts]
    if not kinds or len(set(kinds)) < len(kinds) or any(kind not in (USER, CLIENT) for kind in kinds):
        return f"a quota is for a {USER}, a {CLIENT}, or both"
    if any(name == "" for _, name in parts):
        return "an empty name names no client"
    for op in ops:
        if op.key not in KEYS:
            return f"there is no quota {op.key[:80]!r}; there are {', '.join(KEYS)}"
        if not op.remove and not (math.isfinite(op.value) and op.value > 0):
            return f"the quota {op.key} is above zero"
    return ""


def _result(entry: Any, code: ErrorCode, message: str | None) -> Fields:
    entity = tuple(Fields(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity)
    return Fields(error_code=code, error_message=message, entity=entity)
