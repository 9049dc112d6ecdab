"""What stands before every service on the HTTP port: who asks, how much, how slowly."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from starlette.types import ASGIApp

from headwater.node import Node
from headwater.serve import http
from headwater.serve.bodies import Bodies
from headwater.serve.http import build_app, server_of
from headwater.serve.services import routes_of
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.serve.asgi import HOST, ask, asked
from tests.waiting import LONG

SETTINGS = HttpSettings(request_bytes_max=100, requests_bytes_max=150, request_timeout=timedelta(seconds=0.2))


class Echo:
    """Answers what it was asked."""

    roots = ("echo",)

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        self.calls += 1
        return 200, {"method": method, "path": list(path), "query": dict(query), "body": body.decode()}


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def bodies() -> Bodies:
    return Bodies(SETTINGS)


@pytest.fixture
def app(echo: Echo, bodies: Bodies) -> ASGIApp:
    return build_app(routes_of(echo, bodies, content_type="application/json"), SETTINGS)


def test_a_service_is_given_the_parts_of_the_path_decoded_one_by_one(app: ASGIApp) -> None:
    said = asked(app, "POST", "/echo/a%2Fb/c%20d?x=1&y=%C3%A4", chunks=[b"he", b"llo"])
    assert said.status == 200
    assert said.json == {
        "method": "POST",
        "path": ["echo", "a/b", "c d"],
        "query": {"x": "1", "y": "ä"},
        "body": "hello",
    }


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"evil.example")],
        [HOST, (b"host", b"evil.example")],
        [HOST, (b"origin", b"http://evil.example")],
        [HOST, (b"origin", b"http://localhost"), (b"origin", b"http://evil.example")],
    ],
)
def test_a_forbidden_request_is_refused_and_nothing_is_done(
    app: ASGIApp, echo: Echo, headers: list[tuple[bytes, bytes]]
) -> None:
    assert asked(app, "POST", "/echo", headers=headers).status == 403
    assert echo.calls == 0


def test_a_body_that_is_said_to_be_too_long_is_refused_before_it_is_read(app: ASGIApp, echo: Echo) -> None:
    pieces = iter([b"x" * 101])
    for said in (b"101", b"9" * 5000, b"-1", b"many"):
        answer = asked(app, "POST", "/echo", headers=[HOST, (b"content-length", said)], chunks=pieces)
        assert (answer.status, answer.json["message"]) == (413, "the request is larger than 100 bytes")
    assert next(pieces) == b"x" * 101
    assert echo.calls == 0


def test_a_body_that_does_not_end_is_refused_once_it_is_too_long(app: ASGIApp, echo: Echo) -> None:
    taken = []

    def pieces() -> Iterator[bytes]:
        while True:
            taken.append(1)
            yield b"x" * 40

    assert asked(app, "POST", "/echo", chunks=pieces()).status == 413
    assert len(taken) == 3
    assert asked(app, "POST", "/echo", chunks=[b"x" * 100]).status == 200


def test_what_all_requests_hold_together_has_a_limit(app: ASGIApp, bodies: Bodies, echo: Echo) -> None:
    async def run() -> tuple[int, dict[str, str], int]:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"x" * 90
            begun.set()
            await go_on.wait()

        first = asyncio.create_task(ask(app, "POST", "/echo", slowly=slowly()))
        await begun.wait()
        refused = await ask(app, "POST", "/echo", chunks=[b"x" * 90])
        go_on.set()
        return refused.status, refused.headers, (await first).status

    status, headers, first = asyncio.run(run())
    assert (status, headers["retry-after"], headers["connection"], first) == (429, "1", "close", 200)
    assert (bodies.held_bytes, echo.calls) == (0, 1)
    assert asked(app, "POST", "/echo", chunks=[b"x" * 90]).status == 200


def test_a_body_that_does_not_come_is_not_waited_for_without_end(app: ASGIApp, echo: Echo) -> None:
    async def run() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            await asyncio.sleep(60)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/echo", "raw_path": b"/echo", "query_string": b"",
                 "root_path": "", "headers": [HOST], "server": ("127.0.0.1", 1)}  # fmt: skip
        await app(scope, receive, send)
        return sent

    assert asyncio.run(run())[0]["status"] == 408
    assert echo.calls == 0


@pytest.mark.parametrize("method, path, status", [("GET", "/nothing", 404), ("PATCH", "/echo", 405), ("GET", "/", 404)])
def test_not_found_is_answered_in_json(app: ASGIApp, method: str, path: str, status: int) -> None:
    answer = asked(app, method, path)
    assert (answer.status, answer.json["error_code"]) == (status, status)


def test_a_request_that_is_cut_off_by_a_stop_is_counted_and_leaves_no_stack_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "STOP_SECONDS_MAX", 0.1)
    asked_for = asyncio.Event()

    async def never(scope: Any, receive: Any, send: Any) -> None:
        asked_for.set()
        await asyncio.sleep(LONG)

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = server_of(never, SETTINGS)
            serving = asyncio.create_task(server.serve([listening]))
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asked_for.wait()
            server.should_exit = True
            await serving
            writer.close()

    asyncio.run(run())
    assert "Cancel 1 running task(s)" in caplog.text
    assert "Traceback" not in caplog.text


# -- over a socket ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    settings = HttpSettings(request_timeout=timedelta(seconds=0.4), request_bytes_max=1000)
    with running_node(settings=NodeSettings(http=settings)) as running:
        yield running


@contextmanager
def connected(node: Node) -> Iterator[socket.socket]:
    host, _, port = node.http_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=LONG) as opened:
        yield opened


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found


def test_who_says_nothing_or_never_ends_its_head_is_hung_up_on(node: Node) -> None:
    for begun in (b"", b"GET /subj", b"GET /subjects HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
        with connected(node) as connection:
            connection.sendall(begun)
            assert rest_of(connection) == b""


def test_the_second_request_of_a_connection_has_the_same_time(node: Node) -> None:
    with connected(node) as connection:
        connection.sendall(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /subj")
        assert b"200" not in rest_of(connection)


def test_a_sender_that_is_slow_with_its_body_gets_an_error_and_is_disconnected(node: Node) -> None:
    with connected(node) as connection:
        connection.sendall(b'POST /subjects/s/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n{"sch')
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 408")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["message"] == "the request took too long to arrive"


def test_the_node_answers_others_while_some_are_slow(node: Node) -> None:
    with connected(node) as slow, connected(node) as quick:
        slow.sendall(b"POST /subjects/s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        quick.sendall(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert rest_of(quick).endswith(b"[]")


def test_answers_leave_at_once(node: Node) -> None:
    """A server that waits for more to send with them answers every request but the first 40 ms late."""
    with connected(node) as connection:
        connection.sendall(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not connection.recv(65536).endswith(b"[]"):
            pass
        with other_end(connection) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def other_end(connection: socket.socket) -> socket.socket:
    """Of a connection within this process."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            found = socket.socket(fileno=os.dup(number))
        except OSError:
            continue  # no socket, or closed a moment ago
        try:
            if found.getpeername() == connection.getsockname():
                return found
        except OSError:
            pass  # one that listens
        found.close()
    raise AssertionError("the server has no such connection")


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01", b"GET /\xff HTTP/1.1\r\n\r\n", b"\r\n" * 40_000])
def test_what_is_no_http_is_refused(node: Node, sent: bytes) -> None:
    with connected(node) as connection:
        connection.sendall(sent + b"\r\n\r\n")
        answer = rest_of(connection)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    with connected(node) as connection:
        connection.sendall(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 200")
