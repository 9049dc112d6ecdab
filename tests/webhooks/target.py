"""An external HTTP server, with answers that the test sets."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.waiting import LONG


@dataclass
class Taken:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebhookTarget:
    """`answers` are given one after the other, the last one for ever: a status, or a status and a header; 0 says
    nothing until the target is closed, -1 says one byte after the other."""

    answers: list[int | tuple[int, str, str]] = field(default_factory=lambda: [200])
    taken: list[Taken] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def next_answer(self) -> int | tuple[int, str, str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.taken]


@dataclass
class Certificate:
    """Of a name, signed by itself."""

    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def certificate_of(host: str, folder: Path) -> Certificate:
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("there is no openssl to make a certificate with")
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = [
        openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", str(made.key), "-out", str(made.certificate), "-days", "2", "-subj", f"/CN={host}",
        "-addext", f"subjectAltName=DNS:{host}",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return made


@contextmanager
def silent_target(host: str = "127.0.0.1", port: int = 0) -> Iterator[socket.socket]:
    """Takes connections, and never says anything."""
    with socket.create_server((host, port)) as listening:
        yield listening


@contextmanager
def webhook_target(
    *answers: int | tuple[int, str, str], certificate: Certificate | None = None
) -> Iterator[WebhookTarget]:
    target = WebhookTarget(list(answers) or [200])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            target.taken.append(Taken(self.path, headers, body))
            answer = target.next_answer()
            if answer == 0:
                target.closing.wait(LONG)
            elif answer == -1:
                self._drip()
            else:
                self._answer(answer)

        def _answer(self, answer: int | tuple[int, str, str]) -> None:
            status, *header = answer if isinstance(answer, tuple) else (answer,)
            self.send_response(int(status))
            if header:
                self.send_header(*header)
            self.send_header("content-length", "0")
            self.end_headers()

        def _drip(self) -> None:
            try:
                for byte in b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 10_000:
                    self.wfile.write(bytes([byte]))
                    if target.closing.wait(0.05):
                        return
            except OSError:
                return  # hung up on, as it should be

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # who hangs up on a server that hangs is right

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        server.socket = certificate.server_context().wrap_socket(server.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    target.url = f"{scheme}://127.0.0.1:{server.server_port}/alerts?team=a"
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield target
    finally:
        target.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
