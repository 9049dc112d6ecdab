"""Permissions on the HTTP port: who a token stands for, what it may do, and lists without what it may not see."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.access.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.access.audit import DENIED, Audit, Event
from headwater.access.authorizer import Authorizer
from headwater.access.principals import Principal
from headwater.errors import HeadwaterError, NotAllowed
from headwater.serve.permissions import LISTS, Need, needs_of, topic_of_subject

SCHEMA, SCHEMA_ID, VIEW = "schema:", "schema-id:", "view:"
LIST_BYTES_MAX = 64 * 1024**2


class Enforcement(NamedTuple):
    authorizer: Authorizer
    audit: Audit
    view_name: Callable[[str], str]
    """APP.VIEW of a view, however it is named; it may ask a store."""
    subjects_of: Callable[[str], Sequence[str]]
    """The subjects with the schema of an id."""


SEES = "headwater.sees"
"""In the scope of a request: which views its client may read, for a handler that learns their names from the body."""


class Client(NamedTuple):
    principal: Principal
    host: str


async def refusal(enforcement: Enforcement, client: Client, method: str, paths: Sequence[Sequence[str]]) -> str:
    """Why a client may not do this; "" if it may. `paths`: what its path may be taken for by those who read it."""
    for parts in paths:
        for need in needs_of(method, parts):
            if not await _meets(enforcement, client, need):
                resource = f"{need.resource_type.name}:{need.name}"
                enforcement.audit.note(
                    Event(DENIED, str(client.principal), client.host, f"HTTP {method}", need.operation.name, resource)
                )
                return str(NotAllowed(str(client.principal), need.operation.name.lower(), need.name))
    return ""


async def _meets(enforcement: Enforcement, client: Client, need: Need) -> bool:
    name = need.name
    if name.startswith(SCHEMA_ID):
        subjects = await run_in_threadpool(_or_none, enforcement.subjects_of, name.removeprefix(SCHEMA_ID))
        return any(may_schema(enforcement, client, need.operation, one) for one in subjects)
    if name.startswith(SCHEMA):
        return may_schema(enforcement, client, need.operation, name.removeprefix(SCHEMA))
    if name.startswith(VIEW):
        name = VIEW + (await run_in_threadpool(_or_same, enforcement.view_name, name.removeprefix(VIEW)))
    return may(enforcement, client, need.operation, need.resource_type, name)


def may(
    enforcement: Enforcement, client: Client, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME
) -> bool:
    return enforcement.authorizer.allowed(client.principal, client.host, operation, kind, name)


def sees(enforcement: Enforcement, client: Client) -> Callable[[str], bool]:
    """Of a view by its full name: may the client read it?"""
    return lambda view: may(enforcement, client, Operation.READ, ResourceType.TOPIC, VIEW + view)


def may_schema(enforcement: Enforcement, client: Client, operation: Operation, subject: str) -> bool:
    if may(enforcement, client, operation, ResourceType.TOPIC, SCHEMA + subject):
        return True
    topic = topic_of_subject(subject)
    reading = operation in (Operation.READ, Operation.DESCRIBE)
    return bool(topic) and reading and may(enforcement, client, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _or_same(view_name: Callable[[str], str], said: str) -> str:
    try:
        return view_name(said)
    except HeadwaterError:
        return said  # there is none, which the request finds out if its name may be asked for


def _or_none(subjects_of: Callable[[str], Sequence[str]], said: str) -> Sequence[str]:
    try:
        return subjects_of(said)
    except HeadwaterError:
        return ()


class FilteredList:
    """Passes a request on, and takes out of the list that comes back what the client may not see."""

    def __init__(self, app: ASGIApp, enforcement: Enforcement, client: Client, root: str) -> None:
        self._app, self._enforcement, self._client, self._root = app, enforcement, client, root
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def collect(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._start = message
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            self._body += message.get("body", b"")
            if len(self._body) > LIST_BYTES_MAX:
                raise ValueError("a list is longer than any is")
            if not message.get("more_body") and self._start is not None:
                await self._finish(self._start, send)

        await self._app(scope, receive, collect)

    async def _finish(self, start: Message, send: Send) -> None:
        body = bytes(self._body)
        if start["status"] == 200:
            body = json.dumps(self._visible(json.loads(body)), ensure_ascii=False).encode()
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})

    def _visible(self, listed: Any) -> Any:
        kind, prefix = LISTS[self._root]
        if not isinstance(listed, list):
            return listed
        return [one for one in listed if self._sees(kind, prefix, str(one["name"] if isinstance(one, dict) else one))]

    def _sees(self, kind: ResourceType, prefix: str, name: str) -> bool:
        if prefix == SCHEMA:
            return may_schema(self._enforcement, self._client, Operation.DESCRIBE, name)
        return may(self._enforcement, self._client, Operation.DESCRIBE, kind, prefix + name)


def is_list(method: str, parts: Sequence[str]) -> bool:
    return method in ("GET", "HEAD") and len(parts) == 1 and parts[0] in LISTS
