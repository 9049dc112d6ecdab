"""A proxy in front of an HTTP server that answers as servers and networks do on bad days; one fault per request."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

UNAVAILABLE, THROTTLED, CUT, SILENT, UNANSWERED = "503", "429", "cut in the middle", "silent", "done, and no answer"


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(endpoint).netloc
        self.faults: list[str] = []
        """Of the requests that come next, in order."""
        self.met: list[str] = []
        self.ending = threading.Event()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault:
            self.server.met.append(f"{self.command} {fault}")
            self.close_connection = True
        if fault == SILENT:
            self.server.ending.wait()
        elif fault in (UNAVAILABLE, THROTTLED):
            self.send_response(int(fault))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer(body, fault)

    def _answer(self, body: bytes, fault: str) -> None:
        upstream = http.client.HTTPConnection(self.server.upstream)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if fault == UNANSWERED:
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if "Content-Length" not in dict(answer.getheaders()):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault == CUT else content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is logged."""


@contextmanager
def faulty_proxy(endpoint: str) -> Iterator[FaultyProxy]:
    with FaultyProxy(endpoint) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.ending.set()
            proxy.shutdown()
            thread.join()
