from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from headwater.access.scram import SHA256
from headwater.settings import SecuritySettings
from tests.wire.access_requests import add_user, plain_token
from tests.wire.group_requests import Caller, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import running_server

VERSIONS = versions_of("sasl_authenticate")
LIFETIMES = [version for version in VERSIONS if version >= 1]
NOW = timedelta(0)


@contextmanager
def connected(mechanism: str = "PLAIN", **settings: Any) -> Iterator[tuple[Caller, RawClient]]:
    """A connection after its handshake, to a server that knows alice."""
    security = SecuritySettings(mechanisms=("PLAIN", SHA256.name), failed_login_delay=NOW, **settings)
    with running_server(security=security) as server, RawClient(server.host, server.port) as client:
        add_user(server, "alice")
        caller = Caller(client)
        assert caller.ask("sasl_handshake", mechanism=mechanism).error_code.name == "none"
        yield caller, client


@pytest.mark.parametrize("version", VERSIONS)
def test_the_right_password_opens_the_connection(version: int) -> None:
    with connected() as (caller, _):
        answer = caller.ask("sasl_authenticate", version, auth_bytes=plain_token("alice"))
        assert (answer.error_code.name, answer.error_message, answer.auth_bytes) == ("none", None, b"")
        assert version < 1 or answer.session_lifetime == NOW, "it counts for ever"
        assert caller.ask("list_groups", 0).error_code.name == "none"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "token",
    [plain_token("alice", "wrong"), plain_token("bob"), b"bob" + plain_token("alice"), b"", b"\xff\x00\xff"],
    ids=["wrong password", "no such user", "for another user", "empty", "no token"],
)
def test_a_failed_login_says_nothing_more_and_ends_the_connection(version: int, token: bytes) -> None:
    with connected() as (caller, client):
        answer = caller.ask("sasl_authenticate", version, auth_bytes=token)
        assert (answer.error_code.name, answer.auth_bytes) == ("sasl_authentication_failed", b"")
        said = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
        assert answer.error_message == said
        assert client.closed()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_login_in_two_steps_is_challenged_first(version: int) -> None:
    with connected(SHA256.name) as (caller, client):
        answer = caller.ask("sasl_authenticate", version, auth_bytes=b"n,,n=alice,r=nonce")
        assert (answer.error_code.name, answer.error_message) == ("none", None)
        assert answer.auth_bytes.startswith(b"r=nonce")
        nonce = answer.auth_bytes.split(b",")[0]
        wrong = b"c=biws," + nonce + b",p=" + b"A" * 43 + b"="
        refused = caller.ask("sasl_authenticate", version, auth_bytes=wrong)
        assert (refused.error_code.name, refused.auth_bytes) == ("sasl_authentication_failed", b"")
        assert client.closed()


@pytest.mark.parametrize("version", LIFETIMES)
def test_a_login_that_expires_says_when_and_is_repeated(version: int) -> None:
    with connected(session_lifetime_max=timedelta(minutes=5)) as (caller, _):
        for _again in range(2):
            answer = caller.ask("sasl_authenticate", version, auth_bytes=plain_token("alice"))
            assert (answer.error_code.name, answer.session_lifetime) == ("none", timedelta(minutes=5))
            assert caller.ask("sasl_handshake", mechanism="PLAIN").error_code.name == "none"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_login_that_counts_for_ever_is_not_repeated(version: int) -> None:
    with connected() as (caller, client):
        caller.ask("sasl_authenticate", version, auth_bytes=plain_token("alice"))
        assert caller.ask("sasl_handshake", mechanism="PLAIN").error_code.name == "illegal_sasl_state"
        assert caller.ask("list_groups", 0).error_code.name == "none"
        caller.ask_and_go_on("sasl_authenticate", version, auth_bytes=plain_token("alice"))
        assert client.closed(), "where Kafka answers with an error"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_port_without_logins_takes_no_token(version: int, caller: Caller) -> None:
    answer = caller.ask("sasl_authenticate", version, auth_bytes=plain_token("alice"))
    assert answer.error_code.name == "illegal_sasl_state"


def test_a_token_without_a_handshake_ends_the_connection() -> None:
    security = SecuritySettings(mechanisms=("PLAIN",))
    with running_server(security=security) as server, RawClient(server.host, server.port) as client:
        Caller(client).ask_and_go_on("sasl_authenticate", VERSIONS[-1], auth_bytes=plain_token("alice"))
        assert client.closed()
