"""Responses to a socket, one chunk in memory at a time.

A response is a row of parts: bytes, and slices of files that are read only when the client has taken what came before.
So a client that does not read holds one chunk, however much it asked for.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from headwater.errors import ProtocolError
from headwater.log.snapshot import Slice
from headwater.log.storage import File
from headwater.log.storage.storage import Buffer

Part = bytes | Slice
ReadSlowly = Callable[[File, int, int], Awaitable[bytes]]

TURN_BYTES = 1024**2
"""After so many bytes of a response that flows freely, others get their turn."""


DIRECT_BYTES = 512 * 1024
"""How much of a file the operating system is asked to hand to a socket at a time."""

NUDGE_BYTES = 16 * 1024
"""What is left with the transport when a socket is full, so that the transport reports when there is room again."""


class Sender:
    """Writes responses to one transport. Its protocol says `pause` and `resume`; one `send` runs at a time.

    With the descriptor of a plain socket, and nothing waiting in the transport, bytes go to the socket directly and
    slices from file to socket without a copy. What the socket does not take goes through the transport, which says
    when it has left.
    """

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        *,
        chunk_bytes: int,
        read_slowly: ReadSlowly,
        descriptor: int | None = None,
    ) -> None:
        # Nothing may pile up in the transport: paused means that the last chunk has not left yet. One that encrypts
        # would take 0 for full at once.
        transport.set_write_buffer_limits(high=0 if descriptor is not None else 1, low=0)
        self._transport = transport
        self._descriptor = descriptor
        self._chunk_bytes = chunk_bytes
        self._read_slowly = read_slowly
        self._drained: asyncio.Future[None] | None = None
        self._turn_bytes = 0

    @property
    def blocked(self) -> bool:
        """Is the client slow to take what was sent?"""
        return self._drained is not None

    def pause(self) -> None:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def send_at_once(self, parts: Sequence[Part]) -> bool:
        """Send a small response that is all in memory; False if it is not, or if the client is slow."""
        ready: list[Buffer] = [part for part in parts if not isinstance(part, Slice)]
        if self._drained is not None or len(ready) < len(parts) or sum(map(len, ready)) > self._chunk_bytes:
            return False
        if self._descriptor is not None and self._idle:
            ready = _write_some(self._descriptor, ready)
        if ready:
            self._transport.writelines(ready)
        return True

    async def send(self, parts: Sequence[Part]) -> None:
        """Return when all of it is in the operating system's hands, or about to be."""
        chunk: list[Buffer] = []
        space = self._chunk_bytes
        for part in parts:
            if not isinstance(part, Slice):
                chunk.append(part)
                space -= len(part)
            elif self._descriptor is not None:
                await self._flush(chunk)
                chunk, space = [], self._chunk_bytes
                await self._hand_over(part, self._descriptor)
            else:
                position, end = part.position, part.position + part.length
                while position < end:
                    chunk.append(await self._read(part.file, position, min(end - position, space)))
                    position += len(chunk[-1])
                    space -= len(chunk[-1])
                    if space <= 0:
                        await self._flush(chunk)
                        chunk, space = [], self._chunk_bytes
            if space <= 0:
                await self._flush(chunk)
                chunk, space = [], self._chunk_bytes
        await self._flush(chunk)

    async def _hand_over(self, part: Slice, descriptor: int) -> None:
        """A slice of a file straight to the socket; read and written where that does not work."""
        position, end = part.position, part.position + part.length
        while position < end:
            sent = None
            if self._idle:
                sent = part.file.send_cached(descriptor, position, min(end - position, DIRECT_BYTES))
            if sent:
                position += sent
                await self._take_turns(sent)
                continue
            wanted = self._chunk_bytes if sent is None else NUDGE_BYTES
            data = await self._read(part.file, position, min(end - position, wanted))
            position += len(data)
            await self._flush([data])

    @property
    def _idle(self) -> bool:
        """Has everything left the transport, so that what goes to the socket directly comes in its order?

        A transport that is closing has given its descriptor back, maybe to another client already.
        """
        transport = self._transport
        return self._drained is None and not transport.is_closing() and transport.get_write_buffer_size() == 0

    async def _flush(self, chunk: list[Buffer]) -> None:
        if self._descriptor is not None and chunk and self._idle:
            chunk = _write_some(self._descriptor, chunk)
        if not chunk:
            return
        self._transport.writelines(chunk)
        if self._drained is not None:
            await self._drained
            self._turn_bytes = 0
            return
        await self._take_turns(sum(map(len, chunk)))

    async def _take_turns(self, sent: int) -> None:
        self._turn_bytes += sent
        if self._turn_bytes >= TURN_BYTES:
            self._turn_bytes = 0
            await asyncio.sleep(0)

    async def _read(self, file: File, position: int, length: int) -> Buffer:
        data: Buffer | None = file.read_cached(position, length)
        if not data:
            data = await self._read_slowly(file, position, length)
        if not data:
            # The header of the response has promised these bytes: nothing true can follow any more.
            raise ProtocolError(f"a file ended {length} bytes before the response that was sent from it")
        return data


def _write_some(descriptor: int, chunk: list[Buffer]) -> list[Buffer]:
    """Write what the socket takes; returns the rest."""
    try:
        sent = os.writev(descriptor, chunk)
    except OSError:  # full, or closed: the transport finds out which
        return chunk
    rest: list[Buffer] = []
    for part in chunk:
        if sent < len(part):
            rest.append(memoryview(part)[sent:])
        sent = max(0, sent - len(part))
    return rest
