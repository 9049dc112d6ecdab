"""A node from afar: views and topics over HTTP, read and followed. Needs nothing but Python.

shop = hw.connect("http://127.0.0.1:8080")
position = shop.produce("orders", {"id": 1, "amount": "12.50"})
shop.view("revenue").get("DE", at_least=position)
for change in shop.view("revenue").watch():
    ...
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from headwater.errors import RequestRefused, UsageError
from headwater.secret_urls import ambiguity

TIMEOUT_SECONDS = 75.0
"""Of silence; a node that has nothing to say says so every 15 seconds, and answers a query within a minute."""

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
NOT_FOUND = 404

Row = dict[str, Any]


class Change(NamedTuple):
    """`op` is `upsert`, `delete` (row is None), or `reset`: forget what you hold, all rows follow as upserts."""

    op: str
    key: Row
    row: Row | None


class Message(NamedTuple):
    """One server-sent event."""

    kind: str
    id: str
    data: Any


def connect(url: str, *, token: str = "") -> "RemoteNode":
    """`url` is where the HTTP port of a node listens; a token is needed from other machines."""
    return RemoteNode(url, token)


class RemoteNode:
    """Every call is a connection of its own, so that it may be used from several threads."""

    def __init__(self, url: str, token: str = "") -> None:
        full = url if "://" in url else f"http://{url}"
        if why := ambiguity(full):
            raise UsageError(f"the URL of the node {why}", "Write http://HOST:PORT, and say token=.")
        self._url = urlsplit(full)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def view(self, name: str) -> "RemoteView":
        return RemoteView(self, name)

    def views(self) -> list[Row]:
        found: list[Row] = self.get("/views")
        return found

    def topics(self) -> list[Row]:
        found: list[Row] = self.get("/topics")
        return found

    def produce(self, topic: str, value: object, *, key: str = "") -> str:
        """Store one record as JSON; `key` names the property that is its key. Answers its position, for `at_least`."""
        query = f"?{urlencode({'key': key})}" if key else ""
        target = f"/topics/{quote(topic, safe='')}{query}"
        headers = {"content-type": "application/json"}
        said = self._asked("POST", target, json.dumps(value).encode(), headers)
        return str(said["position"])

    def query(self, sql: str, **asked: object) -> Row:
        """One SELECT over views, with the position that it reflects; `asked` is what POST /query takes beside it.

        Its rows are `answer["rows"]`. `one_position=True` reads several views at one position.
        """
        found: Row = self.post("/query", {"sql": sql, **asked})
        return found

    def records(self, topic: str, **query: object) -> Row:
        """Some records; `offset`, `time_ms`, `partition` and `limit` say which."""
        found: Row = self.get(f"/topics/{quote(topic, safe='')}/records", query)
        return found

    def follow(self, topic: str, *, begin: str = "end", after: str = "") -> Iterator[Row]:
        """Every record from now on, or from the start; resumes by itself when the connection breaks."""
        path = f"/topics/{quote(topic, safe='')}/live"
        for message in self.messages(path, {"begin": begin}, after):
            yield from message.data.get("records", ())

    def post(self, path: str, said: Mapping[str, object]) -> Any:
        return self._asked("POST", path, json.dumps(said).encode(), {"content-type": "application/json"})

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        return self._asked("GET", f"{path}{_query(query or {})}")

    def send(self, method: str, path: str, body: bytes) -> Any:
        """Another request than a GET, with a body of JSON."""
        return self._asked(method, path, body, {"content-type": "application/json"})

    def messages(self, path: str, query: Mapping[str, object], after: str = "") -> Iterator[Message]:
        """Yields the events of a live endpoint. When the connection breaks, it resumes after the last event that
        had an id. RequestRefused where the node says that it cannot be followed (any more)."""
        failures = 0
        while True:
            try:
                for message in self._stream(f"{path}{_query(query)}", after):
                    failures, after = 0, message.id or after
                    if message.kind == "end" and message.data["reason"] != "stopping":
                        raise RequestRefused(410, "FeedEnded", message.data["message"])
                    if message.kind != "end":
                        yield message
            except (OSError, HTTPException):
                pass  # the node is restarted, or the way to it is broken: the next attempt resumes where this one ended
            Event().wait(PAUSES[min(failures, len(PAUSES) - 1)])
            failures += 1

    def _stream(self, target: str, after: str) -> Iterator[Message]:
        connection = self._connection()
        try:
            said = {"last-event-id": after} if after else {}
            connection.request("GET", target, headers={**self._headers, **said, "accept": "text/event-stream"})
            answer = connection.getresponse()
            _check(answer)
            yield from parse_events(iter(answer.readline, b""))
        finally:
            connection.close()

    def _asked(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        connection = self._connection()
        try:
            connection.request(method, target, body=body, headers={**self._headers, **(headers or {})})
            answer = connection.getresponse()
            _check(answer)
            return json.loads(answer.read())
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        return kind(self._url.hostname or "127.0.0.1", self._url.port, timeout=TIMEOUT_SECONDS)


class RemoteView:
    """A view of a node. Values are as JSON has them: decimals and times are text."""

    def __init__(self, node: RemoteNode, name: str) -> None:
        self.name = name
        self._node, self._path = node, f"/views/{quote(name, safe='')}"

    def describe(self) -> Row:
        found: Row = self._node.get(self._path)
        return found

    def get(self, *key: object, at_least: str = "") -> Row | None:
        """The row of a key; None if there is none. `at_least` is the position that `produce` answered."""
        try:
            found = self._node.get(f"{self._path}/row", {"key": [str(one) for one in key], "at_least": at_least})
        except RequestRefused as refusal:
            if refusal.name == "UnknownKey":
                return None
            raise
        row: Row = found["row"]
        return row

    def rows(
        self, where: Sequence[str] = (), order: str = "", limit: int = 100, *, skip: int = 0, at_least: str = ""
    ) -> list[Row]:
        """`rows(["amount > 100"], order="amount desc")`"""
        query = {"where": list(where), "order": order, "limit": limit, "skip": skip, "at_least": at_least}
        found: list[Row] = self._node.get(f"{self._path}/rows", query)["rows"]
        return found

    def search(self, words: str, *, limit: int = 20) -> list[Row]:
        """Rows that have the words, best first. The view must be declared with `search=`."""
        found = self._node.get(f"/search/{quote(self.name, safe='')}", {"q": words, "limit": limit})
        return [one["row"] for one in found["rows"]]

    def watch(
        self, where: Sequence[str] = (), key: Sequence[object] = (), *, snapshot: bool = True, after: str = ""
    ) -> Iterator[Change]:
        """Yields all rows, then every change; of some rows, or of one key.

        Resumes by itself when the connection breaks.

        A write is emitted when all of it has arrived, so that no change is emitted twice.
        """
        query = {"where": list(where), "key": [str(one) for one in key], "snapshot": str(snapshot).lower()}
        gathered: list[Change] = []
        names: list[str] = self.describe()["key"]
        for message in self._node.messages(f"{self._path}/live", query, after):
            if message.data.get("begin"):
                gathered = []
            gathered += _changes(message, names)
            if message.id:
                yield from gathered
                gathered = []


def _changes(message: Message, key: Sequence[str]) -> Iterator[Change]:
    if message.kind == "snapshot":
        if message.data["begin"]:
            yield Change("reset", {}, None)
        for row in message.data["rows"]:
            yield Change("upsert", {name: row[name] for name in key}, row)
    for one in message.data.get("changes", ()):
        yield Change(one["op"], one["key"], one.get("row"))


def parse_events(lines: Iterator[bytes]) -> Iterator[Message]:
    """Server-sent events; one that is cut off is none.

    >>> list(parse_events(iter([b": hi\\n", b"id: 1\\n", b"event: x\\n", b"data: {}\\n", b"\\n", b"data: 1\\n"])))
    [Message(kind='x', id='1', data={})]
    """
    said: dict[str, str] = {}
    for line in lines:
        text = line.decode("utf-8").rstrip("\r\n")
        if not text and "data" in said:
            yield Message(said.get("event", "message"), said.get("id", ""), json.loads(said["data"]))
        if not text:
            said = {}
        elif not text.startswith(":"):
            name, _, value = text.partition(":")
            said[name] = value.removeprefix(" ")


def _query(said: Mapping[str, object]) -> str:
    kept = {name: value for name, value in said.items() if value not in ("", [], None)}
    return f"?{urlencode(kept, doseq=True)}" if kept else ""


def _check(answer: HTTPResponse) -> None:
    if answer.status < 400:
        return
    body = answer.read()
    facts: Row = {}
    try:
        facts = said = json.loads(body)
        name, message = str(said.get("error", "Refused")), str(said["message"])
    except (ValueError, KeyError, TypeError):
        name, message = "Refused", f"the answer was {answer.status}"
    if answer.status in (429, 503):
        raise Unready(message)
    raise RequestRefused(answer.status, name, message, facts)


class Unready(HTTPException):
    """The node cannot answer just now; trying again may help."""
