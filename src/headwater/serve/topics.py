"""GET /topics: what there is, and records from an offset or a time."""

import asyncio
from threading import Event
from typing import Any

from headwater.errors import DamagedRange, OffsetOutOfRange, UnavailableError
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.log.reader import read_some, starting_offset
from headwater.log.topic import INTERNAL, Topic
from headwater.record import Record, whole_length
from headwater.serve.answers import Asked, Invalid
from headwater.serve.endpoints import Endpoint, Parameter, text, truth, whole
from headwater.serve.positions import LONGEST, PATTERN, next_offsets
from headwater.serve.records import RECORD, Decode, record_json, shown_damage, size_of

RECORDS_MAX = 1000
ANSWER_BYTES_MAX = 4 * 1024**2
UNPACKED_BYTES_MAX = 32 * 1024**2
"""Keys and values that one answer looks at, also where it shows only their beginnings."""
LARGE_WAIT_SECONDS = 0.2
"""How long a request waits for others that unpack large batches; it must not keep its thread from small requests."""
DAMAGED_MAX = 20
"""Ranges that one answer steps over: to find that a batch cannot be unpacked costs as much as to unpack it."""
VALUE_BYTES = 64 * 1024
PAUSE_SECONDS = 0.02
WAIT_MS_MAX = 30_000
LAST = 10**15
Rows = list[dict[str, Any]]

TOPIC = text("topic", "the name of the topic", in_path=True, longest=249, pattern=r"^[A-Za-z0-9._-]+$")
AT_LEAST = text(
    "at_least", "wait until what is read includes these records, as TOPIC/PARTITION@OFFSET", longest=LONGEST,
    pattern=PATTERN,
)  # fmt: skip
TIMEOUT = whole("timeout_ms", "how long to wait for at_least", least=0, most=WAIT_MS_MAX, default=10_000)
COUNT = {"type": "integer", "minimum": 0}
DESCRIBED: dict[str, Any] = {
    "type": "object",
    "required": ["name", "partitions", "records", "bytes"],
    "properties": {
        "name": {"type": "string"},
        "internal": {"type": "boolean"},
        "records": COUNT,
        "bytes": COUNT,
        "configs": {"type": "object", "additionalProperties": {"type": "string"}},
        "partitions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "partition": COUNT,
                    "first": COUNT,
                    "end": COUNT,
                    "bytes": COUNT,
                    "offline": {"type": "boolean"},
                    "unreadable": {
                        "type": "array",
                        "items": {"type": "object"},
                        "description": "ranges of offsets that are missing or in quarantine, and why",
                    },
                },
            },
        },
        "offline": {"type": "string", "description": "why the topic could not be opened; not there if it is"},
    },
}
READ: dict[str, Any] = {
    "type": "object",
    "required": ["topic", "partition", "first", "end", "next", "records"],
    "properties": {
        "topic": {"type": "string"},
        "partition": COUNT,
        "first": {**COUNT, "description": "the oldest offset that is kept"},
        "end": {**COUNT, "description": "the offset that the next record will have"},
        "next": {**COUNT, "description": "the offset of the next read; equal to end: there is no more"},
        "records": {"type": "array", "items": RECORD},
        "damaged": {
            "type": "array",
            "description": "ranges that cannot be read",
            "items": {"type": "object", "properties": {"first": COUNT, "end": COUNT, "reason": {"type": "string"}}},
        },
    },
}
READING: tuple[Parameter, ...] = (
    TOPIC,
    whole("partition", "which partition", least=0, most=9_999, default=0),
    whole("offset", "where to begin; counted from the end if it is negative", least=-LAST, most=LAST),
    whole("time_ms", "begin with the first record of this time or later", least=0, most=LAST),
    whole("limit", "records at most", least=1, most=RECORDS_MAX, default=100),
    whole("value_bytes", "longer keys and values are cut", least=0, most=ANSWER_BYTES_MAX, default=VALUE_BYTES),
    AT_LEAST,
    TIMEOUT,
)


async def pause(stopping: Event) -> None:
    """The pause between two checks of a waiting request.

    A node that stops neither waits for such requests nor delays them.
    """
    if stopping.is_set():
        raise UnavailableError("the node is being stopped; ask again when it is back")
    await asyncio.sleep(PAUSE_SECONDS)


