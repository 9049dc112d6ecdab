from typing import Any

import pytest

from headwater.settings import SecuritySettings
from tests.wire.group_requests import Caller, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import running_server

VERSIONS = versions_of("sasl_handshake")
ENABLED = ("SCRAM-SHA-512", "PLAIN")


def shake(caller: Caller, version: int, mechanism: str) -> tuple[str, Any]:
    answer = caller.ask("sasl_handshake", version, mechanism=mechanism)
    return answer.error_code.name, answer.mechanisms


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mechanism", ENABLED)
def test_an_enabled_mechanism_is_accepted(version: int, mechanism: str) -> None:
    with (
        running_server(security=SecuritySettings(mechanisms=ENABLED)) as server,
        RawClient(server.host, server.port) as client,
    ):
        assert shake(Caller(client), version, mechanism) == ("none", ENABLED)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "SCRAM-SHA-256", ""])
def test_another_one_is_refused_with_those_that_are_and_the_connection_ends(version: int, mechanism: str) -> None:
    with (
        running_server(security=SecuritySettings(mechanisms=ENABLED)) as server,
        RawClient(server.host, server.port) as client,
    ):
        assert shake(Caller(client), version, mechanism) == ("unsupported_sasl_mechanism", ENABLED)
        assert client.closed()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_port_without_logins_has_no_handshake(version: int, caller: Caller) -> None:
    assert shake(caller, version, "PLAIN") == ("illegal_sasl_state", ())
    assert caller.ask("list_groups", 0).error_code.name == "none", "the connection goes on"
