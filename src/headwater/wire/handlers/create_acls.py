"""CreateAcls: let principals do something, or keep them from it."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.acls import Acl, problem_of
from headwater.errors import HeadwaterError
from headwater.wire.acl_fields import acl_in
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.fields import UNTHROTTLED, Fields


async def handle(request: Any, context: Context) -> Fields:
    read = [_read(creation) for creation in request.creations]
    sound = [acl for acl in read if isinstance(acl, Acl)]
    failure = None
    try:
        await context.run(context.secured.store.add_acls, sound)
    except HeadwaterError as error:
        failure = error
    else:
        for acl in sound:
            context.note_change("CREATE", said_of(acl))
    results = tuple(_result(acl, failure) for acl in read)
    return Fields(throttle_time=UNTHROTTLED, results=results)


def said_of(acl: Acl) -> str:
    pattern = "*" if acl.pattern.name == "PREFIXED" else ""
    return (
        f"ACL:{acl.permission.name} {acl.principal} from {acl.host} {acl.operation.name} "
        f"{acl.resource_type.name}:{acl.resource}{pattern}"
    )


def _read(creation: Any) -> Acl | str:
    """The ACL, or why it is none."""
    try:
        acl = acl_in(creation)
    except ValueError as error:
        return str(error)
    return problem_of(acl) or acl


def _result(acl: Acl | str, failure: HeadwaterError | None) -> Fields:
    if isinstance(acl, str):
        return Fields(error_code=ErrorCode.invalid_request, error_message=acl)
    if failure is not None:
        return Fields(error_code=error_code(failure), error_message=str(failure))
    return Fields(error_code=ErrorCode.none, error_message=None)