class Topics:
    def __init__(self, log: Log, decode: Decode | None, wait_seconds_max: float, stopping: Event) -> None:
        self._log, self._decode, self._wait_seconds_max, self._stopping = log, decode, wait_seconds_max, stopping

    def endpoints(self) -> list[Endpoint]:
        many = {"type": "array", "items": DESCRIBED}
        hidden = truth("internal", "also those that the node keeps for itself", default=False)
        return [
            Endpoint("/topics", "All topics", self.listed, many, (hidden,), tag="topics", operation="listTopics"),
            Endpoint(
                "/topics/{topic}", "One topic", self.describe, DESCRIBED, (TOPIC,), (404,), tag="topics",
                operation="describeTopic",
            ),
            Endpoint(
                "/topics/{topic}/records", "Records of a topic, from an offset or a time", self.read, READ, READING,
                (404, 412, 416, 422), wait=self.wait, tag="topics", operation="readRecords",
            ),
        ]  # fmt: skip

    def listed(self, asked: Asked) -> object:
        topics = [self._described(topic) for topic in self._log.topics() if asked["internal"] or not topic.internal]
        offline = self._log.offline_topics().items()
        return topics + [_offline(name, why) for name, why in offline if asked["internal"] or name not in INTERNAL]

    def describe(self, asked: Asked) -> object:
        return self._described(self._log.topic(asked["topic"]))

    def _described(self, topic: Topic) -> dict[str, Any]:
        partitions = [self._log.partition(topic.name, number) for number in range(topic.partitions)]
        return {
            "name": topic.name,
            "internal": topic.internal,
            "records": sum(one.high_watermark - one.start_offset for one in partitions),
            "bytes": sum(one.size_bytes for one in partitions),
            "configs": dict(topic.configs),
            "partitions": [
                {
                    "partition": one.number,
                    "first": one.start_offset,
                    "end": one.high_watermark,
                    "bytes": one.size_bytes,
                    "offline": one.offline,
                    "unreadable": [
                        {"first": gap.first_offset, "end": gap.end_offset, "why": gap.why} for gap in one.unreadable
                    ],
                }
                for one in partitions
            ],
        }

    async def wait(self, asked: Asked) -> None:
        if asked["at_least"] is None:
            return
        try:
            async with asyncio.timeout(min(asked["timeout_ms"] / 1000, self._wait_seconds_max)):
                while not self._holds(asked["at_least"]):
                    await pause(self._stopping)  # appends wake threads, not loops
        except TimeoutError:
            raise Invalid(
                f"the log does not hold {asked['at_least'][:200]} yet; try again, or leave at_least away",
                status=412, name="LogBehind",
            ) from None  # fmt: skip

    def _holds(self, said: str) -> bool:
        return all(
            self._log.partition(topic, number).high_watermark >= offset
            for topic, offsets in next_offsets(said).items()
            for number, offset in offsets.items()
        )

    def read(self, asked: Asked) -> object:
        partition = self._log.partition(asked["topic"], asked["partition"])
        position = self._start(partition, asked)
        end = partition.high_watermark
        records: Rows = []
        damaged: Rows = []
        room, unpacked = ANSWER_BYTES_MAX, 0
        while position < end and len(records) < asked["limit"] and room > 0 and unpacked < UNPACKED_BYTES_MAX:
            try:
                found, following = read_some(
                    partition, position, self._log.settings.decompressed_bytes_max,
                    records_max=asked["limit"] - len(records), field_bytes_max=asked["value_bytes"],
                    wait_seconds=LARGE_WAIT_SECONDS,
                )  # fmt: skip
            except DamagedRange as damage:
                damaged.append(shown_damage(damage))
                position = damage.end
                if len(damaged) == DAMAGED_MAX:
                    break
                continue
            except UnavailableError:
                if not records:
                    raise
                break
            if following == position:
                break
            unpacked += sum(whole_length(record.value) + whole_length(record.key) for record in found)
            shown, room, position = self._shown(found, asked, room, following, end)
            records += shown
            found = []  # large values must not be kept while the next ones are waited for
        return {
            "topic": partition.topic,
            "partition": partition.number,
            "first": partition.start_offset,
            "end": end,
            "next": min(position, end),
            "records": records,
            **({"damaged": damaged} if damaged else {}),
        }

    def _shown(self, found: list[Record], asked: Asked, room: int, following: int, end: int) -> tuple[Rows, int, int]:
        """Records as JSON for as long as there is room; the room that is left, and the next offset."""
        shown: Rows = []
        for record in found:
            if room <= 0 or record.offset >= end:
                return shown, room, record.offset
            shown.append(record_json(record, asked["partition"], bytes_max=asked["value_bytes"], decode=self._decode))
            room -= size_of(record, asked["value_bytes"])
        return shown, room, following

    def _start(self, partition: Partition, asked: Asked) -> int:
        offset, time_ms = asked["offset"], asked["time_ms"]
        if offset is not None and time_ms is not None:
            raise Invalid("offset and time_ms both say where to begin; say one of them")
        if offset is not None and offset < 0:
            return max(partition.start_offset, partition.high_watermark + int(offset))
        if offset is not None and offset > partition.high_watermark:
            first, end = partition.start_offset, partition.high_watermark
            raise OffsetOutOfRange(partition.topic, partition.number, offset, first=first, end=end)
        return starting_offset(partition, offset=offset, time_ms=time_ms)


def _offline(name: str, why: str) -> dict[str, Any]:
    """A topic that could not be opened: nothing is known of it but its name."""
    return {
        "name": name,
        "internal": name in INTERNAL,
        "records": 0,
        "bytes": 0,
        "configs": {},
        "partitions": [],
        "offline": why,
    }
