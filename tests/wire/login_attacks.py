"""What hostile clients do to a port before they have logged in, one operation at a time."""

import random
import select
import socket
import ssl
import struct
from collections.abc import Callable
from typing import NamedTuple

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from tests.waiting import LONG
from tests.wire.fuzz_attacks import _mutate, corpus
from tests.wire.logins import token
from tests.wire.raw_client import request_frame

ANSWER_SECONDS = 0.02
KEPT_MAX = 200
FIRST_SCRAM = b"n,,n=alice,r=abcdefghijklmnop"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
TOKENS = (
    FIRST_SCRAM, token("alice", "wrong password"), b"", b"\0" * 40, b"c=biws,r=abc,p=AAAA", bytes(9000),
)  # fmt: skip
LOGINS = [
    *[request_frame(SaslHandshakeRequest(mechanism=name)) for name in MECHANISMS],
    *[request_frame(SaslAuthenticateRequest(auth_bytes=said)) for said in TOKENS],
]


def client_hello() -> bytes:
    """The first record of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        secure.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Address(NamedTuple):
    host: str
    port: int


class LoginAttacker:
    """Every operation is one connection, or one more write on a connection that is kept."""

    def __init__(self, address: Address, seed: int, *, encrypted: bool) -> None:
        self._address, self._dice, self._encrypted = address, random.Random(seed), encrypted
        self._frames = [*corpus(), *LOGINS * 40]
        self._kept: list[socket.socket] = []
        self.done = 0

    def one(self) -> None:
        attacks: list[Callable[[], None]] = [self.half_open, self.cut_hello, self.mutated_hello]
        if not self._encrypted:
            attacks = [self.half_open, self.mutated, self.mutated, self.mutated, self.login_sequence]
        self.done += 1
        try:
            self._dice.choice(attacks)()
        except OSError:
            pass  # the node has closed the connection, which is its right

    def close(self) -> None:
        for one in self._kept:
            one.close()
        self._kept.clear()

    def half_open(self) -> None:
        fresh = self._connected()
        fresh.sendall(self._dice.randbytes(self._dice.randrange(4)))
        self._keep(fresh)

    def mutated(self) -> None:
        self._say([self._mutated(self._dice.choice(self._frames))])

    def login_sequence(self) -> None:
        """Steps of a login in any order, now and then with a changed byte."""
        frames = [self._dice.choice(LOGINS) for _ in range(self._dice.randrange(1, 5))]
        self._say([self._mutated(one) if self._dice.random() < 0.3 else one for one in frames])

    def cut_hello(self) -> None:
        hello = client_hello()
        self._say([hello[: self._dice.randrange(len(hello))]])

    def mutated_hello(self) -> None:
        hello = bytearray(client_hello())
        for _ in range(self._dice.choice((1, 2, 8))):
            hello[self._dice.randrange(len(hello))] ^= 1 << self._dice.randrange(8)
        self._say([bytes(hello), self._dice.randbytes(self._dice.randrange(300))])

    def _mutated(self, frame: bytes) -> bytes:
        body = bytearray(frame[4:])
        for _ in range(self._dice.choice((0, 1, 1, 2, 8))):
            _mutate(body, self._dice)
        length = len(body) if self._dice.random() < 0.9 else self._dice.choice((-1, 0, 2**31 - 1, 70_000, 2**20))
        return struct.pack(">i", length) + bytes(body)

    def _say(self, parts: list[bytes]) -> None:
        fresh = self._connected()
        try:
            for part in parts:
                fresh.sendall(part)
                if select.select([fresh], [], [], ANSWER_SECONDS)[0] and not fresh.recv(65536):
                    break
        except OSError:
            fresh.close()
            raise
        if self._dice.random() < 0.3:
            self._keep(fresh)
        else:
            fresh.close()

    def _keep(self, fresh: socket.socket) -> None:
        self._kept.append(fresh)
        if len(self._kept) > KEPT_MAX:
            self._kept.pop(self._dice.randrange(KEPT_MAX)).close()

    def _connected(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=LONG)
