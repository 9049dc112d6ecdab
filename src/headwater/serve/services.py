"""Services that answer requests with JSON, whatever part they belong to, as routes of the application.

A part that wants to be reached over HTTP gives an object with `answer`; it needs to know nothing of HTTP itself.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.settings import HttpSettings

METHODS = ["GET", "POST", "PUT", "DELETE"]
DIGITS_MAX = 18


class JsonService(Protocol):
    """Called on any of several threads; must not raise."""

    @property
    def roots(self) -> Sequence[str]:
        """The first parts of the paths it answers."""

    def answer(
        self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes
    ) -> tuple[int, Any]: ...  # a status, and what becomes JSON; a text in a class of its own stays as it is


def routes_of(service: JsonService, settings: HttpSettings, *, content_type: str) -> list[Route]:
    endpoint = _endpoint(service, settings, content_type)
    paths = [path for root in service.roots for path in (f"/{root}", f"/{root}/{{rest:path}}")]
    return [Route(path, endpoint, methods=METHODS) for path in paths]


def _endpoint(service: JsonService, settings: HttpSettings, content_type: str) -> Any:
    async def answer(request: Request) -> Response:
        try:
            async with asyncio.timeout(settings.request_timeout.total_seconds()):
                body = await body_of(request, settings.request_bytes_max)
        except TimeoutError:
            return failed(408, "the request took too long to arrive", close=True)
        except ClientDisconnect:
            return failed(400, "the request ended before it was complete", close=True)
        if body is None:
            return failed(413, f"the request is larger than {settings.request_bytes_max} bytes", close=True)
        path = path_of(request)
        status, said = await run_in_threadpool(service.answer, request.method, path, dict(request.query_params), body)
        plain = isinstance(said, str) and type(said) is not str
        content = said if plain else json.dumps(said, ensure_ascii=False)
        return Response(content, status, media_type=content_type)

    return answer


def path_of(request: Request) -> list[str]:
    """The parts of the path. They are divided first and decoded then: a name may contain a slash."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return [unquote(part.decode("latin-1")) for part in raw.strip(b"/").split(b"/")]


async def body_of(request: Request, bytes_max: int) -> bytes | None:
    """The body; None if it is too long, which is found before more than that is held."""
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or len(said) > DIGITS_MAX or int(said) > bytes_max:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            return None
    return bytes(body)


def failed(status: int, message: str, *, close: bool = False) -> Response:
    """`close`: what is left of the request is not waited for."""
    body = json.dumps({"error_code": status, "message": message})
    headers = {"connection": "close"} if close else None
    return Response(body, status, headers=headers, media_type="application/json")
