"""Requests that say who they are (an idempotency key, a webhook's delivery) are stored once, however often they come.

Before its records a request writes an intent to the topic `_requests`, and syncs it:

    key    16 bytes: which request
    value  {"topic": "orders", "body": "9f…", "partitions": 4, "from": {"0": 17, "2": 5}}    no value: it was given up

`from` has the partitions that its records go to, and where each ended. The records carry the same 16 bytes in the
header `headwater-request`, one batch for each partition. After a crash an intent alone does not say whether the records
were stored; the partitions do, between `from` and where they ended when the log was opened again. A request that comes
again is then completed where something is missing, and otherwise answered as the first time.

Intents are kept for a day; a request that is repeated later is a new one. So is one whose records compaction took in
between, if the node has restarted since.
"""

import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.capture.http.refusal import Refusal
from headwater.errors import (
    DiskFull,
    HeadwaterError,
    OffsetOutOfRange,
    TopicFull,
    UnknownTopic,
    UsageError,
)
from headwater.log.admission import check_admission, check_room
from headwater.log.batch_format import checked_header, encode_batch
from headwater.log.log import Log
from headwater.log.own_topics import ensure_own_topic
from headwater.log.partitioner import partition_of
from headwater.record import Record

TOPIC, HEADER = "_requests", "headwater-request"
KEPT_MS = 24 * 3600 * 1000
CONFIGS = {"cleanup.policy": "delete", "retention.ms": str(KEPT_MS), "segment.ms": str(3600 * 1000)}


class Range(NamedTuple):
    """Where records of a request are."""

    first: int
    last: int


class Stored(NamedTuple):
    ranges: Mapping[int, Range]
    repeated: bool = False


@dataclass
class Intent:
    topic: str
    body: str
    """A digest of what was sent: the same name for something else is a mistake."""
    partitions: int
    starts: dict[int, int]
    time_ms: int
    found: dict[int, Range] = field(default_factory=dict)
    checked: bool = True
    """False: read back after a start, and not yet compared with what was stored."""


