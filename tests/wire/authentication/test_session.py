"""The login of a connection over its lifetime: expiry, another login, and who may not become whom."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.access.principals import user
from headwater.access.scram import ITERATIONS_MIN, SHA256, Refused, credential_for
from headwater.clock import ManualClock
from headwater.errors import InvalidSetting, ProtocolError
from headwater.log.log import Log
from headwater.log.storage.memory import MemoryStorage
from headwater.settings import SecuritySettings
from headwater.wire.authentication.login import SASL_HANDSHAKE, Phase
from headwater.wire.authentication.mechanisms import LocalExchange, parse_plain
from headwater.wire.authentication.session import Session
from headwater.wire.security import Security
from tests.wire.logins import PASSWORD, token

PRODUCE = 0
HOUR = SecuritySettings(
    mechanisms=("PLAIN",), session_lifetime_max=timedelta(hours=1), failed_login_delay=timedelta(milliseconds=1)
)


class Plain:
    def get_extra_info(self, name: str) -> None:
        return None


class Opened:
    def __init__(self, settings: SecuritySettings) -> None:
        self.clock = ManualClock(1_700_000_000_000)
        self.log = Log.open("data", storage=MemoryStorage(self.clock), clock=self.clock)
        self.security = Security(self.log, settings)
        for name in ("alice", "bob"):
            kept = credential_for(SHA256, PASSWORD, b"salt of sixteen.", ITERATIONS_MIN)
            self.security.store.set_credential(name, SHA256.name, kept)

    def session(self) -> Session:
        session = self.security.session("127.0.0.9", Plain(), local=False)
        assert session is not None
        return session


@pytest.fixture
def opened() -> Iterator[Opened]:
    opened = Opened(HOUR)
    yield opened
    opened.security.stop()
    opened.log.close()


def log_in(session: Session, name: str, password: str = PASSWORD) -> str:
    """ "" or why not."""

    async def exchange() -> str:
        assert await session.choose("PLAIN")
        return (await session.take(token(name, password))).failure

    return asyncio.run(exchange())


def test_a_login_counts_for_its_lifetime_and_then_only_another_does(opened: Opened) -> None:
    session = opened.session()
    assert log_in(session, "alice") == ""
    opened.clock.advance(3_599_000)
    session.check(PRODUCE)
    opened.clock.advance(1_000)
    with pytest.raises(ProtocolError, match="expired"):
        session.check(PRODUCE)
    session.check(SASL_HANDSHAKE)
    assert log_in(session, "alice") == ""
    session.check(PRODUCE)


def test_another_login_on_the_connection_is_of_the_same_user(opened: Opened) -> None:
    session = opened.session()
    assert log_in(session, "alice") == ""
    assert "invalid credentials" in log_in(session, "bob")
    assert (session.principal, session.phase) == (user("alice"), Phase.FAILED)
    with pytest.raises(ProtocolError):
        session.check(PRODUCE)


def test_after_a_failure_nothing_is_possible(opened: Opened) -> None:
    session = opened.session()
    assert "invalid credentials" in log_in(session, "alice", "wrong password")
    assert session.failed
    with pytest.raises(ProtocolError):
        session.check(SASL_HANDSHAKE)


def test_a_token_without_a_handshake_is_refused(opened: Opened) -> None:
    with pytest.raises(ProtocolError, match="without a handshake"):
        asyncio.run(opened.session().take(token("alice")))


NO_TOKENS = [
    b"", b"alice", b"\0alice", b"\0\0password", b"\0alice\0", b"bob\0alice\0password", b"\0a\0b\0c", b"\0\xff\0p",
    b"\0alice\0" + bytes(5000),
]  # fmt: skip


@pytest.mark.parametrize("said", NO_TOKENS)
def test_a_plain_token_that_is_none_is_refused(said: bytes) -> None:
    with pytest.raises(Refused):
        parse_plain(said)


@pytest.mark.parametrize("wanted, said", [("", ""), ("hw_right", "hw_wrong"), ("", "hw_right")])
def test_the_token_of_the_machine_is_compared_and_none_is_no_token(wanted: str, said: str) -> None:
    exchange = LocalExchange(lambda: wanted)
    with pytest.raises(Refused):
        asyncio.run(exchange.take(b"\0local\0" + said.encode()))


@pytest.mark.parametrize(
    "settings, why",
    [
        (SecuritySettings(client_certificate_required=True), "certificate"),
        (replace(HOUR, client_certificate_required=True), "certificate"),
        (SecuritySettings(mechanisms=("GSSAPI",)), "there are PLAIN"),
        (SecuritySettings(mechanisms=("OAUTHBEARER",)), "oauth"),
        (SecuritySettings(mechanisms=("PLAIN",), super_users=("admin",)), "TYPE:NAME"),
    ],
)
def test_settings_that_would_protect_less_than_they_say_are_refused(settings: SecuritySettings, why: str) -> None:
    log = Log.open("data", storage=MemoryStorage())
    try:
        with pytest.raises(InvalidSetting, match=why):
            Security(log, settings)
    finally:
        log.close()
