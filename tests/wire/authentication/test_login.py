"""The table of a login: every phase with every request, and no way in but the last token."""

import pytest

from headwater.errors import ProtocolError
from headwater.wire.authentication.login import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    TABLE,
    Phase,
    Step,
    advanced,
    check_request,
)

PRODUCE = 0
POSSIBLE = {
    (Phase.OPEN, API_VERSIONS), (Phase.OPEN, SASL_HANDSHAKE), (Phase.CHOSEN, SASL_AUTHENTICATE),
    (Phase.EXCHANGING, SASL_AUTHENTICATE), (Phase.IN, API_VERSIONS), (Phase.IN, SASL_HANDSHAKE), (Phase.IN, PRODUCE),
    (Phase.CHOSEN_AGAIN, SASL_AUTHENTICATE), (Phase.EXCHANGING_AGAIN, SASL_AUTHENTICATE),
}  # fmt: skip
ASKED = [(phase, key) for phase in Phase for key in (PRODUCE, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)]


@pytest.mark.parametrize("phase, api_key", [one for one in ASKED if one in POSSIBLE])
def test_a_request_that_is_possible(phase: Phase, api_key: int) -> None:
    check_request(phase, api_key, expired=False)


@pytest.mark.parametrize("phase, api_key", [one for one in ASKED if one not in POSSIBLE])
def test_a_request_that_is_not_possible_ends_the_connection(phase: Phase, api_key: int) -> None:
    with pytest.raises(ProtocolError):
        check_request(phase, api_key, expired=False)


@pytest.mark.parametrize("api_key, possible", [(PRODUCE, False), (SASL_HANDSHAKE, True), (API_VERSIONS, True)])
def test_after_its_lifetime_a_login_is_only_good_for_another(api_key: int, possible: bool) -> None:
    try:
        check_request(Phase.IN, api_key, expired=True)
    except ProtocolError:
        assert not possible
    else:
        assert possible


def test_only_a_token_that_succeeds_leads_in() -> None:
    ways = {step for (phase, step), after in TABLE.items() if after is Phase.IN and phase is not Phase.IN}
    assert ways == {Step.SUCCEEDED}
    assert Phase.FAILED not in {phase for phase, _ in TABLE}


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.FAILED, Phase.CHOSEN])
def test_what_is_not_in_the_table_is_refused(phase: Phase) -> None:
    with pytest.raises(ProtocolError):
        advanced(phase, Step.REQUEST)
