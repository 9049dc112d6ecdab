"""One POST: to an address that was checked, within a time that was set."""

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from headwater.clock import Clock, SystemClock
from headwater.errors import UsageError
from headwater.secret_urls import ambiguity
from headwater.webhooks.addresses import refusal

_logger = logging.getLogger(__name__)

PORTS = {"http": 80, "https": 443}
# Not now, or not so fast: everything else between 400 and 499 says that the same request is never taken.
TRY_AGAIN = {408, 409, 423, 425, 429}
RETRY_AFTER_MAX_SECONDS = 3600

DELIVERED, FAILED, REFUSED = "delivered", "failed", "refused"


class Answer(NamedTuple):
    """The outcome of a delivery. `failed` may be retried, `refused` not."""

    outcome: str
    said: str
    status: int | None = None
    retry_after_seconds: float | None = None


Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order in which to try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def in_time(look_up: Callable[[], Sequence[str]], seconds: float) -> Sequence[str]:
    """What is looked up, or TimeoutError: a name server that does not answer keeps us for as long as it likes, and
    Python has no way to end that. The thread that waits for it is abandoned and ends with it."""
    found: Future[Sequence[str]] = Future()

    def look() -> None:
        try:
            found.set_result(look_up())
        except (OSError, UnicodeError) as error:
            found.set_exception(error)

    threading.Thread(target=look, name="headwater-name-look-up", daemon=True).start()
    return found.result(seconds)


@dataclass(frozen=True)
class Sender:
    """Posts to one URL. May be used from several threads."""

    url: str = field(repr=False)
    timeout_seconds: float = 10.0
    """For all of it: the name, the connection, the answer."""
    allow_private: bool = False
    resolve: Resolve = resolve
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_url(self.url)

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Never raises for what the other side does, or does not."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        until = Until(self.clock, self.timeout_seconds)
        try:
            addresses = in_time(lambda: self.resolve(host, port), self.timeout_seconds)
        except (OSError, UnicodeError) as error:
            return Answer(FAILED, f"{host} has no address: {str(error) or 'the name server does not answer'}")
        if why := refusal(host, addresses, allow_private=self.allow_private):
            return Answer(REFUSED, why)
        connection = Pinned(host, port, addresses, tls=parts.scheme == "https", until=until)
        return self._send(parts, connection, body, headers)

    def _send(self, parts: SplitResult, connection: "Pinned", body: bytes, headers: Mapping[str, str]) -> Answer:
        ending = threading.Timer(connection.until.seconds_left(), connection.cut)
        ending.daemon = True
        ending.start()
        try:
            target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
            agent = {"user-agent": f"headwater/{version('headwater')}", "connection": "close"}
            connection.request("POST", target, body, {**agent, **headers})
            return outcome_of(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            if connection.was_cut or isinstance(error, TimeoutError):
                return Answer(FAILED, f"no answer within {self.timeout_seconds:g} seconds")
            return Answer(FAILED, f"{type(error).__name__}: {error}"[:300])
        finally:
            ending.cancel()
            connection.close()


class Until:
    """A moment up to which something may take."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._end_ms = clock, clock.elapsed_ms() + 1000 * seconds

    def seconds_left(self) -> float:
        """Never none at all: a socket that may not wait at all is another kind of socket."""
        return max(0.001, (self._end_ms - self._clock.elapsed_ms()) / 1000)


class Pinned(http.client.HTTPConnection):
    """Goes to one of some addresses whatever the name means by now; speaks, and checks certificates, under the name."""

    def __init__(self, host: str, port: int, addresses: Sequence[str], *, tls: bool, until: Until) -> None:
        # http.client writes the host header: without the port where it is the scheme's own.
        super().__init__(host, port, timeout=until.seconds_left())
        self.default_port = PORTS["https" if tls else "http"]
        self.until, self._addresses, self._tls = until, addresses, tls
        self.was_cut = False

    def connect(self) -> None:
        """To the first address that answers. Each may take its share of the time, so that one which is silent leaves
        the others theirs."""
        failed = OSError("the name has no address")
        for number, address in enumerate(self._addresses):
            try:
                return self._connect_to(address, self.until.seconds_left() / (len(self._addresses) - number))
            except OSError as error:
                failed = error
                self._hang_up()
                if self.was_cut:
                    break
        raise failed

    def _connect_to(self, address: str, seconds: float) -> None:
        self.sock = socket.create_connection((address, self.port), timeout=seconds)
        if self._tls:
            # Wrapping takes the connection away from the socket that `cut` knows: only when it knows the new one may
            # the handshake begin, which the other side can draw out.
            wrapped = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock = wrapped
            self._raise_if_cut()
            wrapped.do_handshake()
        self._raise_if_cut()
        self.sock.settimeout(self.until.seconds_left())

    def _hang_up(self) -> None:
        # `close` would also forget the request, which the next address is to get.
        opened: Any = self.sock
        if opened is not None:
            self.sock = None
            opened.close()

    def _raise_if_cut(self) -> None:
        """After `sock` was set: `cut` sees the socket, or this sees that it was cut."""
        if self.was_cut:
            raise TimeoutError

    def cut(self) -> None:
        """Abort the current delivery; called from another thread."""
        self.was_cut = True
        opened: Any = self.sock
        if opened is not None:
            try:
                # Not that of a TLS socket, which would go on in plain text if it could.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)
            except OSError:
                pass  # it has just ended by itself, or `connect` sees that it was cut


def outcome_of(response: http.client.HTTPResponse) -> Answer:
    status = response.status
    if 200 <= status < 300:
        return Answer(DELIVERED, f"{status} {response.reason}"[:100], status)
    if 300 <= status < 400:
        where = (response.getheader("location") or "nowhere")[:200]
        return Answer(REFUSED, f"it answers {status} and sends us to {where}; redirects are not followed", status)
    if status >= 500 or status in TRY_AGAIN:
        return Answer(FAILED, f"it answers {status} {response.reason}"[:100], status, _retry_after(response))
    return Answer(REFUSED, f"it answers {status} {response.reason}, and would do so again"[:150], status)


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    said = (response.getheader("retry-after") or "").strip()
    return min(float(said), RETRY_AFTER_MAX_SECONDS) if said.isascii() and said.isdigit() else None


def check_url(url: str) -> None:
    """UsageError unless it can be posted to. The message does not repeat it: a webhook's URL is often a secret.

    >>> check_url("https://hooks.example/alerts")
    """
    try:
        parts = urlsplit(url)
        fits = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
        secret = parts.username is not None
    except ValueError:
        fits = secret = False
    if fits and not secret and (why := ambiguity(url)):
        raise UsageError(f"a webhook's URL {why}; write @ as %40, and every other sign that could be misread as %XX")
    if not fits:
        raise UsageError("a webhook's URL must be http://HOST/... or https://HOST/..., and this one is not")
    if secret:
        raise UsageError("a webhook's URL has a user in it; sign with secret= instead")
    if any(ord(sign) <= 32 or ord(sign) > 126 for sign in url):
        raise UsageError("a webhook's URL has a space or a letter in it that must be written as %XX")
