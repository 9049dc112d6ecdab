"""Tokens: who may do what over HTTP. Only their hashes are kept.

data/tokens.json    {"dashboard": {"hash": "…", "scopes": ["read"]}}, readable by its owner alone; a small file, with a
                    checksum and a copy (small_file.py): a deleted file is not the end of all tokens
data/local.token    the token of this machine, for commands; created again when a node starts (access/local_token.py)
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headwater.access.principals import LOCAL as LOCAL_PRINCIPAL
from headwater.access.principals import Principal, parse_principal
from headwater.errors import DamagedFile, UsageError
from headwater.log.storage import LocalStorage, read_small_file, write_small_file
from headwater.small_file import copy_path

FILE = "tokens.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SCOPES = {
    "read": "look at everything: topics, views, groups, flows, captures, schemas, metrics",
    "produce": "post records to topics",
    "schemas": "register and delete schemas",
    "operate": "pause, resume and restart flows, remove captures",
    "metrics": "read /metrics, and nothing else",
}
PREFIX = "hw_"
LOCAL = "of this machine"


class Token(NamedTuple):
    name: str
    scopes: tuple[str, ...]
    mapped: str = ""
    """The principal that it stands for, if one was said."""

    @property
    def principal(self) -> Principal:
        """Who has it, for permissions. Without a mapping it is one of its own, named after the token."""
        if self.name == LOCAL:
            return LOCAL_PRINCIPAL
        return parse_principal(self.mapped) if self.mapped else Principal("Token", self.name)


class Tokens:
    """The tokens of one data directory. What a command changes counts from the next request on."""

    def __init__(self, data: Path, local: Callable[[], str] = str) -> None:
        """`local` returns the token of this machine, "" if there is none."""
        self._file = data / FILE
        self._storage = LocalStorage(data, private=True)
        self._local = local
        self._seen: tuple[object, ...] = ()
        self._known: dict[str, dict[str, object]] = {}

    def add(self, name: str, scopes: tuple[str, ...], principal: str = "") -> str:
        """Returns a new token, which is shown once and never again."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} cannot name a token; use up to 100 letters, digits, dots and dashes")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise UsageError(f"a token needs scopes out of {', '.join(SCOPES)}; not {', '.join(unknown) or 'none'}")
        known = self._read()
        if name in known:
            raise UsageError(f"there is a token {name} already; remove it first")
        made = PREFIX + secrets.token_urlsafe(32)
        said: dict[str, object] = {"hash": _hash(made), "scopes": list(scopes)}
        if principal:
            said["principal"] = str(parse_principal(principal))
        self._write({**known, name: said})
        return made

    def remove(self, name: str) -> None:
        known = self._read()
        if name not in known:
            raise UsageError(f"there is no token {name[:80]!r}; there are: {', '.join(sorted(known)) or 'none'}")
        self._write({other: said for other, said in known.items() if other != name})

    def all(self) -> list[Token]:
        return [_token(name, said) for name, said in sorted(self._read().items())]

    def exist(self) -> bool:
        """Returns whether a token exists; that of this machine does not count."""
        return bool(self._fresh())

    def find(self, said: str) -> Token | None:
        """Returns the owner of a token. Every one is compared, and in constant time, so that timing reveals nothing."""
        wanted, found = _hash(said), None
        local = self._local()
        if local and hmac.compare_digest(_hash(local), wanted):
            found = Token(LOCAL, tuple(SCOPES))
        for name, one in self._fresh().items():
            if hmac.compare_digest(str(one["hash"]), wanted):
                found = _token(name, one)
        return found

    def _fresh(self) -> dict[str, dict[str, object]]:
        seen = tuple(map(_seen, (self._file, self._file.with_name(copy_path(FILE)))))
        if seen != self._seen:
            self._known, self._seen = self._read(), seen
        return self._known

    def _read(self) -> dict[str, dict[str, object]]:
        """UsageError if the list of tokens cannot be read: then every request is refused."""
        try:
            found: dict[str, dict[str, object]] = read_small_file(self._storage, FILE).content
            return {
                name: {"hash": str(said["hash"]), "scopes": said["scopes"], "principal": str(said.get("principal", ""))}
                for name, said in found.items()
            }
        except FileNotFoundError:
            return {}
        except (DamagedFile, AttributeError, KeyError, TypeError) as error:
            why = error.why if isinstance(error, DamagedFile) else "it is not what was written"
            raise UsageError(
                f"{self._file} is damaged ({why}); remove it and {copy_path(FILE)}, and make the tokens again"
            ) from None

    def _write(self, known: dict[str, dict[str, object]]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_small_file(self._storage, FILE, known)


def _seen(file: Path) -> object:
    """Another value when a file was replaced."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_ino


def _token(name: str, said: dict[str, object]) -> Token:
    scopes = said["scopes"]
    assert isinstance(scopes, list)
    return Token(name, tuple(str(one) for one in scopes), str(said.get("principal", "")))


def _hash(token: str) -> str:
    # 256 random bits cannot be guessed from a hash, so a slow hash would add nothing.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def needed_scope(method: str, path: str) -> str | None:
    """Returns the scope that a request needs where tokens are demanded; None: no permission is needed.

    >>> needed_scope("GET", "/views"), needed_scope("POST", "/topics/orders"), needed_scope("POST", "/hooks/shop")
    ('read', 'produce', None)
    >>> needed_scope("POST", "/query")
    'read'
    """
    root = path.strip("/").partition("/")[0]
    if root in ("hooks", "health", "ready", "session", "ui", ""):
        return None  # hooks signed by their senders, health checks, and pages without data
    if root == "metrics":
        return "metrics"
    if method in ("GET", "HEAD", "WEBSOCKET"):
        return "read"
    return {"query": "read", "topics": "produce", "events": "produce", "flows": "operate", "captures": "operate"}.get(
        root, "schemas"
    )


def allows(token: Token, scope: str) -> bool:
    return scope in token.scopes or (scope == "metrics" and "read" in token.scopes)
