"""DescribeUserScramCredentials: which users have a password, for which mechanisms."""

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.scram import MECHANISMS
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields

MECHANISM_NUMBERS = {name: one.number for name, one in MECHANISMS.items()}


async def handle(request: Any, context: Context) -> Fields:
    store = context.secured.store
    if request.users:
        asked = Counter(user.name for user in request.users)
    else:
        asked = Counter(store.user_names())
    results = tuple(_described(name, count, context) for name, count in asked.items())
    return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.none, error_message=None, results=results)


def _described(name: str, times: int, context: Context) -> Fields:
    known = context.secured.store.credentials(name)
    code, message = ErrorCode.none, None
    if times > 1:
        code = ErrorCode.duplicate_resource
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif not known:
        code = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {name}"
    infos = tuple(
        Fields(mechanism=MECHANISM_NUMBERS[mechanism], iterations=one.iterations) for mechanism, one in known.items()
    )
    return Fields(
        user=name, error_code=code, error_message=message, credential_infos=() if code is not ErrorCode.none else infos
    )
