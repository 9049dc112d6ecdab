"""Requests to an application in this process, without a socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message

Headers = Sequence[tuple[bytes, bytes]]
HOST = (b"host", b"localhost")


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: ASGIApp,
    method: str,
    target: str,
    *,
    chunks: Iterable[bytes] = (b"",),
    slowly: AsyncIterator[bytes] | None = None,
    headers: Headers = (HOST,),
) -> Answered:
    """The answer to a request whose body arrives in these pieces (or in those that take their time), and then ends."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("latin-1", "replace"), "query_string": query.encode("latin-1", "replace"),
        "root_path": "", "headers": list(headers), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {},
    }  # fmt: skip
    pieces = iter(chunks)
    sent: list[Message] = []

    async def receive() -> Message:
        if slowly is not None:
            async for piece in slowly:
                return {"type": "http.request", "body": piece, "more_body": True}
            return {"type": "http.request", "body": b"", "more_body": False}
        for piece in pieces:
            return {"type": "http.request", "body": piece, "more_body": True}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answered(sent[0]["status"], head, b"".join(message.get("body", b"") for message in sent[1:]))


def asked(app: ASGIApp, method: str, target: str, **more: Any) -> Answered:
    return asyncio.run(ask(app, method, target, **more))
