"""Asks a schema registry: one of ours or another, they speak the same.

`where` is its URL, or the data directory of a node, which says its address itself and may have another one after a
restart. Versions and ids never change, so what was answered once is not asked again.
"""

import base64
import json
import threading
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from headwater.clock import Clock, SystemClock
from headwater.errors import RegistryUnavailable, SchemaError, UnknownSchema, UnknownSubject, UnknownVersion
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.settings import LOCAL_TOKEN_FILE, NODE_FILE

CONTENT = "application/vnd.schemaregistry.v1+json"
ANSWER_BYTES_MAX = 16 * 1024**2
TIMEOUT_SECONDS = 5.0
PATIENCE_SECONDS = 1.0
"""Short: a task that waits keeps a core from other jobs, Spark tries the task again, and then the job is seen to
fail and is tried again with growing pauses (run/supervision.py)."""
PAUSE_SECONDS = 0.2
REFERENCES_MAX = 200
LATEST = "latest"
CODES = {40401: UnknownSubject, 40402: UnknownVersion, 40403: UnknownSchema}


class Found(NamedTuple):
    """A schema with all that it refers to, by the names its text uses; those that others refer to come first."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    id: int = 0
    version: int = 0


class RegistryClient:
    """Safe to use from many threads. Tries again for a while where there is no answer: a node may be restarting."""

    def __init__(self, where: str, *, patience_seconds: float = PATIENCE_SECONDS, clock: Clock | None = None) -> None:
        self.where = where
        self._patience_ms = round(1000 * patience_seconds)
        self._clock = clock or SystemClock()
        # Schemas are asked for at addresses that a user configured; an answer must not lead elsewhere.
        self._opener: OpenerDirector = build_opener(_NoRedirects(), ProxyHandler({}))
        self._by_id: dict[int, Found] = {}

    @property
    def shown(self) -> str:
        """Where it is, without name and password."""
        return without_secrets(self.where) if self.where.startswith("http") else self.where

    def version(self, subject: str, version: str = LATEST) -> Found:
        """A version of a subject. UnknownSubject or UnknownVersion if there is none."""
        said = self.ask("GET", f"/subjects/{_part(subject)}/versions/{_part(version)}?format=serialized")
        return self._found(said)

    def with_id(self, number: int) -> Found:
        """UnknownSchema if there is none. What was found is remembered."""
        if number not in self._by_id:
            self._by_id[number] = self._found(self.ask("GET", f"/schemas/ids/{number}?format=serialized"))
        return self._by_id[number]

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What the registry answers. SchemaError for what it refuses, RegistryUnavailable if it stays silent."""
        deadline = self._clock.elapsed_ms() + self._patience_ms
        pause = threading.Event()
        while True:
            try:
                return self._ask_once(method, path, body)
            except RegistryUnavailable:
                if self._clock.elapsed_ms() >= deadline:
                    raise
                pause.wait(PAUSE_SECONDS)

    def _ask_once(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        url, headers = _address(address_of(self.where))
        headers |= local_token(self.where)
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{url}{path}", data, {**headers, "Accept": f"{CONTENT}, application/json"}, method=method)
        if data is not None:
            request.add_header("Content-Type", CONTENT)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return _decoded(answer.read(ANSWER_BYTES_MAX + 1), url)
        except HTTPError as refusal:
            with refusal:
                raise _error(refusal.code, refusal.read(ANSWER_BYTES_MAX), url) from None
        except (URLError, OSError, HTTPException) as error:
            raise RegistryUnavailable(url, str(getattr(error, "reason", error))) from None

    def _found(self, said: Mapping[str, Any]) -> Found:
        beneath: dict[str, str] = {}
        self._collect(said, beneath, 0)
        kind = str(said.get("schemaType") or "AVRO")
        return Found(
            kind, str(said["schema"]), tuple(beneath.items()), int(said.get("id") or 0), int(said.get("version") or 0)
        )

    def _collect(self, said: Mapping[str, Any], beneath: dict[str, str], depth: int) -> None:
        for reference in said.get("references") or ():
            name = str(reference["name"])
            if name in beneath:
                continue
            if depth > REFERENCES_MAX or len(beneath) > REFERENCES_MAX:
                raise SchemaError(f"the schema refers to more than {REFERENCES_MAX} others")
            subject, version = str(reference["subject"]), int(reference["version"])
            inner = self.ask("GET", f"/subjects/{_part(subject)}/versions/{version}?deleted=true&format=serialized")
            self._collect(inner, beneath, depth + 1)
            beneath[name] = str(inner["schema"])


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@lru_cache(maxsize=16)
def client_of(where: str) -> RegistryClient:
    """One client a process, so that each schema is asked for once."""
    return RegistryClient(where)


def address_of(where: str) -> str:
    """The URL of a registry. RegistryUnavailable if it is a data directory whose node has no HTTP port, or none."""
    if where.startswith(("http://", "https://")):
        return where.rstrip("/")
    try:
        said = json.loads((Path(where) / NODE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        error = RegistryUnavailable(where, "no node runs on this data directory")
        error.hint = f'Start one with "headwater start --data {where}", or say registry="http://...".'
        raise error from None
    if not said.get("http"):
        error = RegistryUnavailable(where, "its node has no HTTP port")
        error.hint = 'Start the node without "--http off", or say registry="http://...".'
        raise error
    return str(said["http"])


def local_token(where: str) -> dict[str, str]:
    """The token that a reader of a data directory sends to its node; nothing to others."""
    try:
        token = (Path(where) / LOCAL_TOKEN_FILE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    return {"Authorization": f"Bearer {token.strip()}"}


def _address(url: str) -> tuple[str, dict[str, str]]:
    """The URL without name and password, which go into a header and never into a message."""
    if why := ambiguity(url):
        raise SchemaError(f"the URL of the schema registry {why}", WAY_OUT)
    parts = urlsplit(url)
    if not parts.username:
        return url, {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return plain, {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _part(name: str) -> str:
    return quote(str(name), safe="")


def _decoded(body: bytes, url: str) -> Any:
    try:
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError("the answer is too long")
        return json.loads(body)
    except ValueError as error:
        raise SchemaError(f"what answers at {url} is no schema registry: {error}") from None


def _error(status: int, body: bytes, url: str) -> SchemaError:
    try:
        said = json.loads(body)
        code, message = int(said["error_code"]), str(said["message"])
    except (ValueError, KeyError, TypeError):
        code, message = status, ""
    if status >= 500 or status in (408, 429):
        return RegistryUnavailable(url, message or f"status {status}")
    kind: type[SchemaError] = CODES.get(code, SchemaError)
    error: SchemaError = kind.__new__(kind)
    # The sentence is the registry's own: ours of the same kind would be made from facts that it does not tell.
    SchemaError.__init__(error, message.rstrip(".") or f"the schema registry at {url} answers with status {status}")
    return error
