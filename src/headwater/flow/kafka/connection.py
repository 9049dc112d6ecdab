"""One connection to one broker: a request out, its answer in, bounded in size and time.

request   int32 length, int16 api key, int16 version, int32 correlation id, string client id, body
answer    int32 length, int32 correlation id, body
"""

import ipaddress
import socket
import ssl
from collections import deque
from pathlib import Path
from typing import NamedTuple

from headwater.errors import InvalidSetting, LoginRefused, ProtocolError, UnavailableError
from headwater.flow.kafka.fields import Reader, int16, int32, string
from headwater.flow.kafka.messages import Request
from headwater.kafka_login import NO_LOGIN, KafkaLogin

ANSWER_BYTES_MAX = 256 * 1024**2
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """
    >>> parse_address("localhost:9092")
    Address(host='localhost', port=9092)
    >>> parse_address("[::1]:9092").host
    '::1'
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidSetting("address", text, "it must be HOST:PORT")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


class Broken(UnavailableError):
    """The connection ended before the answer came: whether the request was carried out is not known."""


class Connection:
    """Not thread-safe. After Broken or ProtocolError it is of no more use."""

    def __init__(
        self, address: Address, *, client_id: str, timeout_seconds: float, login: KafkaLogin = NO_LOGIN
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._correlation = 0
        self._expected: deque[int] = deque()
        try:
            self._socket = socket.create_connection(address, timeout=timeout_seconds)
        except OSError as error:
            raise UnavailableError(f"nothing answers at {address} ({error})") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if login.authority is not None:
                self._socket = encrypted(self._socket, address.host, login.authority)
            if login.user:
                self._log_in(login)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, login: KafkaLogin) -> None:
        """Only by PLAIN, so never over a network that is not encrypted. LoginRefused if it is not let in."""
        if login.authority is None and not is_loopback(self._socket.getpeername()[0]):
            raise LoginRefused(str(self.address), "a password is not sent without encryption; name its authority")
        try:
            password = login.password
        except OSError as error:
            raise LoginRefused(str(self.address), f"{login.password_file} cannot be read: {error.strerror}") from None
        if self.ask(Request(SASL_HANDSHAKE, 1, [string("PLAIN")])).int16():
            raise LoginRefused(str(self.address), "it does not take user and password (PLAIN)")
        token = b"\0".join([b"", login.user.encode(), password.encode()])
        answer = self.ask(Request(SASL_AUTHENTICATE, 0, [int32(len(token)), token]))
        if answer.int16():
            raise LoginRefused(str(self.address), f"user {login.user} or the password is wrong")

    def ask(self, request: Request) -> Reader:
        self.send(request)
        return self.receive()

    def send(self, request: Request) -> None:
        """Several may be under way; their answers come in the same order."""
        self._correlation = (self._correlation + 1) & 0x7FFF_FFFF
        head = int16(request.api_key) + int16(request.version) + int32(self._correlation) + string(self._client_id)
        length = len(head) + sum(len(part) for part in request.parts)
        try:
            for piece in _pieces([int32(length) + head, *request.parts]):
                self._socket.sendall(piece)
        except OSError as error:
            raise Broken(f"the connection to {self.address} broke ({error})") from None
        self._expected.append(self._correlation)

    def receive(self) -> Reader:
        length = Reader(self._exactly(4)).int32()
        if not 4 <= length <= ANSWER_BYTES_MAX:
            raise ProtocolError(f"{self.address} announces an answer of {length} bytes; is it a Kafka port?")
        reader = Reader(self._exactly(length))
        correlation = reader.int32()
        expected = self._expected.popleft()
        if correlation != expected:
            raise ProtocolError(f"{self.address} answered request {correlation} where {expected} was waiting")
        return reader

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, length: int) -> bytearray:
        content = bytearray(length)
        view, partition = memoryview(content), 0
        try:
            while partition < length:
                read = self._socket.recv_into(view[partition:])
                if read == 0:
                    raise Broken(f"{self.address} closed the connection")
                partition += read
        except OSError as error:
            raise Broken(f"the connection to {self.address} broke ({error})") from None
        return content


def encrypted(plain: socket.socket, host: str, authority: Path) -> socket.socket:
    """UnavailableError if the other side has no certificate of the authority for this name."""
    try:
        context = ssl.create_default_context(cafile=authority)
        return context.wrap_socket(plain, server_hostname=host)
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{host} cannot be reached with encryption ({error})") from None


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _pieces(parts: "list[bytes | bytearray | memoryview]") -> "list[bytes | bytearray | memoryview]":
    """Small parts joined into one packet; large ones as they are, not copied."""
    if sum(len(part) for part in parts) <= 65_536:
        return [b"".join(parts)]
    return parts
