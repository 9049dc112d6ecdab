"""The dashboard: files of the package, and a cookie for browsers that have a token."""

import hashlib
import json
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.serve.bodies import Bodies, Unread
from headwater.serve.http import COOKIE
from headwater.serve.services import failed
from headwater.serve.tokens import Tokens

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FIRST = "index.html"
DAY_SECONDS = 86_400

# No external content, no inline scripts, no framing: the content of a record cannot run, whatever a page does with it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


class Dashboard:
    def __init__(self, bodies: Bodies, tokens: Tokens) -> None:
        self._bodies, self._tokens = bodies, tokens
        self._files = {one.name: one.read_bytes() for one in files("headwater.serve").joinpath("dashboard").iterdir()
                       if one.name.endswith(tuple(TYPES))}  # fmt: skip

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._forward, methods=["GET"]),
            Route("/ui", self._forward, methods=["GET"]),
            Route("/ui/", self._page, methods=["GET"]),
            Route("/ui/{name}", self._page, methods=["GET"]),
            Route("/session", self._session, methods=["POST"]),
        ]

    async def _forward(self, request: Request) -> Response:
        return RedirectResponse("/ui/", 307)

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name", FIRST)
        content = self._files.get(name)
        if content is None:
            return failed(404, "there is nothing here")
        mark = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
        headers = {**HEADERS, "etag": mark}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=TYPES[name[name.rindex(".") :]])

    async def _session(self, request: Request) -> Response:
        """A browser cannot send a token with everything it asks; a cookie that scripts cannot read does it."""
        try:
            async with self._bodies.held(request) as body:
                said = json.loads(body)
                token = said["token"] if isinstance(said, dict) else ""
        except Unread as refusal:
            return failed(refusal.status, str(refusal), refusal.headers)
        except (ValueError, KeyError, RecursionError):
            return failed(400, 'post {"token": "…"}')
        if not isinstance(token, str) or self._tokens.find(token) is None:
            return failed(401, "this token is not known")
        answer = Response(status_code=204)
        # Behind a proxy with TLS the request itself is plain; the page says where it comes from.
        secure = "https" in (request.url.scheme, request.headers.get("origin", "").partition("://")[0])
        answer.set_cookie(COOKIE, token, max_age=DAY_SECONDS, httponly=True, samesite="strict", secure=secure)
        return answer
