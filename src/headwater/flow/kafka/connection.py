"""One connection to one broker: a request out, its answer in, bounded in size and time.

request   int32 length, int16 api key, int16 version, int32 correlation id, string client id, body
answer    int32 length, int32 correlation id, body

Messages of the newer form have tagged fields behind their heads; we send none, and skip what comes.
"""

import ipaddress
import secrets
import socket
import ssl
from collections import deque
from typing import NamedTuple

from headwater.errors import InvalidSetting, LoginRefused, ProtocolError, UnavailableError
from headwater.flow.kafka import sasl
from headwater.flow.kafka.fields import NO_TAGS, Reader, int16, int32, string
from headwater.flow.kafka.messages import Request
from headwater.kafka_login import CERTIFICATE, KEY, NO_LOGIN, OAUTHBEARER, KafkaLogin

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
        raise InvalidSetting("address", text, "it must be HOST:PORT, or several divided by commas")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Brokers of one cluster to begin with.

    >>> [str(one) for one in parse_addresses("a:9092, [::1]:9093")]
    ['a:9092', '[::1]:9093']
    """
    return tuple(dict.fromkeys(parse_address(one) for one in text.split(",")))


class Unreachable(UnavailableError):
    """Nothing answers there, or not as it should: no request was sent."""


class Broken(UnavailableError):
    """The connection ended before the answer came: whether the request was carried out is not known."""


class Connection:
    """Not thread-safe. After Broken or ProtocolError it is of no more use."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_seconds: float,
        connect_seconds: float | None = None,
        login: KafkaLogin = NO_LOGIN,
    ) -> None:
        """How long an answer may take, and how long the connection (as long, unless said otherwise).

        LoginRefused, UnavailableError."""
        if login.misfit:
            raise LoginRefused(str(address), login.misfit)
        self.address, self._login = address, login
        self._client_id = client_id
        self._correlation, self._answered = 0, False
        self._expected: deque[tuple[int, bool]] = deque()
        try:
            self._socket = socket.create_connection(address, timeout=connect_seconds or timeout_seconds)
        except OSError as error:
            raise Unreachable(f"nothing answers at {address} ({error})") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if login.authority is not None:
                self._socket = encrypted(self._socket, address.host, login)
            if login.logs_in:
                self._log_in(login)
            self._socket.settimeout(timeout_seconds)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, login: KafkaLogin) -> None:
        """By PLAIN and OAUTHBEARER never over a network that is not encrypted. LoginRefused if it is not let in."""
        secret_is_sent = login.mechanism not in sasl.SCRAM_DIGESTS
        if secret_is_sent and login.authority is None and not is_loopback(self._socket.getpeername()[0]):
            what = "a token" if login.mechanism == OAUTHBEARER else "a password"
            raise LoginRefused(str(self.address), f"{what} is not sent without encryption; name its authority")
        exchange = self._exchange(login)
        if self.ask(Request(SASL_HANDSHAKE, 1, [string(login.mechanism)])).int16():
            what = "user and password (PLAIN)" if login.mechanism == "PLAIN" else login.mechanism
            raise LoginRefused(str(self.address), f"it does not take {what}")
        try:
            ours = next(exchange)
            while True:
                answer = self.ask(Request(SASL_AUTHENTICATE, 0, [int32(len(ours)), ours]))
                if answer.int16():
                    raise LoginRefused(str(self.address), _refused(login))
                answer.nullable_string()
                ours = exchange.send(bytes(answer.bytes()))
        except StopIteration:
            return
        except sasl.Impostor as error:
            raise LoginRefused(str(self.address), str(error)) from None

    def _exchange(self, login: KafkaLogin) -> sasl.Exchange:
        file = login.token_file if login.mechanism == OAUTHBEARER else login.password_file
        try:
            if login.mechanism == OAUTHBEARER:
                return sasl.bearer(login.token)
            if login.mechanism in sasl.SCRAM_DIGESTS:
                return sasl.scram(login.mechanism, login.user, login.password, lambda: secrets.token_urlsafe(24))
            return sasl.plain(login.user, login.password)
        except OSError as error:
            raise LoginRefused(str(self.address), f"{file} cannot be read: {error.strerror}") from None

    def ask(self, request: Request) -> Reader:
        self.send(request)
        return self.receive()

    def send(self, request: Request) -> None:
        """Several may be under way; their answers come in the same order."""
        self._correlation = (self._correlation + 1) & 0x7FFF_FFFF
        head = int16(request.api_key) + int16(request.version) + int32(self._correlation) + string(self._client_id)
        head += NO_TAGS if request.flexible else b""
        length = len(head) + sum(len(part) for part in request.parts)
        try:
            for piece in _pieces([int32(length) + head, *request.parts]):
                self._socket.sendall(piece)
        except OSError as error:
            raise Broken(f"the connection to {self.address} broke ({error})") from None
        self._expected.append((self._correlation, request.flexible))

    def receive(self) -> Reader:
        length = Reader(self._exactly(4)).int32()
        if not 4 <= length <= ANSWER_BYTES_MAX:
            raise ProtocolError(f"{self.address} announces an answer of {length} bytes; is it a Kafka port?")
        reader = Reader(self._exactly(length))
        correlation = reader.int32()
        expected, flexible = self._expected.popleft()
        if correlation != expected:
            raise ProtocolError(f"{self.address} answered request {correlation} where {expected} was waiting")
        if flexible:
            reader.skip_tags()
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
                    raise Broken(_closed(self.address, self._login, answered=self._answered))
                partition += read
        except OSError as error:
            raise Broken(_broken(self.address, self._login, error)) from None
        self._answered = True
        return content


