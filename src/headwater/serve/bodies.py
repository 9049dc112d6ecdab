"""Bodies of requests: each must be short and come soon, and all that are held at once have a limit together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from headwater.settings import HttpSettings

DIGITS_MAX = 18
RETRY_SECONDS = 1


class Unread(Exception):
    """Why a body was not read to its end, as a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"connection": "close"}  # what is left of the request is not waited for
        if status == 429:
            self.headers["retry-after"] = str(RETRY_SECONDS)


class Bodies:
    """Used on one event loop. Without a limit for all, a few hundred slow senders could fill the memory."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self.held_bytes = 0

    @asynccontextmanager
    async def held(self, request: Request) -> AsyncIterator[bytes]:
        """The body, which counts as held until the block ends. Unread if it cannot be had."""
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                    await self._read(request, body)
            except TimeoutError:
                raise Unread(408, "the request took too long to arrive") from None
            except ClientDisconnect:
                raise Unread(400, "the request ended before it was complete") from None
            yield bytes(body)
        finally:
            self.held_bytes -= len(body)

    async def _read(self, request: Request, body: bytearray) -> None:
        longest = self._settings.request_bytes_max
        said = request.headers.get("content-length", "0")
        if not said.isdecimal() or len(said) > DIGITS_MAX or int(said) > longest:
            raise Unread(413, f"the request is larger than {longest} bytes")
        async for chunk in request.stream():
            body += chunk
            self.held_bytes += len(chunk)
            if len(body) > longest:
                raise Unread(413, f"the request is larger than {longest} bytes")
            if self.held_bytes > self._settings.requests_bytes_max:
                raise Unread(429, "too many large requests at once; try again")
