"""Who is at the other end of one connection, from its login on; for as long as the login counts."""

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from headwater.access.audit import FAILED_LOGIN, Event
from headwater.access.principals import ANONYMOUS, Principal
from headwater.access.scram import Refused
from headwater.errors import ProtocolError
from headwater.settings import milliseconds
from headwater.wire.authentication.login import Phase, Step, advanced, check_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.wire.authentication.mechanisms import Exchange, Outcome
    from headwater.wire.security import Security

logger = logging.getLogger("headwater.wire")


class Authenticated(NamedTuple):
    """The answer to one token. Without a failure `failure` is ""; the connection ends after one."""

    token: bytes
    failure: str = ""
    lifetime_ms: int = 0


class Session:
    def __init__(
        self, security: "Security", exchanges: "Mapping[str, Callable[[], Exchange]]", host: str,
        certified: Principal | None = None,
    ) -> None:  # fmt: skip
        """`certified`: who the client's certificate says it is. Without mechanisms that is all there is to know."""
        self._security, self._exchanges, self._host = security, exchanges, host
        self.principal = certified or ANONYMOUS
        self.phase = Phase.OPEN if exchanges else Phase.IN
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._expires_ms: int | None = None
        self.failed = False

    @property
    def open(self) -> bool:
        """Is the client not known yet?"""
        return self.phase in (Phase.OPEN, Phase.CHOSEN, Phase.EXCHANGING, Phase.FAILED)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(self._exchanges)

    @property
    def possible(self) -> bool:
        """May a login begin now? One that counts for ever is not repeated."""
        return bool(self._exchanges) and (self.phase is not Phase.IN or self._expires_ms is not None)

    def check(self, api_key: int) -> None:
        """ProtocolError if a request may not come now."""
        expired = self._expires_ms is not None and self._security.elapsed_ms() >= self._expires_ms
        check_request(self.phase, api_key, expired=expired)

    async def choose(self, mechanism: str) -> bool:
        """A handshake. False if the mechanism is not enabled; then the connection ends."""
        make = self._exchanges.get(mechanism)
        if make is None:
            self.phase = advanced(self.phase, Step.UNKNOWN_MECHANISM)
            self._note_failure("SaslHandshake", f"it wants {mechanism[:40]!r}")
            return False
        self.phase = advanced(self.phase, Step.HANDSHAKE)
        self._exchange, self._mechanism = make(), mechanism
        return True

    async def take(self, token: bytes) -> Authenticated:
        """A token of the client. ProtocolError without a handshake."""
        if self._exchange is None:
            raise ProtocolError(f"a token without a handshake: the connection is {self.phase}")
        try:
            outcome = await self._exchange.take(token)
            if outcome.principal is not None:
                self._check_same(outcome.principal)
        except Refused as refusal:
            return await self._refused(str(refusal))
        if outcome.principal is None:
            self.phase = advanced(self.phase, Step.CHALLENGED)
            return Authenticated(outcome.answer)
        return self._accepted(outcome, outcome.principal)

    def _check_same(self, principal: Principal) -> None:
        if self.phase in (Phase.CHOSEN_AGAIN, Phase.EXCHANGING_AGAIN) and principal != self.principal:
            raise Refused("it was logged in as another user before")

    def _accepted(self, outcome: "Outcome", principal: Principal) -> Authenticated:
        self.phase = advanced(self.phase, Step.SUCCEEDED)
        self.principal, self._exchange = principal, None
        lifetime_ms = self._security.lifetime_ms(outcome.expires_ms)
        self._expires_ms = None if lifetime_ms is None else self._security.elapsed_ms() + lifetime_ms
        return Authenticated(outcome.answer, "", lifetime_ms or 0)

    async def _refused(self, why: str) -> Authenticated:
        self.phase = advanced(self.phase, Step.REFUSED)
        self._note_failure(self._mechanism, why)
        # Guessing passwords takes time, one connection at a time; a connection that waits holds nothing.
        await asyncio.sleep(milliseconds(self._security.settings.failed_login_delay) / 1000)
        said = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
        return Authenticated(b"", f"{said} {self._mechanism}")

    def _note_failure(self, api: str, why: str) -> None:
        self.failed = True
        logger.info("a login from %s failed (%s): %s", self._host, api, why)
        self._security.audit.note(Event(FAILED_LOGIN, "", self._host, api))
