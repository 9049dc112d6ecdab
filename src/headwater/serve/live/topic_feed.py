"""A topic as it grows: records from the subscriber's own offsets on. The log keeps them; nothing is queued here."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from headwater.errors import DamagedRange, HeadwaterError, OffsetOutOfRange
from headwater.log.log import Log
from headwater.log.reader import read_some, starting_offset
from headwater.serve.answers import Invalid
from headwater.serve.live.events import Event, end
from headwater.serve.live.feeds import Bell, Shared, changed, pause_for
from headwater.serve.records import Decode, record_json, shown_damage, size_of

RECORDS_MAX = 200
EVENT_BYTES_MAX = 256 * 1024
VALUE_BYTES_MAX = 64 * 1024
SHARED_BYTES_MAX = 8 * 1024**2

Offsets = dict[int, int]


class Chunk(NamedTuple):
    records: list[dict[str, Any]]
    following: int
    bytes: int


def parse_offsets(said: str, partitions: Sequence[int]) -> Offsets:
    """
    >>> parse_offsets("0:17,1:9", [0, 1, 2])
    {0: 17, 1: 9}
    """
    found = {}
    for part in said.split(","):
        number, colon, offset = part.partition(":")
        if not colon or not (number + offset).isdecimal() or len(part) > 40 or int(number) not in partitions:
            raise Invalid(f"{said[:80]!r} is not an event id; give the id of the last event, such as 0:17,1:9")
        found[int(number)] = int(offset)
    return found


class TopicFeed:
    """All who follow one topic. Used on one event loop."""

    def __init__(self, log: Log, topic: str, threads: ThreadPoolExecutor, decode: Decode | None) -> None:
        self._log, self._topic, self._decode = log, topic, decode
        self._shared = Shared[Chunk](threads, lambda chunk: chunk.bytes, bytes_max=SHARED_BYTES_MAX)
        self._bell = Bell()
        self._loop = asyncio.get_running_loop()
        self._ringing = False
        count = log.topic(topic).partitions
        self._unsubscribe: list[Callable[[], None]] = [
            log.partition(topic, number).subscribe(self._grown) for number in range(count)
        ]
        self.subscribers = 0
        self.stopping = False

    @property
    def computed(self) -> int:
        return self._shared.computed

    def begin(self, numbers: Sequence[int], resumed: str, begin: str) -> Offsets:
        """Returns the offsets at which a subscriber starts. OffsetOutOfRange where retention has deleted them."""
        offsets = parse_offsets(resumed, numbers) if resumed else {}
        for number in numbers:
            partition = self._log.partition(self._topic, number)
            if number in offsets:
                starting_offset(partition, offset=offsets[number], time_ms=None)
            elif resumed or begin == "start":  # a partition created after the event is read from its start
                offsets[number] = partition.start_offset
            else:
                offsets[number] = partition.high_watermark
        return offsets

    async def follow(self, offsets: Offsets) -> AsyncIterator[Event | None]:
        offsets = dict(offsets)
        yield Event("records", {"records": []}, _id(offsets))
        while not self.stopping:
            rung = self._bell.rung
            try:
                records = await self._more(offsets)
            except OffsetOutOfRange as error:
                yield end("behind", f"records you have not read are no longer kept: {error}")
                return
            except HeadwaterError as error:
                yield end("gone", str(error))
                return
            if records:
                yield Event("records", {"records": records}, _id(offsets))
            elif not await changed(rung):
                yield None
        yield end("stopping", "the node stops; come back with the id of the last event")

    async def _more(self, offsets: Offsets) -> list[dict[str, Any]]:
        """Some records of each partition; moves the offsets on."""
        found: list[dict[str, Any]] = []
        for number, offset in offsets.items():
            partition = self._log.partition(self._topic, number)
            if offset < partition.high_watermark:
                asked = number, offset
                chunk = await self._shared.get(asked, lambda asked=asked: self._read(*asked))  # type: ignore[misc]
                found += chunk.records
                offsets[number] = chunk.following
        return found

    def _read(self, number: int, offset: int) -> Chunk:
        partition = self._log.partition(self._topic, number)
        try:
            bytes_max = self._log.settings.decompressed_bytes_max
            records, following = read_some(
                partition, offset, bytes_max, records_max=RECORDS_MAX, field_bytes_max=VALUE_BYTES_MAX
            )
        except DamagedRange as damage:
            hole = {"partition": number, "damaged": shown_damage(damage)}
            return Chunk([hole], damage.end, 100)
        end = partition.high_watermark
        shown: list[dict[str, Any]] = []
        size = 0
        for record in records:
            if record.offset >= end or len(shown) == RECORDS_MAX or size > EVENT_BYTES_MAX:
                return Chunk(shown, record.offset, size)
            shown.append(record_json(record, number, bytes_max=VALUE_BYTES_MAX, decode=self._decode))
            size += size_of(record, VALUE_BYTES_MAX)
        return Chunk(shown, min(following, end), size)

    def _grown(self) -> None:
        """Called on the thread that appended; several appends ring once."""
        if not self._ringing:
            self._ringing = True
            try:
                self._loop.call_soon_threadsafe(self._ring_soon)
            except RuntimeError:
                pass  # the port is closed

    def _ring_soon(self) -> None:
        self._loop.call_later(pause_for(self.subscribers) / 2, self._ring)

    def _ring(self) -> None:
        self._ringing = False
        self._bell.ring()

    def close(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def stop(self) -> None:
        self.stopping = True
        self._bell.ring()


def _id(offsets: Offsets) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in offsets.items())
