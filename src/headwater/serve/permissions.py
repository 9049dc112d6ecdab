"""What a request over HTTP needs, by its method and path: the one table. Pure.

Views, schemas, flows and captures stand in ACLs as topics with a colon in their name, such as view:shop.orders. What no
row names is for those who may alter the cluster.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.access.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.log.topic import SECRET

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
READ, WRITE, DELETE, CREATE = Operation.READ, Operation.WRITE, Operation.DELETE, Operation.CREATE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
LOOKING = ("GET", "HEAD", "WEBSOCKET")


class Need(NamedTuple):
    operation: Operation
    resource_type: ResourceType
    name: str = CLUSTER_NAME


class Row(NamedTuple):
    """`path`: a part in braces is a name, * is any rest. `needs` makes what is needed from the names."""

    methods: Sequence[str]
    path: str
    needs: Callable[..., Sequence[Need]]


def nothing(*_: str) -> Sequence[Need]:
    return ()


def of(operation: Operation, kind: str) -> Callable[..., Sequence[Need]]:
    """A need of what the first name of the path says."""
    if kind == "topic":
        return lambda name, *_: (Need(operation, TOPIC, name),)
    if kind == "group":
        return lambda name, *_: (Need(operation, GROUP, name),)
    return lambda name, *_: (Need(operation, TOPIC, f"{kind}:{name}"),)


def cluster(operation: Operation) -> Callable[..., Sequence[Need]]:
    return lambda *_: (Need(operation, CLUSTER),)


ROWS: Sequence[Row] = (
    # Lists leave out what the client may not see (LISTS).
    *(Row(LOOKING, path, nothing) for path in ("topics", "views", "groups", "queues", "flows", "captures", "subjects")),
    *(Row(LOOKING, path, nothing) for path in ("", "ui", "ui/*", "health", "ready", "openapi.json", "schemas/types")),
    Row(LOOKING, "topics/{}", of(DESCRIBE, "topic")),
    Row(LOOKING, "topics/{}/*", of(READ, "topic")),
    Row(["POST"], "topics/{}", of(WRITE, "topic")),
    Row(LOOKING, "events/{}", of(READ, "topic")),
    Row(LOOKING, "events/{}/{}", of(READ, "topic")),
    Row(["POST"], "events/{}", of(WRITE, "topic")),
    Row(["PUT"], "events/{}", of(CREATE, "topic")),
    Row(["POST"], "hooks/*", nothing),  # signed by who sends them
    Row(["POST"], "session", nothing),
    Row(LOOKING, "views/{}", of(DESCRIBE, "view")),
    Row(LOOKING, "views/{}/*", of(READ, "view")),
    Row(LOOKING, "search/{}", of(READ, "view")),
    Row(["POST"], "query", nothing),  # reads views that its client may read; others are not there for it
    Row(LOOKING, "groups/{}", of(DESCRIBE, "group")),
    Row(LOOKING, "queues/{}", of(DESCRIBE, "group")),  # what is in messages, and every change, is for administrators
    Row(LOOKING, "flows/{}", of(DESCRIBE, "flow")),
    Row(["POST"], "flows/{}/*", of(ALTER, "flow")),
    Row(LOOKING, "captures/{}", of(DESCRIBE, "capture")),
    Row(["DELETE"], "captures/{}", of(DELETE, "capture")),
    *(Row(LOOKING, path, cluster(DESCRIBE)) for path in ("alerts", "alerts/*", "problems", "history", "metrics")),
    Row(LOOKING, "subjects/{}/*", of(READ, "schema")),
    Row(LOOKING, "subjects/{}", of(READ, "schema")),
    Row(["POST"], "subjects/{}", of(READ, "schema")),
    Row(["POST"], "subjects/{}/versions", of(WRITE, "schema")),
    Row(["DELETE"], "subjects/{}", of(DELETE, "schema")),
    Row(["DELETE"], "subjects/{}/*", of(DELETE, "schema")),
    Row(["POST"], "compatibility/subjects/{}/*", of(READ, "schema")),
    Row(LOOKING, "schemas/ids/{}", of(READ, "schema-id")),
    Row(LOOKING, "schemas/ids/{}/*", of(READ, "schema-id")),
    Row(LOOKING, "schemas", cluster(DESCRIBE)),
    *(Row(LOOKING, path, nothing) for path in ("config", "mode")),
    *(Row(LOOKING, f"{path}/{{}}", of(READ, "schema")) for path in ("config", "mode")),
    Row(["PUT", "DELETE"], "config/{}", of(ALTER, "schema")),
    Row(["PUT", "DELETE"], "config", cluster(ALTER)),
)

LISTS: dict[str, tuple[ResourceType, str]] = {
    "topics": (TOPIC, ""),
    "views": (TOPIC, "view:"),
    "groups": (GROUP, ""),
    "queues": (GROUP, ""),
    "flows": (TOPIC, "flow:"),
    "captures": (TOPIC, "capture:"),
    "subjects": (TOPIC, "schema:"),
}
"""Answers that are a list of names, or of objects with a name."""


def needs_of(method: str, parts: Sequence[str]) -> Sequence[Need]:
    """
    >>> needs_of("GET", ["topics", "orders", "records"])[0].operation.name
    'READ'
    """
    for row in ROWS:
        if method in row.methods and (names := _names(row.path, parts)) is not None:
            return row.needs(*names)
    return (Need(ALTER, CLUSTER),)


def _names(path: str, parts: Sequence[str]) -> list[str] | None:
    pattern, names = path.split("/") if path else [], []
    if pattern and pattern[-1] == "*":
        pattern = pattern[:-1]
        if len(parts) <= len(pattern):
            return None
    elif len(pattern) != len(parts):
        return None
    for wanted, part in zip(pattern, parts, strict=False):
        if wanted == "{}":
            names.append(part)
        elif wanted != part:
            return None
    return names


def names_secret(parts: Sequence[str]) -> bool:
    """Is it about the content of a topic that no client may read?"""
    return len(parts) > 2 and parts[0] == "topics" and parts[1] in SECRET


def topic_of_subject(subject: str) -> str:
    """The topic whose keys or values a schema is for: who may see the topic may read its schema.

    >>> topic_of_subject("orders-value"), topic_of_subject("orders")
    ('orders', '')
    """
    for ending in ("-value", "-key"):
        if subject.endswith(ending):
            return subject.removesuffix(ending)
    return ""
