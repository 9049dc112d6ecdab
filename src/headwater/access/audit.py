"""The audit topic: what was refused, who logged in in vain, and what administrators changed.

    {"time_ms": …, "what": "denied", "principal": "User:eve", "host": "127.0.0.9", "api": "produce",
     "operation": "WRITE", "resource": "TOPIC:orders", "times": 3}

Events wait in memory for the next write, the same ones counted together; beyond a bound they are only counted, and
the count is written. No request waits for it. What was asked is never written, only its name: no secret can get
in.
"""

import json
import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import HeadwaterError
from headwater.log.own_topics import ensure_own_topic
from headwater.log.topic import AUDIT_TOPIC as TOPIC
from headwater.record import Record

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.audit")

DENIED, FAILED_LOGIN, CHANGED = "denied", "failed login", "changed"
WAITING_MAX = 2_000
INTERVAL_SECONDS = 1.0
TEXT_MAX = 300
CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(90 * 24 * 3_600_000),
    "retention.bytes": str(1024**3),
    "message.timestamp.type": "CreateTime",
}


class Event(NamedTuple):
    what: str
    principal: str
    host: str
    api: str
    operation: str = ""
    resource: str = ""


class Audit:
    """May be used from any thread. `start`, then `stop`, which writes what still waits."""

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._lock = threading.Lock()
        self._waiting: Counter[Event] = Counter()
        self._lost = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="headwater-audit", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def note(self, event: Event) -> None:
        # What waits is bounded in number and in length: names are what clients say.
        event = Event(*[value[:TEXT_MAX] for value in event])
        with self._lock:
            if event in self._waiting or len(self._waiting) < WAITING_MAX:
                self._waiting[event] += 1
            else:
                self._lost += 1

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_SECONDS):
            self._write()
        self._write()

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, Counter()
            lost, self._lost = self._lost, 0
        if not waiting and not lost:
            return
        now_ms = self._log.clock.now_ms()
        rows = [_row(event, times, now_ms) for event, times in waiting.items()]
        if lost:
            rows.append({"time_ms": now_ms, "what": "not written one by one", "times": lost})
        try:
            ensure_own_topic(self._log, TOPIC, CONFIGS)
            records = [Record(json.dumps(row).encode(), timestamp_ms=now_ms) for row in rows]
            self._log.append(TOPIC, records, partition=0, durable=self._stopping.is_set())
        except (HeadwaterError, OSError) as error:
            logger.error("%d events are not in the audit topic: %s", len(rows), error)


def _row(event: Event, times: int, now_ms: int) -> dict[str, object]:
    said = {name: value for name, value in event._asdict().items() if value}
    return {"time_ms": now_ms, **said, "times": times}
