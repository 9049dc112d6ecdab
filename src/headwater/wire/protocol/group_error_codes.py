"""Error codes of the group APIs, where a client knows nothing of disks and partitions: only of its coordinator."""

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, UnavailableError
from headwater.wire.protocol.error_codes import error_code


def group_error_code(error: HeadwaterError | None) -> ErrorCode:
    """The code that makes clients do the right thing; whatever may pass sends them to find their coordinator again.

    >>> group_error_code(UnavailableError("the disk is full")).name
    'coordinator_not_available'
    """
    if error is None:
        return ErrorCode.none
    if isinstance(error, UnavailableError):
        return ErrorCode.coordinator_not_available
    return error_code(error)