def encrypted(plain: socket.socket, host: str, login: KafkaLogin) -> socket.socket:
    """LoginRefused if one of our files is no certificate or key; UnavailableError if the other side has no certificate
    of the authority for this name, or does not take ours."""
    try:
        context = ssl.create_default_context(cafile=login.authority)
    except (OSError, ValueError) as error:
        raise LoginRefused(host, f"{login.authority} is no authority in PEM ({error})") from None
    if login.certificate is not None:
        try:
            context.load_cert_chain(login.certificate, login.key)
        except (OSError, ValueError) as error:
            raise LoginRefused(host, f"{login.certificate} and {login.key} are no pair in PEM ({error})") from None
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except (OSError, ValueError) as error:
        raise Unreachable(f"{host} cannot be reached with encryption ({error})") from None


def _closed(address: Address, login: KafkaLogin, *, answered: bool) -> str:
    """A port that does not accept a certificate may say no more than this."""
    if answered or login.authority is None or login.logs_in:
        return f"{address} closed the connection"
    if login.certificate is None:
        return f"{address} closed the connection: it wants a certificate; {CERTIFICATE} and {KEY} name the files of one"
    return f"{address} closed the connection: it does not accept the certificate {login.certificate}: is it expired?"


def _broken(address: Address, login: KafkaLogin, error: OSError) -> str:
    """Who does not accept a certificate says so only when it is asked something."""
    alert = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "CERTIFICATE_REQUIRED" in alert or (login.certificate is None and "ALERT_BAD_CERTIFICATE" in alert):
        return f"{address} wants a certificate; {CERTIFICATE} and {KEY} name the files of one"
    if login.certificate is not None and "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert):
        why = "it has expired" if "EXPIRED" in alert else "is it expired, or of an authority that it does not know?"
        return f"{address} does not accept the certificate {login.certificate}: {why}"
    return f"the connection to {address} broke ({error})"


def _refused(login: KafkaLogin) -> str:
    if login.mechanism == OAUTHBEARER:
        return f"the token in {login.token_file} is not accepted: is it expired, or meant for another audience?"
    return f"user {login.user} or the password is wrong"


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _pieces(parts: "list[bytes | bytearray | memoryview]") -> "list[bytes | bytearray | memoryview]":
    """Small parts joined into one packet; large ones as they are, not copied."""
    if sum(len(part) for part in parts) <= 65_536:
        return [b"".join(parts)]
    return parts
