"""What hostile clients do, one operation at a time: against the Kafka port and the HTTP port of a node.

An attacker is a process with a seed. It keeps some connections of each kind open and takes them in turns, so that most
operations are one write. A connection has its turn when the node has answered on it or closed it, or after a while: no
operation is spent on a connection that is closed already, and what is sent is what the node has looked at. Nothing it
sends names the topics of the good client, and nothing creates topics: what a client may store for good is not an attack
on memory.
"""

import dataclasses
import gzip
import json
import random
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

from kio.index import load_request_schema

from headwater.log.batch_format import encode_batch
from headwater.record import Record
from headwater.wire.protocol.entities import default_of, shape_of
from headwater.wire.routes import ROUTES
from tests.wire.raw_client import batch, request_frame
from tests.wire.requests import fetch, produce

MIB = 1024**2
VICTIM = "victim"
QUIET_SECONDS = 2.0
TRICKLES_MAX, HALF_OPEN_MAX, DEAF_MAX = 4, 40, 15
ASKING_MAX, READING_MAX = 24, 24
ANSWER_SECONDS, PAGE_SECONDS = 0.05, 0.2
"""How long an answer is waited for: a fetch that waits for records, or half a request, has none."""
LASTING = {"create_topics", "create_partitions", "delete_topics"}
"""APIs that make or remove what lasts: sent as garbage only."""


class Target(NamedTuple):
    kafka: tuple[str, int]
    http: tuple[str, int]


class Waiting(NamedTuple):
    """A connection on which something was sent."""

    connection: socket.socket
    since: float

    def connection_after(self, seconds: float) -> socket.socket:
        """When the node has answered or closed it, or after so long."""
        left = self.since + seconds - time.monotonic()
        if left > 0:
            select.select([self.connection], [], [], left)
        return self.connection


