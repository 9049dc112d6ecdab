"""Behind a reverse proxy that says nothing of whom it asks for."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.node import Node
from headwater.serve.tokens import Tokens
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.servers.nginx import running_nginx
from tests.waiting import LONG


@contextmanager
def plain_proxy(folder: Path, target: str) -> Iterator[int]:
    """Passes bytes on, with the Host that nginx would write."""
    host, _, target_port = target.rpartition(":")
    listening = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def relay(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(target_port))) as onward:
            back = threading.Thread(target=pump, args=(onward, client))
            back.start()
            pump(client, onward)
            back.join()

    def serve() -> None:
        relays = []
        while True:
            client, _ = listening.accept()
            if stopping.is_set():
                client.close()
                break
            relays.append(threading.Thread(target=relay, args=[client]))
            relays[-1].start()
        for one in relays:
            one.join()

    stopping, serving = threading.Event(), threading.Thread(target=serve)
    serving.start()
    try:
        yield listening.getsockname()[1]
    finally:
        stopping.set()
        socket.create_connection(listening.getsockname()).close()
        serving.join()
        listening.close()


PROXIES = {"plain": plain_proxy, "nginx": running_nginx}


def status(port: int, path: str, token: str = "", **headers: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
    try:
        said = {"authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", path, headers={**said, **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def node_with(folder: Path, settings: HttpSettings | None = None) -> Iterator[Node]:
    with running_node(folder, NodeSettings(http=settings or HttpSettings())) as node:
        yield node


def target_of(node: Node) -> str:
    return node.http_url.removeprefix("http://")


@pytest.mark.parametrize("kind", PROXIES)
def test_a_token_is_demanded_of_what_a_proxy_passes_on_although_it_says_nothing(tmp_path: Path, kind: str) -> None:
    proxied = tmp_path / "proxy"
    proxied.mkdir()
    with node_with(tmp_path / "data") as node, PROXIES[kind](proxied, target_of(node)) as port:
        host = {"host": target_of(node)}
        assert status(port, "/topics", **host) == 200, "there are no tokens yet"
        made = Tokens(node.data).add("reader", ("read",))
        assert status(port, "/topics", **host) == 401
        assert status(port, "/topics", made, **host) == 200
        assert status(port, "/health", **host) == 200


def test_a_node_with_a_public_name_demands_a_token_before_there_is_any(tmp_path: Path) -> None:
    with node_with(tmp_path, HttpSettings(allowed_hosts=("shop.example",))) as node:
        port = int(target_of(node).rpartition(":")[2])
        assert status(port, "/topics") == 401
        assert status(port, "/topics", host="shop.example") == 401


def test_loopback_without_a_token_is_a_setting(tmp_path: Path) -> None:
    Tokens(tmp_path).add("reader", ("read",))
    with node_with(tmp_path, HttpSettings(loopback_without_token=True)) as node:
        port = int(target_of(node).rpartition(":")[2])
        assert status(port, "/topics") == 200
        assert status(port, "/topics", **{"x-forwarded-for": "203.0.113.9"}) == 401


def test_commands_on_the_data_directory_need_no_token_and_its_file_is_its_owners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = tmp_path / "s.avsc"
    schema.write_text('"string"')
    data = tmp_path / "data"
    with node_with(data) as node:
        Tokens(node.data).add("reader", ("read",))
        file = data / "local.token"
        assert file.stat().st_mode & 0o777 == 0o600
        assert main(["schema", "register", "orders-value", str(schema), "--data", str(data)]) == 0
        assert main(["schema", "list", "--json", "--data", str(data)]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])[0]["subject"] == "orders-value"
    assert not file.exists()


def raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection:
        connection.sendall(request)
        return connection.recv(65536)


HOSTS = [
    "[::1].evil.com", "localhost:evil.com", "127.0.0.1:17501, evil.com", "localhost:80:80", "evil.com@localhost",
    "localhost/", "[localhost]", "localhost:", "[::1", "[::1]x:80", "localhost:123456", "127.0.0.1#evil.com", "",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("upgrade", [b"", b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                     b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"])  # fmt: skip
def test_a_host_that_only_begins_as_one_of_ours_is_refused(proxied_port: int, host: str, upgrade: bytes) -> None:
    answer = raw(proxied_port, b"GET /topics HTTP/1.1\r\nHost: " + host.encode() + b"\r\n" + upgrade + b"\r\n")
    assert answer.split(b" ")[1] == b"403", answer


@pytest.mark.parametrize("order", [1, -1])
def test_a_request_with_two_ends_is_refused(proxied_port: int, order: int) -> None:
    ends = [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"][::order]
    head = b"POST /topics/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = raw(proxied_port, head + b"".join(ends) + b"\r\n0\r\n\r\n")
    assert answer.split(b" ")[1] == b"400", answer
    assert b"connection: close" in answer.lower()


@pytest.fixture(scope="module")
def proxied_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with node_with(tmp_path_factory.mktemp("data")) as node:
        yield int(target_of(node).rpartition(":")[2])
