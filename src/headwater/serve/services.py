"""Services that answer requests with JSON, whatever part they belong to, as routes of the application.

A part that wants to be reached over HTTP gives an object with `answer` (a resource that is asked and changed) or with
`receive` (an endpoint that takes posted bodies); it needs to know nothing of HTTP itself.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.serve.bodies import Bodies, Unread

NAMES = {401: "NoToken", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 408: "TooSlow", 413: "TooLarge"}
METHODS = ["GET", "POST", "PUT", "DELETE"]
CHANGES_AT_ONCE = 8
"""Of one service. Threads are shared by all requests, and schemas may take a second each, one after the other: many of
them must leave threads to requests that take no time."""


class JsonService(Protocol):
    """Called on any of several threads; must not raise."""

    @property
    def roots(self) -> Sequence[str]:
        """The first parts of the paths it answers."""

    def answer(
        self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes
    ) -> tuple[int, Any]: ...  # a status, and what becomes JSON; a text in a class of its own stays as it is


class PostService(Protocol):
    """Called on any of several threads; must not raise."""

    @property
    def roots(self) -> Sequence[str]:
        """The first parts of the paths it takes."""

    def receive(
        self, path: Sequence[str], query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Any, Mapping[str, str]]: ...  # a status, what becomes JSON, and headers of the answer


def routes_of(service: JsonService, bodies: Bodies, *, content_type: str) -> list[Route]:
    def answer(request: Request, body: bytes) -> Response:
        status, said = service.answer(request.method, path_of(request), dict(request.query_params), body)
        plain = isinstance(said, str) and type(said) is not str
        content = said if plain else json.dumps(said, ensure_ascii=False)
        return Response(content, status, media_type=content_type)

    answered, slots = _with_body(answer, bodies), asyncio.Semaphore(CHANGES_AT_ONCE)

    async def in_turn(request: Request) -> Response:
        if request.method == "GET":
            return await answered(request)
        async with slots:
            return await answered(request)

    return _routes(service.roots, METHODS, in_turn)


def routes_of_posts(service: PostService, bodies: Bodies) -> list[Route]:
    def receive(request: Request, body: bytes) -> Response:
        said = service.receive(path_of(request), dict(request.query_params), headers_of(request), body)
        status, content, headers = said
        return Response(json.dumps(content), status, headers=headers, media_type="application/json")

    return _routes(service.roots, ["POST"], _with_body(receive, bodies))


def _routes(roots: Sequence[str], methods: list[str], endpoint: Any) -> list[Route]:
    paths = [path for root in roots for path in (f"/{root}", f"/{root}/{{rest:path}}")]
    return [Route(path, endpoint, methods=methods) for path in paths]


def _with_body(
    answer: Callable[[Request, bytes], Response], bodies: Bodies
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that waits for the body here, and for the answer on a thread."""

    async def endpoint(request: Request) -> Response:
        try:
            async with bodies.held(request) as body:
                return await run_in_threadpool(answer, request, body)
        except Unread as refusal:
            return failed(refusal.status, str(refusal), refusal.headers)

    return endpoint


def headers_of(request: Request) -> dict[str, str]:
    """By their names in small letters; what is said several times stands in one text, as HTTP has it."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def path_of(request: Request) -> list[str]:
    """The parts of the path. They are divided first and decoded then: a name may contain a slash."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return [unquote(part.decode("latin-1")) for part in raw.strip(b"/").split(b"/")]


def failed(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps({"error_code": status, "error": NAMES.get(status, "Refused"), "message": message})
    return Response(body, status, headers=headers, media_type="application/json")
