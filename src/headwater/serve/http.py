"""The application on the HTTP port: routes of the parts that want to be reached, and what stands before all of them."""

from collections.abc import Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.serve.access import Access
from headwater.serve.connection import connections
from headwater.serve.services import failed
from headwater.settings import HttpSettings

STOP_SECONDS_MAX = 5
KEEP_ALIVE_SECONDS = 30


class Guard:
    """Lets through what may ask."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = ""
        if scope["type"] in ("http", "websocket"):
            why = self._access.refusal(_only(scope, b"host"), _only(scope, b"origin"))
        await (failed(403, why, {"connection": "close"}) if why else self._app)(scope, receive, send)


def _only(scope: Scope, name: bytes) -> str | None:
    """The value of a header. One that is said twice is no name at all: who reads the other one would be led astray."""
    found = [value.decode("latin-1") for said, value in scope["headers"] if said == name]
    return None if not found else found[0] if len(found) == 1 else ""


def build_app(routes: Sequence[BaseRoute], settings: HttpSettings) -> Starlette:
    """All routes under one application, which other applications can be mounted in."""
    access = Access(settings.host, settings.allowed_hosts, public=settings.insecure_public_bind)
    return Starlette(
        routes=list(routes),
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={404: _nothing_here, 405: _not_allowed},
    )


async def _nothing_here(request: Request, error: Exception) -> Response:
    return failed(404, "there is nothing here")


async def _not_allowed(request: Request, error: Exception) -> Response:
    return failed(405, f"{request.method} cannot be done here")


def server_of(app: ASGIApp, settings: HttpSettings) -> uvicorn.Server:
    """A server for sockets that are open already. It runs on the event loop it is awaited on, and leaves signals alone
    there unless that is the main thread's; `should_exit` ends it."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=connections(settings.request_timeout.total_seconds()),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=settings.connections_max,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS_MAX,
        )
    )
