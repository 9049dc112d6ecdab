"""Bearer tokens of OAuth: JSON Web Tokens that are signed by a key of a known set.

The keys are a JWKS in a file, or at an https URL (http on this machine alone). They are read again when a token names
a key that is not among them, but not more often than every few seconds, so that made-up keys cost nothing.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from headwater.clock import Clock
from headwater.errors import InvalidSetting
from headwater.settings import SecuritySettings

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
"""Signatures alone: with a shared secret a server that can check a token could make one."""

TOKEN_BYTES_MAX = 32 * 1024
KEYS_BYTES_MAX = 1024**2
READ_SECONDS_MIN = 10.0
FETCH_SECONDS_MAX = 5.0
SKEW_SECONDS = 30
YEARS = 2**40  # in seconds: more than any token says, and a number that can be computed with
LOOPBACK = ("127.0.0.1", "::1", "localhost")
CLIENT_MESSAGE = re.compile(rb"n,[^,]*,\x01((?:[^\x01]+\x01)*)\x01")


class TokenRefused(Exception):
    """The text is for the log; it never has the token in it."""


def bearer_token(message: bytes) -> str:
    """The token in the first message of OAUTHBEARER; TokenRefused if there is none.

    >>> bearer_token(b"n,,\\x01auth=Bearer abc.def.ghi\\x01\\x01")
    'abc.def.ghi'
    """
    found = CLIENT_MESSAGE.fullmatch(message) if len(message) <= TOKEN_BYTES_MAX else None
    fields = found[1].split(b"\x01") if found else []
    for field in fields:
        name, _, value = field.partition(b"=")
        kind, _, token = value.strip().partition(b" ")
        if name == b"auth" and kind.lower() == b"bearer" and token.isascii():
            return token.strip().decode()
    raise TokenRefused("the message is not one of OAUTHBEARER")


class TokenVerifier:
    """May be used from several threads; a call may wait for the keys."""

    def __init__(self, settings: SecuritySettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._lock = threading.Lock()
        self._read_ms: int | None = None
        self._keys: KeySet | None = None
        self._source = _source(settings.oauth_keys)
        if not settings.oauth_audience:
            raise InvalidSetting("oauth audience", "", "say for whom tokens must be: those for others must not count")

    def verify(self, token: str) -> tuple[str, int]:
        """The user, and until when, in milliseconds of the wall clock."""
        claims = self._claims(token)
        settings, now = self._settings, self._clock.now_ms() // 1000
        expires, user = claims.get("exp"), claims.get(settings.oauth_user_claim)
        if not isinstance(expires, int | float) or not 0 < expires < YEARS or expires + SKEW_SECONDS <= now:
            raise TokenRefused("the token has expired, or does not say when it will")
        for claim in ("nbf", "iat"):
            since = claims.get(claim, 0)
            if not isinstance(since, int | float) or since - SKEW_SECONDS > now:
                raise TokenRefused(f"the token counts from a later time ({claim})")
        if settings.oauth_issuer and claims.get("iss") != settings.oauth_issuer:
            raise TokenRefused("the token is of another issuer")
        audience = claims.get("aud")
        if settings.oauth_audience not in (audience if isinstance(audience, list) else [audience]):
            raise TokenRefused("the token is for another audience")
        if not isinstance(user, str) or not user:
            raise TokenRefused(f"the token has no claim {settings.oauth_user_claim} that names a user")
        return user, int(expires * 1000)

    def _claims(self, token: str) -> Mapping[str, Any]:
        why = "no key is known"
        for keys in (self._known(), self._renewed()):
            if keys is None:
                continue
            try:
                return jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            except (JoseError, ValueError, TypeError, KeyError) as error:
                why = type(error).__name__
        raise TokenRefused(f"the token is not signed by a known key, or is none ({why})")

    def _known(self) -> KeySet | None:
        return self._keys

    def _renewed(self) -> KeySet | None:
        """The keys read again; None if that was done a moment ago."""
        with self._lock:
            now_ms = self._clock.elapsed_ms()
            if self._read_ms is not None and now_ms - self._read_ms < READ_SECONDS_MIN * 1000:
                return None
            self._read_ms = now_ms
            try:
                self._keys = KeySet.import_key_set(json.loads(self._source()))
            except (OSError, HTTPException, ValueError, KeyError, TypeError, JoseError) as error:
                raise TokenRefused(f"the keys cannot be read ({type(error).__name__})") from None
            return self._keys


def _source(where: str) -> Callable[[], bytes]:
    parts = urlsplit(where)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return lambda: _fetched(where)
    if not where or parts.scheme:
        raise InvalidSetting("oauth keys", where, "name a file, or an https URL, with the JWKS of the issuer")
    return lambda: _bounded(Path(where).read_bytes())


def _fetched(url: str) -> bytes:
    # A redirect could lead from https to http, and to keys of another party.
    with build_opener(_NoRedirect).open(url, timeout=FETCH_SECONDS_MAX) as answer:
        return _bounded(answer.read(KEYS_BYTES_MAX + 1))


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _bounded(data: bytes) -> bytes:
    if len(data) > KEYS_BYTES_MAX:
        raise ValueError("the keys are too long")
    return data
