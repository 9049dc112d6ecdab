"""AlterUserScramCredentials: set and forget passwords. The password itself is never sent, only its salted hash."""

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.scram import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS, Mechanism, credential_from_salted
from headwater.access.store import AccessStore
from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.fields import UNTHROTTLED, Fields

BY_NUMBER = {one.number: one for one in MECHANISMS.values()}
NAME_LENGTH_MAX = 256
SALT_BYTES_MAX = 1024


async def handle(request: Any, context: Context) -> Fields:
    results = await context.run(_alter_all, request, context.secured.store)
    for result in results:
        if result.error_code is ErrorCode.none:
            context.note_change("ALTER", f"USER:{result.user}")
    return Fields(throttle_time=UNTHROTTLED, results=tuple(results))


def _alter_all(request: Any, store: AccessStore) -> list[Fields]:
    """Of a user all changes are made, or none."""
    by_user: dict[str, list[Any]] = {}
    for change in (*request.deletions, *request.upsertions):
        by_user.setdefault(change.name, []).append(change)
    return [_alter(name, changes, store) for name, changes in by_user.items()]


def _alter(name: str, changes: list[Any], store: AccessStore) -> Fields:
    times = Counter(change.mechanism for change in changes)
    for change in changes:
        code, why = _problem(change, store, again=times[change.mechanism] > 1)
        if code is not ErrorCode.none:
            return Fields(user=name, error_code=code, error_message=why)
    try:
        for change in changes:
            mechanism = BY_NUMBER[change.mechanism]
            store.set_credential(name, mechanism.name, _credential(change, mechanism))
    except HeadwaterError as error:
        return Fields(user=name, error_code=error_code(error), error_message=str(error))
    return Fields(user=name, error_code=ErrorCode.none, error_message=None)


def _credential(change: Any, mechanism: Mechanism) -> Any:
    if not hasattr(change, "salted_password"):
        return None
    return credential_from_salted(mechanism, change.salted_password, change.salt, change.iterations)


def _problem(change: Any, store: AccessStore, *, again: bool) -> tuple[ErrorCode, str | None]:
    unacceptable = ErrorCode.unacceptable_credential
    if not change.name:
        return unacceptable, "Username must not be empty"
    if len(change.name) > NAME_LENGTH_MAX:
        return unacceptable, f"a user name has {NAME_LENGTH_MAX} characters at most"
    if change.mechanism not in BY_NUMBER:
        return ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"
    if again:
        return ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request"
    if hasattr(change, "salted_password"):
        if change.iterations < ITERATIONS_MIN:
            return unacceptable, "Too few iterations"
        if change.iterations > ITERATIONS_MAX:
            return unacceptable, "Too many iterations"
        if not 0 < len(change.salt) <= SALT_BYTES_MAX or not 0 < len(change.salted_password) <= SALT_BYTES_MAX:
            return unacceptable, "a salt and a salted password have a length"
    elif store.credential(change.name, BY_NUMBER[change.mechanism].name) is None:
        return ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
    return ErrorCode.none, None
