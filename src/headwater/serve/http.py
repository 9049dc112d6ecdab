"""The application on the HTTP port: routes of the parts that want to be reached, and what stands before all of them."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.access.principals import ANONYMOUS
from headwater.access.tls_listener import TlsListener, Unfinished
from headwater.errors import UsageError
from headwater.serve.access import Access, is_loopback
from headwater.serve.connection import connections
from headwater.serve.enforcement import SEES, Client, Enforcement, FilteredList, is_list, refusal, sees
from headwater.serve.permissions import names_secret
from headwater.serve.services import failed
from headwater.serve.tokens import Tokens, allows, needed_scope
from headwater.settings import HttpSettings

STOP_SECONDS_MAX = 5
KEEP_ALIVE_SECONDS = 30
COOKIE = "headwater_token"
MESSAGE_BYTES_MAX = 64 * 1024
STARTED_SECONDS = 0.01


class Tls(NamedTuple):
    """How a port is encrypted; `context` gives the certificate of the moment."""

    context: Callable[[], ssl.SSLContext]
    unfinished_max: int
    timeout_seconds: float


class Guard:
    """Lets through what may ask: no page of others, and where tokens are demanded only who has one for it.

    Where a request comes from proves nothing: what a proxy on this machine passes on comes from this machine, and most
    do not say for whom. So every client needs a token as soon as one exists or the node has a public name.
    """

    def __init__(
        self, app: ASGIApp, access: Access, tokens: Tokens | None, *, trusts_loopback: bool,
        enforcement: Enforcement | None = None,
    ) -> None:  # fmt: skip
        """With `enforcement` each client needs a token, and the token's principal needs the permission."""
        self._app, self._access, self._tokens, self._trusts_loopback = app, access, tokens, trusts_loopback
        self._enforcement = enforcement

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] in ("http", "websocket"):
            answer = self._refusal(scope) or await self._permitted(scope)
        await answer(scope, receive, send)

    async def _permitted(self, scope: Scope) -> ASGIApp:
        """The application, as much of it as the client may see."""
        paths, method = paths_of(scope), scope.get("method", "WEBSOCKET")
        if any(map(names_secret, paths)):
            return failed(403, "this topic cannot be read: it holds what passwords are compared with")
        if self._enforcement is None or self._tokens is None:
            return self._app
        token = self._tokens.find(token_in(Headers(scope=scope)))
        principal = ANONYMOUS if token is None else token.principal
        client = Client(principal, scope["client"][0] if scope.get("client") else "")
        if needed_scope(method, scope["path"]) is not None:
            why = await refusal(self._enforcement, client, method, paths)
            if why:
                return failed(403, why)
        scope[SEES] = sees(self._enforcement, client)
        if is_list(method, paths[0]):
            return FilteredList(self._app, self._enforcement, client, paths[0][0])
        return self._app

    def _refusal(self, scope: Scope) -> Response | None:
        closing = {"connection": "close"}
        if why := self._access.refusal(_only(scope, b"host"), _only(scope, b"origin")):
            return failed(403, why, closing)
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # Two proxies may disagree about where the request ends (request smuggling).
            return failed(400, "a request has Content-Length or Transfer-Encoding; this one has both", closing)
        try:
            return self._without_token(scope)
        except UsageError as error:
            return failed(503, str(error))

    def _demands_token(self, scope: Scope, tokens: Tokens) -> bool:
        if self._enforcement is not None:
            return True
        if not _is_near(scope):
            return True
        return not self._trusts_loopback and (self._access.has_public_name or tokens.exist())

    def _without_token(self, scope: Scope) -> Response | None:
        needed = needed_scope(scope.get("method", "WEBSOCKET"), scope["path"])
        if needed is None or self._tokens is None or not self._demands_token(scope, self._tokens):
            return None
        token = self._tokens.find(token_in(Headers(scope=scope)))
        if token is None:
            way = 'make one where the node runs with "headwater token add NAME", and send it as Authorization: Bearer'
            return failed(401, f"this needs a token; {way}", {"www-authenticate": "Bearer"})
        if not allows(token, needed):
            return failed(403, f"token {token.name} is for {', '.join(token.scopes)}; this needs {needed}")
        return None


