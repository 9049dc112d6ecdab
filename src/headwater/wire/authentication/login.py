"""The login of one connection, as a table. Pure.

    OPEN ──handshake──► CHOSEN ──token──► EXCHANGING ──token──► … ──► IN ──handshake──► CHOSEN_AGAIN ──► … ──► IN
      │ versions ▲          └──────────── last token ───────────────► │
      └──────────┘                                               lifetime over: only a new login

Whatever is not in the table ends the connection: a request before the login, a token without a handshake, a handshake
in the middle of an exchange, and everything after a failure.
"""

from enum import StrEnum

from headwater.errors import ProtocolError

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36


class Phase(StrEnum):
    OPEN = "not logged in"
    CHOSEN = "mechanism chosen"
    EXCHANGING = "logging in"
    IN = "logged in"
    CHOSEN_AGAIN = "mechanism chosen again"
    EXCHANGING_AGAIN = "logging in again"
    FAILED = "failed"


class Step(StrEnum):
    VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake"
    UNKNOWN_MECHANISM = "SaslHandshake with an unknown mechanism"
    CHALLENGED = "SaslAuthenticate that is not the last"
    SUCCEEDED = "SaslAuthenticate that logs in"
    REFUSED = "SaslAuthenticate that is refused"
    REQUEST = "another request"


TABLE: dict[tuple[Phase, Step], Phase] = {
    (Phase.OPEN, Step.VERSIONS): Phase.OPEN,
    (Phase.OPEN, Step.HANDSHAKE): Phase.CHOSEN,
    (Phase.OPEN, Step.UNKNOWN_MECHANISM): Phase.FAILED,
    (Phase.CHOSEN, Step.CHALLENGED): Phase.EXCHANGING,
    (Phase.CHOSEN, Step.SUCCEEDED): Phase.IN,
    (Phase.CHOSEN, Step.REFUSED): Phase.FAILED,
    (Phase.EXCHANGING, Step.CHALLENGED): Phase.EXCHANGING,
    (Phase.EXCHANGING, Step.SUCCEEDED): Phase.IN,
    (Phase.EXCHANGING, Step.REFUSED): Phase.FAILED,
    (Phase.IN, Step.VERSIONS): Phase.IN,
    (Phase.IN, Step.REQUEST): Phase.IN,
    (Phase.IN, Step.HANDSHAKE): Phase.CHOSEN_AGAIN,
    (Phase.IN, Step.UNKNOWN_MECHANISM): Phase.FAILED,
    (Phase.CHOSEN_AGAIN, Step.CHALLENGED): Phase.EXCHANGING_AGAIN,
    (Phase.CHOSEN_AGAIN, Step.SUCCEEDED): Phase.IN,
    (Phase.CHOSEN_AGAIN, Step.REFUSED): Phase.FAILED,
    (Phase.EXCHANGING_AGAIN, Step.CHALLENGED): Phase.EXCHANGING_AGAIN,
    (Phase.EXCHANGING_AGAIN, Step.SUCCEEDED): Phase.IN,
    (Phase.EXCHANGING_AGAIN, Step.REFUSED): Phase.FAILED,
}

STEPS_OF: dict[int, tuple[Step, ...]] = {
    API_VERSIONS: (Step.VERSIONS,),
    SASL_HANDSHAKE: (Step.HANDSHAKE, Step.UNKNOWN_MECHANISM),
    SASL_AUTHENTICATE: (Step.CHALLENGED, Step.SUCCEEDED, Step.REFUSED),
}
"""What a request may turn out to be; all others are Step.REQUEST."""


def advanced(phase: Phase, step: Step) -> Phase:
    """The phase after a step; ProtocolError if the table has none."""
    after = TABLE.get((phase, step))
    if after is None:
        raise ProtocolError(f"{step} is not possible here: the connection is {phase}")
    return after


def check_request(phase: Phase, api_key: int, *, expired: bool) -> None:
    """ProtocolError if such a request cannot be answered now. Asked before anything of it is decoded."""
    steps = STEPS_OF.get(api_key, (Step.REQUEST,))
    if expired and phase is Phase.IN and api_key not in STEPS_OF:
        raise ProtocolError("its login has expired, and it has not logged in again")
    if not any((phase, step) in TABLE for step in steps):
        raise ProtocolError(f"request {api_key} is not possible here: the connection is {phase}")
