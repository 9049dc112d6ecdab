"""The server's side of each SASL mechanism: a token of the client in, what follows out."""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import NamedTuple, Protocol

from headwater.access.oauth import TokenRefused, TokenVerifier, bearer_token
from headwater.access.principals import LOCAL, Principal, user
from headwater.access.scram import (
    MECHANISMS,
    SHA256,
    SHA512,
    Mechanism,
    Refused,
    ServerExchange,
    fits,
    parse_first,
    unknown_users_credential,
)
from headwater.access.store import AccessStore
from headwater.kafka_login import LOCAL_USER

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
ALL = (PLAIN, *MECHANISMS, OAUTHBEARER)
PLAIN_BYTES_MAX = 4096
NONCE_BYTES = 24
OAUTH_INVALID = b'{"status":"invalid_token"}'


class Outcome(NamedTuple):
    """What a token led to: a challenge for the client, and who it is once it has logged in."""

    answer: bytes
    principal: Principal | None = None
    expires_ms: int | None = None
    """By the wall clock, if the login itself ends."""


class Exchange(Protocol):
    async def take(self, token: bytes) -> Outcome:
        """Refused says why not, for the log of the program only."""


class PlainExchange:
    """User and password in one token. The password is compared with what is kept for SCRAM."""

    def __init__(self, store: AccessStore, executor: Executor | None) -> None:
        self._store, self._executor = store, executor

    async def take(self, token: bytes) -> Outcome:
        name, password = parse_plain(token)
        if not await asyncio.get_running_loop().run_in_executor(self._executor, self._right, name, password):
            raise Refused("wrong user or password")
        return Outcome(b"", user(name))

    def _right(self, name: str, password: str) -> bool:
        for mechanism in (SHA512, SHA256):
            credential = self._store.credential(name, mechanism.name)
            if credential is not None:
                return fits(mechanism, credential, password)
        # As much work as for a user who exists: the time of the answer must not say who does.
        fits(SHA512, unknown_users_credential(SHA512, name, self._store.guess), password)
        return False


class LocalExchange:
    """Programs of this machine, which can read the token of the node in its data directory."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    async def take(self, token: bytes) -> Outcome:
        name, said = parse_plain(token)
        wanted = self._token()
        right = hmac.compare_digest(said.encode(), wanted.encode())
        if name != LOCAL_USER or not wanted or not right:
            raise Refused("this is not the token of this machine")
        return Outcome(b"", LOCAL)


def parse_plain(token: bytes) -> tuple[str, str]:
    parts = token.split(b"\0") if len(token) <= PLAIN_BYTES_MAX else []
    if len(parts) != 3 or not parts[1] or not parts[2] or parts[0] not in (b"", parts[1]):
        raise Refused("the token is not one of PLAIN: a user, who acts for themselves, and a password")
    try:
        return parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        raise Refused("a name or password is not written in UTF-8") from None


class ScramExchange:
    def __init__(self, mechanism: Mechanism, store: AccessStore) -> None:
        self._mechanism, self._store = mechanism, store
        self._server: ServerExchange | None = None
        self._name = ""

    async def take(self, token: bytes) -> Outcome:
        if self._server is not None:
            return Outcome(self._server.finish(token), user(self._name))
        opening = parse_first(token)
        self._name = opening.user
        known = self._store.credential(opening.user, self._mechanism.name)
        credential = known or unknown_users_credential(self._mechanism, opening.user, self._store.guess)
        self._server = ServerExchange(self._mechanism, opening, credential, secrets.token_urlsafe(NONCE_BYTES))
        return Outcome(self._server.first)


class BearerExchange:
    """RFC 7628: after a token that is refused the client gets the reason, says one byte, and is hung up on."""

    def __init__(self, verify: Callable[[str], Awaitable[tuple[str, int]]]) -> None:
        self._verify = verify
        self._refused = ""

    async def take(self, token: bytes) -> Outcome:
        if self._refused:
            raise Refused(self._refused)
        try:
            name, expires_ms = await self._verify(bearer_token(token))
        except TokenRefused as error:
            self._refused = str(error)
            return Outcome(OAUTH_INVALID)
        return Outcome(b"", user(name), expires_ms)


def exchanges(
    mechanisms: tuple[str, ...], store: AccessStore, verifier: TokenVerifier | None, executor: Executor | None
) -> Mapping[str, Callable[[], Exchange]]:
    """By the name of each enabled mechanism, what begins an exchange."""

    async def verify(token: str) -> tuple[str, int]:
        assert verifier is not None
        return await asyncio.get_running_loop().run_in_executor(executor, verifier.verify, token)

    makers: dict[str, Callable[[], Exchange]] = {
        PLAIN: lambda: PlainExchange(store, executor),
        OAUTHBEARER: lambda: BearerExchange(verify),
        **{name: _scram_maker(mechanism, store) for name, mechanism in MECHANISMS.items()},
    }
    return {name: makers[name] for name in mechanisms}


def _scram_maker(mechanism: Mechanism, store: AccessStore) -> Callable[[], Exchange]:
    return lambda: ScramExchange(mechanism, store)
