"""DeleteAcls: forget the ACLs that filters match."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.wire.acl_fields import acl_out, filter_in
from headwater.wire.context import Context
from headwater.wire.handlers.create_acls import said_of
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.fields import UNTHROTTLED, Fields


async def handle(request: Any, context: Context) -> Fields:
    results = [await _delete(wanted, context) for wanted in request.filters]
    return Fields(throttle_time=UNTHROTTLED, filter_results=tuple(results))


async def _delete(wanted: Any, context: Context) -> Fields:
    try:
        removed = await context.run(context.secured.store.remove_acls, filter_in(wanted))
    except ValueError as error:
        return Fields(error_code=ErrorCode.invalid_request, error_message=str(error), matching_acls=())
    except HeadwaterError as error:
        return Fields(error_code=error_code(error), error_message=str(error), matching_acls=())
    matching = []
    for acl in removed:
        context.note_change("DELETE", said_of(acl))
        fields = acl_out(acl)
        fields.error_code, fields.error_message = ErrorCode.none, None
        matching.append(fields)
    return Fields(error_code=ErrorCode.none, error_message=None, matching_acls=tuple(matching))