class Attacker:
    def __init__(self, target: Target, seed: int, bombs: Sequence[bytes]) -> None:
        self.target, self.dice = target, random.Random(seed)
        self.done: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        """Operations that ended with a connection closed by the node, or not opened: allowed, and counted."""
        self._asking: deque[Waiting] = deque()
        self._trickles: list[socket.socket] = []
        self._half_open: list[socket.socket] = []
        self._deaf: list[socket.socket] = []
        self._reading: deque[Waiting] = deque()
        self._frames = corpus()
        self._bombs = bombs
        attacks: tuple[tuple[int, Callable[[], None]], ...] = (
            (700, self.mutated), (130, self.garbage), (10, self.bomb), (40, self.trickle), (50, self.half_open),
            (10, self.deaf), (5, self.many_names), (33, self.http_garbage), (22, self.http_read),
        )  # fmt: skip
        self._attacks = [attack for _, attack in attacks]
        self._weights = list(accumulate(weight for weight, _ in attacks))

    def one(self) -> None:
        """One operation. Whatever the node does to the connection is its right; this process must only go on."""
        (attack,) = self.dice.choices(self._attacks, cum_weights=self._weights)
        name = attack.__name__
        self.done[name] = self.done.get(name, 0) + 1
        try:
            attack()
        except OSError:
            self.failed[name] = self.failed.get(name, 0) + 1

    def close(self) -> None:
        waiting = [one.connection for one in (*self._asking, *self._reading)]
        for connection in (*waiting, *self._trickles, *self._half_open, *self._deaf):
            connection.close()

    # -- the Kafka port ----------------------------------------------------------------------------------------------

    def mutated(self) -> None:
        """A request that was sound, changed in a few bytes; its length fits, so that it is looked at."""
        frame = bytearray(self.dice.choice(self._frames)[4:])
        for _ in range(self.dice.choice((0, 1, 1, 2, 3, 8))):
            _mutate(frame, self.dice)
        self._ask(struct.pack(">i", len(frame)) + frame)

    def garbage(self) -> None:
        route = self.dice.choice(ROUTES)
        start = struct.pack(">hhih", route.api_key, self.dice.choice(route.versions), 1, -1)
        body = start + self.dice.randbytes(self.dice.randrange(400))
        length = self.dice.choice((len(body), len(body), len(body), -1, 2**31 - 1, 0, 5))
        self._ask(struct.pack(">i", length) + body)

    def bomb(self) -> None:
        self._ask(self.dice.choice(self._bombs))

    def many_names(self) -> None:
        """Thousands of topics that do not exist, and one request that wants to know everything of them."""
        count = self.dice.choice((10, 500, 5000))
        names = self.dice.randbytes(8 * count).hex().encode()
        topics = b"".join([b"\x11%b\0" % names[position : position + 16] for position in range(0, len(names), 16)])
        head = struct.pack(">hhih", 3, 9, 1, -1) + b"\0" + _varint(count + 1)
        body = head + topics + b"\0\1\1\0"  # no topic is to be created, all rights are requested
        self._ask(struct.pack(">i", len(body)) + body)

    def _ask(self, data: bytes) -> None:
        """Send on the connection that waits for longest, after taking what came back on it; on another if it ended."""
        if len(self._asking) < ASKING_MAX:
            asking = self._connected(self.target.kafka)
        else:
            asking = self._asking.popleft().connection_after(ANSWER_SECONDS)
            if not _taken(asking):
                self.failed["earlier request"] = self.failed.get("earlier request", 0) + 1
                asking.close()
                asking = self._connected(self.target.kafka)
        try:
            asking.settimeout(QUIET_SECONDS)
            asking.sendall(data)
        except OSError:
            asking.close()
            raise
        self._asking.append(Waiting(asking, time.monotonic()))

    def trickle(self) -> None:
        """A request of 95 MiB begins; each later operation brings a few bytes of one that has begun."""
        if len(self._trickles) < TRICKLES_MAX:
            fresh = self._connected(self.target.kafka)
            self._trickles.append(fresh)
            fresh.sendall(struct.pack(">ihhih", 95 * MIB, 0, 9, 1, -1))
            fresh.setblocking(False)
            with suppress(BlockingIOError):
                fresh.send(bytes(self.dice.choice((100, MIB, 8 * MIB))))
            return
        self._poke(self._trickles, b"x")

    def half_open(self) -> None:
        """A connection that says nothing, or less than a length; many are left, some are reset."""
        fresh = self._connected(self.dice.choice(self.target))
        self._half_open.append(fresh)
        fresh.sendall(self.dice.randbytes(self.dice.randrange(4)))
        if len(self._half_open) > HALF_OPEN_MAX:
            dropped = self._half_open.pop(self.dice.randrange(len(self._half_open)))
            if self.dice.random() < 0.5:
                dropped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            dropped.close()

    def deaf(self) -> None:
        """Ask for all topics, or all records, again and again, and read nothing."""
        if len(self._deaf) < DEAF_MAX:
            fresh = self._connected(self.target.kafka, receive_bytes=4096)
            fresh.setblocking(False)
            self._deaf.append(fresh)
        frame = self.dice.choice((ALL_TOPICS, request_frame(fetch(VICTIM, {0: 0}))))
        self._poke(self._deaf, frame * self.dice.choice((1, 20)))

    def _poke(self, pool: list[socket.socket], data: bytes) -> None:
        chosen = self.dice.choice(pool)
        try:
            chosen.send(data)
        except BlockingIOError:
            pass
        except OSError:
            pool.remove(chosen)
            chosen.close()
            raise

    # -- the HTTP port -----------------------------------------------------------------------------------------------

    def http_garbage(self) -> None:
        garbage = self.dice.choice(HTTP_GARBAGE)
        self._post(garbage if isinstance(garbage, bytes) else garbage(self.dice))

    def http_read(self) -> None:
        offset, limit = self.dice.choice((0, -1, -50, 10**15, 7)), self.dice.choice((1, 1000, 0, 10**9))
        path = self.dice.choice((
            f"/topics/{VICTIM}/records?offset={offset}&limit={limit}", f"/topics/{VICTIM}/records?time_ms=1",
            "/topics", "/metrics", "/groups", "/subjects", "/nothing", "/topics/%00/records", "/openapi.json",
        ))  # fmt: skip
        self._post(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    def _post(self, data: bytes) -> None:
        """Most are read, as much as comes within a while; some are closed at once."""
        sender = self._connected(self.target.http)
        try:
            sender.sendall(data)
        except OSError:
            sender.close()
            raise
        if self.dice.random() < 0.3:
            sender.close()
            return
        self._reading.append(Waiting(sender, time.monotonic()))
        if len(self._reading) > READING_MAX:
            oldest = self._reading.popleft().connection_after(PAGE_SECONDS)
            _taken(oldest)
            oldest.close()

    def _connected(self, address: tuple[str, int], *, receive_bytes: int = 0) -> socket.socket:
        fresh = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        fresh.settimeout(QUIET_SECONDS)
        if receive_bytes:
            fresh.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            fresh.connect(address)
        except OSError:
            fresh.close()
            raise
        return fresh


def _taken(connection: socket.socket) -> bool:
    """Take what has come; False if the node has closed the connection."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 20):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _varint(number: int) -> bytes:
    """
    >>> _varint(5001).hex()
    '8927'
    """
    head = b""
    while number > 127:
        head += bytes([number & 127 | 128])
        number >>= 7
    return head + bytes([number])


def _mutate(frame: bytearray, dice: random.Random) -> None:
    """One byte is changed, after the API's key and version in most cases."""
    position = dice.randrange(0 if dice.random() < 0.05 else min(8, len(frame) - 1), len(frame))
    match dice.randrange(6):
        case 0:
            frame[position] ^= 1 << dice.randrange(8)
        case 1:
            frame[position : position + 4] = struct.pack(">i", dice.choice((-1, -2, 0, 2**31 - 1, -(2**31), 10**6)))
        case 2:
            frame[position : position + 5] = b"\xff\xff\xff\xff\x0f"
        case 3:
            frame[position:position] = dice.randbytes(dice.randrange(1, 9))
        case 4:
            del frame[max(position, 12) :]
        case 5:
            frame[position : position + 8] = struct.pack(">q", dice.choice((-1, 2**63 - 1, -(2**63), 2**32)))


def corpus() -> list[bytes]:
    """A sound request of every version of every API, but of those that make or remove what lasts."""
    frames = []
    for route in ROUTES:
        for version in route.versions:
            if route.name in LASTING:
                continue
            if route.api_key in (0, 1):
                topic: Any = UUID(int=7) if version >= 13 else VICTIM
                frames.append(request_frame(
                    produce(topic, batch(b"some value"), version=version, acks=1) if route.api_key == 0
                    else fetch(topic, {0: 0}, version=version)
                ))  # fmt: skip
                continue
            frames.append(request_frame(_smallest(load_request_schema(route.api_key, version))))
    return frames


def _smallest(entity_type: Any) -> Any:
    """An entity with one element in each array, and the victim's name wherever there is a text."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity_type):
        shape, kind = shape_of(field.type), field.metadata.get("kafka_type")
        if kind is None:
            one = _smallest(shape.inner)
        elif kind == "string":
            one = VICTIM
        else:
            one = default_of(field) if not shape.array else 0
            one = {"timedelta_i32": timedelta(seconds=6), "timedelta_i64": timedelta(seconds=6)}.get(str(kind), one)
            one = b"" if kind in ("bytes", "records") else one
        values[field.name] = (one,) if shape.array else one
    return entity_type(**values)


def bombs() -> list[bytes]:
    """Requests that bring small batches which unpack to a great deal, in every codec, or claim to."""
    frames = []
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        for size in (MIB, 20 * MIB, 160 * MIB):
            packed = encode_batch([Record(bytes(size), timestamp_ms=1_700_000_000_000)], compression=codec)
            if len(packed) < MIB:
                frames.append(request_frame(produce(VICTIM, bytes(packed), acks=1)))
    return frames


ALL_TOPICS = request_frame(load_request_schema(3, 1)(topics=None))  # type: ignore[call-arg]


def _head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def _json_post(path: str, body: bytes, *headers: str) -> bytes:
    return _head("POST", path, "Content-Type: application/json", f"Content-Length: {len(body)}", *headers) + body


def _schema_post(subject: str, said: Any) -> bytes:
    return _json_post(
        f"/subjects/{subject}/versions", json.dumps({"schemaType": "JSON", "schema": json.dumps(said)}).encode()
    )


def _slow_pattern(dice: random.Random) -> bytes:
    """A pattern that takes exponential or cubic time in an engine that goes back, and names for it to try; they lie in
    one subject, so that each is compared with the one before. The names do not match: so it may not be registered."""
    pattern = dice.choice(("^a*a*a*b$", "^(a+)+$", "^(a|a)*$", "^(.*)*x$"))
    names = {"a" * dice.choice((30, 3000, 100_000)) + "!": {"type": dice.choice(("string", "integer"))}}
    content = {"patternProperties": {pattern: {"type": "string"}}} if dice.random() < 0.5 else {"properties": names}
    return _schema_post(f"slow-{dice.randrange(3)}", {"type": "object", **content})


def _many_choices(dice: random.Random) -> bytes:
    """Two thousand choices, each of which may be one of two thousand in the version before."""
    word = dice.choice(("const", "enum"))
    kinds = [{word: number if word == "const" else [number]} for number in range(2000)]
    return _schema_post("choices", {"oneOf": kinds})


HTTP_GARBAGE: tuple[bytes | Callable[[random.Random], bytes], ...] = (
    lambda dice: dice.randbytes(dice.randrange(1, 2000)),
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000,
    _head("GET", "/" + "a" * 70_000),
    _head("POST", "/topics/victim", "Content-Length: 99999999999") + bytes(1000),
    _head("POST", "/topics/victim", "Content-Length: -1") + b"x",
    _head("POST", "/topics/victim", "Content-Length: 3000000") + bytes(100_000),
    _head("POST", "/topics/victim", "Transfer-Encoding: chunked") + b"fffffffffffffff\r\n",
    _json_post("/topics/victim", gzip.compress(bytes(3 * MIB)), "Content-Encoding: gzip"),
    _json_post("/topics/victim", b"[" * 100_000),
    _json_post("/subjects/s/versions", b'{"schema": "' + b"{" * 5000 + b'"}'),
    _slow_pattern,
    _many_choices,
    _head("GET", "/topics/victim/live", "Upgrade: websocket", "Connection: Upgrade",
          "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    + b"\x82\xff" + b"\x7f" * 200,
    lambda dice: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(200),
)  # fmt: skip
