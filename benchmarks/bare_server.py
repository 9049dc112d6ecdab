"""A server that only reads and answers: the floor under every broker that is written in Python.

`python -m benchmarks.bare_server` prints its address. It knows as much of Kafka's protocol as a producer needs
(ApiVersions 0, Metadata 4, Produce 3 to 7), keeps nothing, and says that everything went well.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import cast

from benchmarks.raw_protocol import text

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
# Fetch is claimed because librdkafka takes it as a sign that a broker knows today's record format.
CLAIMED = ((PRODUCE, 3, 7), (FETCH, 4, 11), (METADATA, 4, 4), (API_VERSIONS, 0, 0))
UNSUPPORTED_VERSION = 35
HEAD_BYTES = 512
"""Enough of a request to answer it; of a Produce request that means: one partition per request, as clients send."""


class BareServer(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(1024**2))
        self._head = bytearray()
        self._left = -1
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        place = 0
        while place < nbytes:
            if self._left < 0:
                place = self._read_length(place, nbytes)
                continue
            taken = min(nbytes - place, self._left)
            if len(self._head) < HEAD_BYTES:
                self._head += self._buffer[place : place + min(taken, HEAD_BYTES - len(self._head))]
            place += taken
            self._left -= taken
            if self._left == 0:
                self._answer()

    def _read_length(self, place: int, end: int) -> int:
        taken = min(end - place, 4 - len(self._head))
        self._head += self._buffer[place : place + taken]
        if len(self._head) == 4:
            self._left = int.from_bytes(self._head, "big")
            self._head.clear()
        return place + taken

    def _answer(self) -> None:
        assert self._transport is not None
        key, version, correlation, client_length = struct.unpack_from(">hhih", self._head)
        body = bytes(self._head[10 + max(0, client_length) :])
        host, port = self._transport.get_extra_info("sockname")[:2]
        answer = ANSWERS[key](body, version, host, port)
        self._transport.write(struct.pack(">ii", len(answer) + 4, correlation) + answer)
        self._head.clear()
        self._left = -1


def answer_produce(body: bytes, version: int, host: str, port: int) -> bytes:
    (transactional_length,) = struct.unpack_from(">h", body)
    place = 2 + max(0, transactional_length) + 6 + 4
    (name_length,) = struct.unpack_from(">h", body, place)
    name = body[place : place + 2 + name_length]
    (partition,) = struct.unpack_from(">i", body, place + 2 + name_length + 4)
    start = struct.pack(">q", 0) if version >= 5 else b""
    stored = struct.pack(">iihqq", 1, partition, 0, 0, -1)
    return struct.pack(">i", 1) + name + stored + start + struct.pack(">i", 0)


def answer_metadata(body: bytes, version: int, host: str, port: int) -> bytes:
    """Every topic that is asked for exists; the number behind its last hyphen is how many partitions it has."""
    (count,) = struct.unpack_from(">i", body)
    place, topics = 4, b""
    for _ in range(max(0, count)):
        (length,) = struct.unpack_from(">h", body, place)
        name = body[place + 2 : place + 2 + length].decode()
        partitions = int(name.rpartition("-")[2])
        described = b"".join(
            struct.pack(">hii", 0, index, 1) + struct.pack(">iiii", 1, 1, 1, 1) for index in range(partitions)
        )
        topics += struct.pack(">h", 0) + text(name) + struct.pack(">bi", 0, partitions) + described
        place += 2 + length
    broker = struct.pack(">ii", 1, 1) + text(host) + struct.pack(">ih", port, -1)
    cluster = text("bare") + struct.pack(">i", 1)
    return struct.pack(">i", 0) + broker + cluster + struct.pack(">i", max(0, count)) + topics


def answer_api_versions(body: bytes, version: int, host: str, port: int) -> bytes:
    error = 0 if version == 0 else UNSUPPORTED_VERSION
    claimed = b"".join(struct.pack(">hhh", *claim) for claim in CLAIMED)
    return struct.pack(">hi", error, len(CLAIMED)) + claimed


ANSWERS: dict[int, Callable[[bytes, int, str, int], bytes]] = {
    PRODUCE: answer_produce,
    METADATA: answer_metadata,
    API_VERSIONS: answer_api_versions,
}


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(BareServer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(serve())
    except ImportError:
        asyncio.run(serve())
