"""Takes what is posted: understood whole, stored, synced, and only then answered.

POST /topics/TOPIC    records for a topic; "?key=PROPERTY" says which property is their key
POST /hooks/NAME      a webhook, signed as the hook of that name says
"""

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.capture.http.bodies import records_of
from headwater.capture.http.hooks import Hooks
from headwater.capture.http.once import Requests, Stored
from headwater.capture.http.refusal import Refusal
from headwater.capture.http.signatures import delivery_of
from headwater.errors import (
    BatchTooLarge,
    DiskFull,
    HeadwaterError,
    TopicFull,
    UnavailableError,
    UnknownHook,
    UnknownTopic,
    UsageError,
)
from headwater.log.log import Log
from headwater.record import Record

logger = logging.getLogger("headwater.capture")

UNDER_WAY_MAX = 32
KEY_CHARACTERS_MAX = 255
RETRY_SECONDS = 1
RETRY_FULL_SECONDS = 10
INTERNAL = "_"

Answer = tuple[int, Any, Mapping[str, str]]


class Receiver:
    """Safe to call from many threads."""

    roots = ("topics", "hooks")

    def __init__(self, log: Log, data: Path) -> None:
        self._log, self._hooks = log, Hooks(data)
        self._requests = Requests(log)
        self._slots = threading.BoundedSemaphore(UNDER_WAY_MAX)

    def receive(self, path: Sequence[str], query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        """Answers a request; a failure is an answer as well, never an exception."""
        if not self._slots.acquire(blocking=False):
            return _refused(429, "too much is being stored at once; try again", {"retry-after": str(RETRY_SECONDS)})
        try:
            return self._received(path, query, headers, body)
        except Refusal as refusal:
            return _refused(refusal.status, str(refusal), refusal.headers)
        except HeadwaterError as error:
            return failure(error)
        except Exception:
            logger.exception("a request could not be stored, in an unforeseen way")
            return _refused(500, "the node failed; its log says why")
        finally:
            self._slots.release()

    def _received(
        self, path: Sequence[str], query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        match path:
            case ["topics", topic]:
                key = headers.get("idempotency-key")
                records = records_of(headers, body, key=query.get("key", ""))
                return self._stored(topic, records, _name("topic", topic, key), headers, body)
            case ["hooks", name]:
                hook = self._hooks.get(name)
                now_ms = self._log.clock.now_ms()
                delivery = delivery_of(hook.scheme, hook.secrets, headers, body, now_ms=now_ms)
                records = records_of(headers, body, key=hook.key)
                return self._stored(hook.topic, records, _name("hook", name, delivery), headers, body)
        raise Refusal(404, "there is nothing here; post to /topics/TOPIC or /hooks/NAME")

    def _stored(
        self, topic: str, records: Sequence[Record], name: bytes | None, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        if topic.startswith(INTERNAL):
            raise Refusal(403, f'topic "{topic[:100]}" is internal, and not for others to write to')
        if name is None:
            stored = self._requests.store(topic, records)
        else:
            digest = hashlib.sha256(headers.get("content-type", "").encode() + b"\0" + body).hexdigest()[:32]
            stored = self._requests.store_once(name, topic, records, digest)
        answered = {"idempotent-replayed": "true"} if stored.repeated else {}
        return 200, _said(topic, stored), answered


def _said(topic: str, stored: Stored) -> dict[str, Any]:
    ranges = [
        {"partition": number, "first": one.first, "last": one.last} for number, one in sorted(stored.ranges.items())
    ]
    count = sum(one["last"] - one["first"] + 1 for one in ranges)
    position = ",".join(f"{topic}/{one['partition']}@{one['last']}" for one in ranges)
    return {"topic": topic, "records": count, "position": position, "stored": ranges}


def _name(kind: str, where: str, said: str | None) -> bytes | None:
    """16 bytes for who a request is; None if it does not say."""
    if said is None:
        return None
    if not 1 <= len(said) <= KEY_CHARACTERS_MAX or not said.isprintable():
        raise Refusal(400, f"an idempotency key has 1 to {KEY_CHARACTERS_MAX} printable characters")
    return hashlib.sha256("\0".join([kind, where, said]).encode()).digest()[:16]


def failure(error: HeadwaterError) -> Answer:
    match error:
        case UnknownTopic():
            return _refused(404, str(error))
        case UnknownHook():
            return _refused(404, "there is no such hook")  # the client has shown no secret: no names are disclosed
        case BatchTooLarge():
            return _refused(413, str(error))
        case TopicFull():
            return _refused(429, str(error), {"retry-after": str(RETRY_FULL_SECONDS)})
        case DiskFull():
            return _refused(507, str(error), {"retry-after": str(RETRY_FULL_SECONDS)})
        case UnavailableError():
            return _refused(503, str(error), {"retry-after": str(RETRY_FULL_SECONDS)})
        case UsageError():
            return _refused(422, str(error))
    return _refused(500, str(error))


def _refused(status: int, message: str, headers: Mapping[str, str] | None = None, name: str = "Refused") -> Answer:
    return status, {"error_code": status, "error": name, "message": message}, headers or {}
