"""Tokens: who may do what from another machine. Only their hashes are kept.

data/tokens.json    {"dashboard": {"hash": "…", "scopes": ["read"]}}, readable by its owner alone
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from pathlib import Path
from typing import NamedTuple

from headwater.errors import UsageError

FILE = "tokens.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SCOPES = {
    "read": "look at everything: topics, views, groups, flows, captures, schemas, metrics",
    "produce": "post records to topics",
    "schemas": "register and delete schemas",
    "operate": "pause, resume and restart flows",
    "metrics": "read /metrics, and nothing else",
}
PREFIX = "hw_"


class Token(NamedTuple):
    name: str
    scopes: tuple[str, ...]


class Tokens:
    """The tokens of one data directory. What a command changes counts from the next request on."""

    def __init__(self, data: Path) -> None:
        self._file = data / FILE
        self._seen: tuple[int, int] | None = None
        self._known: dict[str, dict[str, object]] = {}

    def add(self, name: str, scopes: tuple[str, ...]) -> str:
        """A new token, which is told once and never again."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} cannot name a token; use up to 100 letters, digits, dots and dashes")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise UsageError(f"a token needs scopes out of {', '.join(SCOPES)}; not {', '.join(unknown) or 'none'}")
        known = self._read()
        if name in known:
            raise UsageError(f"there is a token {name} already; remove it first")
        made = PREFIX + secrets.token_urlsafe(32)
        self._write({**known, name: {"hash": _hash(made), "scopes": list(scopes)}})
        return made

    def remove(self, name: str) -> None:
        known = self._read()
        if name not in known:
            raise UsageError(f"there is no token {name[:80]!r}; there are: {', '.join(sorted(known)) or 'none'}")
        self._write({other: said for other, said in known.items() if other != name})

    def all(self) -> list[Token]:
        return [_token(name, said) for name, said in sorted(self._read().items())]

    def find(self, said: str) -> Token | None:
        """Whose token this is. Every one is compared, and in constant time, so that time tells nothing."""
        wanted, found = _hash(said), None
        for name, one in self._fresh().items():
            if hmac.compare_digest(str(one["hash"]), wanted):
                found = _token(name, one)
        return found

    def _fresh(self) -> dict[str, dict[str, object]]:
        try:
            about = self._file.stat()
        except OSError:
            return {}
        seen = about.st_mtime_ns, about.st_ino
        if seen != self._seen:
            self._known, self._seen = self._read(), seen
        return self._known

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            found: dict[str, dict[str, object]] = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise UsageError(f"{self._file} is damaged ({error}); remove it and make the tokens anew") from None
        return found

    def _write(self, known: dict[str, dict[str, object]]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(known, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)


def _token(name: str, said: dict[str, object]) -> Token:
    scopes = said["scopes"]
    assert isinstance(scopes, list)
    return Token(name, tuple(str(one) for one in scopes))


def _hash(token: str) -> str:
    # 256 random bits: nobody can guess one from its hash, so that a slow hash would only be slow.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def needed_scope(method: str, path: str) -> str | None:
    """What a request from another machine must be allowed to do; None: everybody may.

    >>> needed_scope("GET", "/views"), needed_scope("POST", "/topics/orders"), needed_scope("POST", "/hooks/shop")
    ('read', 'produce', None)
    """
    root = path.strip("/").partition("/")[0]
    if root in ("hooks", "health", "ready", "session", "ui", ""):
        return None  # signed by their senders; for those who watch over us; without anything to tell
    if root == "metrics":
        return "metrics"
    if method in ("GET", "HEAD", "WEBSOCKET"):
        return "read"
    return {"topics": "produce", "flows": "operate"}.get(root, "schemas")


def allows(token: Token, scope: str) -> bool:
    return scope in token.scopes or (scope == "metrics" and "read" in token.scopes)
