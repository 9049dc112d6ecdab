"""DescribeAcls: the ACLs that a filter matches, by resource."""

from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.acl_fields import acl_out, filter_in
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields


async def handle(request: Any, context: Context) -> Fields:
    try:
        wanted = filter_in(request)
    except ValueError as error:
        return _answer(ErrorCode.invalid_request, str(error), ())
    found = await context.run(context.secured.store.acls, wanted)
    resources = []
    for (kind, pattern, name), acls in groupby(found, lambda acl: acl[:3]):
        described = tuple(acl_out(acl) for acl in acls)
        resources.append(Fields(resource_type=int(kind), resource_name=name, pattern_type=int(pattern), acls=described))
    return _answer(ErrorCode.none, None, tuple(resources))


def _answer(code: ErrorCode, message: str | None, resources: tuple[Fields, ...]) -> Fields:
    return Fields(throttle_time=UNTHROTTLED, error_code=code, error_message=message, resources=resources)
