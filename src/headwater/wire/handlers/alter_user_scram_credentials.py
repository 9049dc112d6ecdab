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
    changes = [(change.name, change) for change in (*request.deletions, *request.upsertions)]
    twice = Counter((name, change.mechanism) for name, change in changes)
    answers: dict[str, Fields] = {}
    for name, change in changes:
        before = answers.get(name)
        if before is None or before.error_code is ErrorCode.none:
            answers[name] = _alter(change, store, again=twice[name, change.mechanism] > 1)
    return list(answers.values())


def _alter(change: Any, store: AccessStore, *, again: bool) -> Fields:
    code, why = _problem(change, again=again)
    if code is not ErrorCode.none:
        return Fields(user=change.name, error_code=code, error_message=why)
    mechanism = BY_NUMBER[change.mechanism]
    try:
        if not store.set_credential(change.name, mechanism.name, _credential(change, mechanism)):
            why = "Attempt to delete a user credential that does not exist"
            return Fields(user=change.name, error_code=ErrorCode.resource_not_found, error_message=why)
    except HeadwaterError as error:
        return Fields(user=change.name, error_code=error_code(error), error_message=str(error))
    return Fields(user=change.name, error_code=ErrorCode.none, error_message=None)


def _credential(change: Any, mechanism: Mechanism) -> Any:
    if not hasattr(change, "salted_password"):
        return None
    return credential_from_salted(mechanism, change.salted_password, change.salt, change.iterations)


def _problem(change: Any, *, again: bool) -> tuple[ErrorCode, str | None]:
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
    return ErrorCode.none, None
