"""AlterClientQuotas: set and forget quotas of users and client ids."""

import math
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.quotas import CLIENT, FETCH, KEYS, PRODUCE, USER, Entity
from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.fields import UNTHROTTLED, Fields

BYTE_RATES = (PRODUCE, FETCH)


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
    changes = {op.key: None if op.remove else op.value for op in entry.ops}
    try:
        await context.run(context.secured.store.change_quota, Entity(tuple(sorted(parts))), changes)
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
        if op.remove:
            continue  # what is not there is removed already
        if op.key not in KEYS:
            return f"there is no quota {op.key[:80]!r}; there are {', '.join(KEYS)}"
        if not (math.isfinite(op.value) and op.value > 0):
            return f"the quota {op.key} is above zero"
        if op.key in BYTE_RATES and not op.value.is_integer():
            return f"the quota {op.key} is a whole number of bytes per second"
    return "" if len({op.key for op in ops}) == len(ops) else "a quota is changed twice"


def _result(entry: Any, code: ErrorCode, message: str | None) -> Fields:
    entity = tuple(Fields(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity)
    return Fields(error_code=code, error_message=message, entity=entity)