class Requests:
    """Stores records of requests; safe to use from many threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._intents: dict[bytes, Intent] | None = None
        self._ends: dict[tuple[str, int], int] = {}
        self._under_way: set[bytes] = set()
        self._rotation = itertools.count()

    def store(self, topic: str, records: Sequence[Record]) -> Stored:
        """Stores a request without a name. It goes to one partition, in one batch: it is stored whole or not at all."""
        count = self._log.topic(topic).partitions
        groups = grouped(records, count, keyless=next(self._rotation))
        if len(groups) > 1:
            raise Refusal(
                422,
                f"the records belong to {len(groups)} partitions, and a crash could leave some of them; send an "
                "Idempotency-Key, with which a repeat completes the request, or fewer records",
            )
        return Stored({number: self._append(topic, number, batch) for number, batch in self._batches(topic, groups)})

    def store_once(self, name: bytes, topic: str, records: Sequence[Record], body: str) -> Stored:
        """Stores the request with a name of 16 bytes once.

        Refusal if another with it is in flight, or had another body.
        """
        with self._alone(name):
            intent = self._known(name)
            if intent is None:
                intent = self._intend(name, topic, records, body)
            elif intent.topic != topic or intent.body != body:
                raise Refusal(422, "another request has been sent with the same idempotency key")
            elif not intent.checked:
                self._look(name, intent)
            repeated = intent.found.keys() == intent.starts.keys()
            if not repeated:
                self._complete(name, intent, records)
            return Stored(dict(intent.found), repeated)

    def _complete(self, name: bytes, intent: Intent, records: Sequence[Record]) -> None:
        groups = grouped(records, intent.partitions, keyless=int.from_bytes(name[:4]))
        try:
            missing = {
                number: [Record(one.value, one.key, [*one.headers, (HEADER, name)]) for one in group]
                for number, group in groups.items()
                if number not in intent.found
            }
            for number, batch in self._batches(intent.topic, missing):
                intent.found[number] = self._append(intent.topic, number, batch)
        except (UsageError, TopicFull, DiskFull):  # which say that nothing of the batch is stored
            if not intent.found:
                self._give_up(name)
            raise

    # -- intents -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, name: bytes) -> Iterator[None]:
        with self._lock:
            if name in self._under_way:
                raise Refusal(409, "a request with the same idempotency key is under way", {"retry-after": "1"})
            self._under_way.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(name)

    def _known(self, name: bytes) -> Intent | None:
        with self._lock:
            if self._intents is None:
                self._intents = self._read_back()
            oldest = self._log.clock.now_ms() - KEPT_MS
            while self._intents and (first := next(iter(self._intents.items())))[1].time_ms < oldest:
                del self._intents[first[0]]
            return self._intents.get(name)

    def _intend(self, name: bytes, topic: str, records: Sequence[Record], body: str) -> Intent:
        count = self._log.topic(topic).partitions
        numbers = grouped(records, count, keyless=int.from_bytes(name[:4]))
        starts = {number: self._log.partition(topic, number).end_offset for number in numbers}
        intent = Intent(topic, body, count, starts, self._log.clock.now_ms())
        said = {"topic": topic, "body": body, "partitions": count, "from": starts}
        ensure_own_topic(self._log, TOPIC, CONFIGS)
        self._log.append(TOPIC, Record(json.dumps(said).encode(), name), partition=0)
        with self._lock:
            self._remembered()[name] = intent
        return intent

    def _give_up(self, name: bytes) -> None:
        """Nothing of it is stored. Should this note be lost, looking after a restart finds the same."""
        with self._lock:
            self._remembered().pop(name, None)
        self._log.append(TOPIC, Record(None, name), partition=0, durable=False)

    def _remembered(self) -> dict[bytes, Intent]:
        if self._intents is None:
            self._intents = self._read_back()
        return self._intents

    def _read_back(self) -> dict[bytes, Intent]:
        """Reads the intents that were written before this log was opened."""
        found: dict[bytes, Intent] = {}
        try:
            records = list(self._log.read(TOPIC))
        except UnknownTopic:
            return found
        for record in records:
            name = bytes(record.key or b"")
            found.pop(name, None)
            if record.value is not None:
                found[name] = _intent(json.loads(record.value), record.timestamp_ms)
        for intent in found.values():
            for number in intent.starts:
                self._ends.setdefault((intent.topic, number), self._end(intent.topic, number))
        return found

    def _end(self, topic: str, number: int) -> int:
        try:
            return self._log.partition(topic, number).end_offset
        except HeadwaterError:
            return 0  # it has been deleted since

    def _look(self, name: bytes, intent: Intent) -> None:
        for number, start in intent.starts.items():
            count = self._ends.get((intent.topic, number), 0) - start
            try:
                records = self._log.read(intent.topic, number, offset=start, limit=count) if count > 0 else iter(())
                offsets = [
                    record.offset
                    for record in records
                    if any(one == HEADER and value == name for one, value in record.headers)
                ]
            except OffsetOutOfRange:
                continue  # retention or a deletion took what followed; there is nothing to look at
            if offsets:
                intent.found[number] = Range(offsets[0], offsets[-1])
        intent.checked = True

    # -- records -----------------------------------------------------------------------------------------------------

    def _batches(self, topic: str, groups: Mapping[int, Sequence[Record]]) -> list[tuple[int, bytearray]]:
        """One batch for each partition. All are checked before the first is stored: none should be stored alone."""
        now_ms = self._log.clock.now_ms()
        bytes_max = self._log.settings.decompressed_bytes_max
        made = []
        for number, records in groups.items():
            batch = encode_batch([Record(one.value, one.key, one.headers, now_ms) for one in records])
            partition = self._log.partition(topic, number)
            settings, header = partition.settings, checked_header(batch)
            check_admission(topic, batch, header, settings, now_ms=now_ms, decompressed_bytes_max=bytes_max)
            check_room(partition.topic_partition, settings, size_bytes=partition.size_bytes, batch_bytes=len(batch))
            made.append((number, batch))
        return made

    def _append(self, topic: str, number: int, batch: bytearray) -> Range:
        """Durable when this returns. TopicFull also where a producer would wait: an HTTP client waits here too."""
        partition = self._log.partition(topic, number)
        appended = partition.append(batch, durable=True)
        partition.make_durable(appended.last_offset + 1)
        return Range(appended.base_offset, appended.last_offset)


def grouped(records: Sequence[Record], partitions: int, *, keyless: int) -> dict[int, list[Record]]:
    """Records by partition; the same for the same request, so that missing records can be found."""
    groups: dict[int, list[Record]] = {}
    for record in records:
        number = keyless % partitions if record.key is None else partition_of(record.key, partitions)
        groups.setdefault(number, []).append(record)
    return groups


def _intent(said: Mapping[str, Any], time_ms: int) -> Intent:
    starts = {int(number): int(offset) for number, offset in said["from"].items()}
    return Intent(said["topic"], said["body"], int(said["partitions"]), starts, time_ms, checked=False)