def _is_near(scope: Scope) -> bool:
    """Whether a request comes from this machine itself. One that was passed on for another does not."""
    passed_on = any(name in (b"x-forwarded-for", b"forwarded", b"x-real-ip") for name, _ in scope["headers"])
    client = scope.get("client")
    return client is not None and not passed_on and is_loopback(client[0])


def paths_of(scope: Scope) -> list[list[str]]:
    """The parts of a path: as routes match it, decoded first, and as services divide it, decoded last. A name with a
    slash in it differs between the two, and both must be allowed."""
    decoded = [part for part in scope["path"].strip("/").split("/") if part]
    raw = (scope.get("raw_path") or scope["path"].encode()).strip(b"/").split(b"/")
    divided = [unquote(part.decode("latin-1")) for part in raw if part]
    return [decoded] if divided == decoded else [decoded, divided]


def token_in(headers: Headers) -> str:
    """Returns the token of a request: from the Authorization header, or a browser's cookie."""
    kind, _, said = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return said.strip()
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def _only(scope: Scope, name: bytes) -> str | None:
    """The value of a header. A header that is given twice counts as missing: a proxy may use the other value."""
    found = [value.decode("latin-1") for said, value in scope["headers"] if said == name]
    return None if not found else found[0] if len(found) == 1 else ""


def build_app(
    routes: Sequence[BaseRoute],
    settings: HttpSettings,
    tokens: Tokens | None = None,
    enforcement: Enforcement | None = None,
) -> Starlette:
    """All routes under one application, others can be mounted in it. Without `tokens` none are needed."""
    access = Access(settings.host, settings.allowed_hosts, public=settings.insecure_public_bind)
    guard = Middleware(
        Guard, access=access, tokens=tokens, trusts_loopback=settings.loopback_without_token, enforcement=enforcement
    )
    return Starlette(
        routes=list(routes),
        middleware=[guard],
        exception_handlers={404: _nothing_here, 405: _not_allowed},
    )


async def _nothing_here(request: Request, error: Exception) -> Response:
    return failed(404, "there is nothing here")


async def _not_allowed(request: Request, error: Exception) -> Response:
    return failed(405, f"{request.method} cannot be done here")


def is_no_cut_off_request(record: logging.LogRecord) -> bool:
    """False for the stack trace of a request that was still under way when the node stopped: uvicorn counts them."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


async def serve_encrypted(server: uvicorn.Server, plain: socket.socket, listening: socket.socket, tls: Tls) -> None:
    """Serve one socket as it is, and another one encrypted."""
    serving = asyncio.ensure_future(server.serve(sockets=[plain]))
    while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has no event to wait for
        await asyncio.sleep(STARTED_SECONDS)
    config = server.config

    def protocol() -> asyncio.Protocol:
        made: Any = config.http_protocol_class
        return cast(asyncio.Protocol, made(config=config, server_state=server.server_state, app_state={}))

    listener = TlsListener(protocol, tls.context, Unfinished(tls.unfinished_max), tls.timeout_seconds)
    listener.start(listening)
    try:
        await serving
    finally:
        listener.close()


def server_of(app: ASGIApp, settings: HttpSettings) -> uvicorn.Server:
    """A server for sockets that are open already. It runs on the event loop it is awaited on, and leaves signals alone
    there unless that is the main thread's; `should_exit` ends it."""
    logging.getLogger("uvicorn.error").addFilter(is_no_cut_off_request)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=connections(settings.request_timeout.total_seconds()),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="websockets-sansio",
            ws_max_size=MESSAGE_BYTES_MAX,
            limit_concurrency=settings.connections_max,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS_MAX,
        )
    )
