"""Queues over HTTP: a request in, a status and JSON out.

GET  /queues                     all queues
GET  /queues/QUEUE               one, with its books, its consumers and its settings
GET  /queues/QUEUE/messages      those that are delivered next; limit=
POST /queues/QUEUE/purge         be done with what waits
POST /queues/QUEUE/retry         append what was put aside to its topic again; {"limit": 100}
POST /queues/QUEUE/move          append what waits to {"topic": ...}, and acknowledge it; {"limit": 100}
POST /queues/QUEUE/replay        a new queue {"name": ...} on the same topics, from {"time_ms": ...} or the beginning
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.errors import HeadwaterError, UnavailableError, UsageError
from headwater.log.log import Log
from headwater.log.queues import administration
from headwater.log.queues.queues import Queue
from headwater.serve.answers import status_of

LIMIT, LIMIT_MAX = 100, 1_000_000
SHOWN_BYTES = 1_000


class Queues:
    """Safe to call from many threads."""

    roots = ("queues",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def answer(self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        try:
            return self._answer(method, list(path), query, _body(body))
        except OSError as error:
            return _failure(UnavailableError(f"the disk failed: {error}"))
        except HeadwaterError as error:
            return _failure(error)

    def _answer(
        self, method: str, path: list[str], query: Mapping[str, str], said: Mapping[str, Any]
    ) -> tuple[int, Any]:
        known = self._log.queues
        match method, path[1:]:
            case "GET", []:
                return 200, [self.described(known.get(name)) for name in known.names()]
            case "GET", [name]:
                return 200, self.described(known.get(name))
            case "GET", [name, "messages"]:
                return 200, self._messages(known.get(name), _limit(query))
            case "POST", [name, what] if what in CHANGES:
                return 200, CHANGES[what](self._log, known.get(name), said)
        return 404, {"error_code": 404, "error": "NotFound", "message": "there is no such request about queues"}

    def described(self, queue: Queue) -> dict[str, Any]:
        partitions = queue.describe()
        ages = [age for one in partitions if (age := administration.oldest_ms(self._log, one)) is not None]
        held: dict[str, int] = {}
        for one in partitions:
            for consumer, count in one.consumers.items():
                held[consumer] = held.get(consumer, 0) + count
        totals = [vars(one.totals) for one in partitions]
        books = ("delivered", "redelivered", "acknowledged", "dead", "dropped")
        return {
            "name": queue.name,
            "topics": queue.topics(),
            "depth": sum(one.depth for one in partitions),
            "in_flight": sum(one.in_flight for one in partitions),
            "failed": sum(one.failed for one in partitions),
            "oldest_ms": min(ages, default=None),
            **{name: sum(one[name] for one in totals) for name in books},
            "consumers": [{"id": consumer, "in_flight": count} for consumer, count in sorted(held.items())],
            "partitions": [
                {"topic": one.topic, "partition": one.partition, "start": one.start, "end": one.end,
                 "depth": one.depth, "in_flight": one.in_flight}
                for one in partitions
            ],
            "settings": queue.configs,
        }  # fmt: skip

    def _messages(self, queue: Queue, limit: int) -> list[dict[str, Any]]:
        return [
            {
                "topic": one.where.topic, "partition": one.where.partition, "offset": one.record.offset,
                "timestamp_ms": one.record.timestamp_ms, "deliveries": one.deliveries,
                "key": _text(one.record.key), "value": _text(one.record.value),
            }
            for one in administration.peek(self._log, queue, min(limit, 1_000))
        ]  # fmt: skip


def _purge(log: Log, queue: Queue, said: Mapping[str, Any]) -> dict[str, Any]:
    return {"queue": queue.name, "purged": administration.purge(queue)}


def _retry(log: Log, queue: Queue, said: Mapping[str, Any]) -> dict[str, Any]:
    return {"queue": queue.name, "retried": administration.retry(log, queue, _limit(said))}


def _move(log: Log, queue: Queue, said: Mapping[str, Any]) -> dict[str, Any]:
    topic = str(said.get("topic") or "")
    return {"queue": queue.name, "topic": topic, "moved": administration.move(log, queue, topic, _limit(said))}


def _replay(log: Log, queue: Queue, said: Mapping[str, Any]) -> dict[str, Any]:
    time_ms = said.get("time_ms")
    if time_ms is not None and not isinstance(time_ms, int):
        raise UsageError(f"time_ms is {time_ms!r}; it is milliseconds since 1970")
    fresh = administration.replay(log, queue, str(said.get("name") or ""), time_ms)
    return {"queue": queue.name, "name": fresh.name, "depth": sum(one.depth for one in fresh.describe())}


CHANGES: Mapping[str, Callable[[Log, Queue, Mapping[str, Any]], dict[str, Any]]] = {
    "purge": _purge, "retry": _retry, "move": _move, "replay": _replay,
}  # fmt: skip


def _limit(said: Mapping[str, Any]) -> int:
    limit = said.get("limit", LIMIT)
    if not str(limit).isdecimal() or not 1 <= int(limit) <= LIMIT_MAX:
        raise UsageError(f"limit is {str(limit)[:40]!r}; it is a number between 1 and {LIMIT_MAX}")
    return int(limit)


def _body(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body or b"{}")
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise UsageError("the body is not a JSON object")
    return said


def _text(content: bytes | None) -> str | None:
    return None if content is None else content[:SHOWN_BYTES].decode(errors="replace")


def _failure(error: HeadwaterError) -> tuple[int, Any]:
    status = status_of(error)
    return status, {"error_code": status, "error": type(error).__name__, "message": str(error)}
