"""Where partitions begin, end and are at a time: edges of a read to offsets."""

from collections.abc import Iterable, Mapping

from headwater.errors import InvalidSetting, OffsetOutOfRange
from headwater.flow.kafka.client import Client
from headwater.flow.kafka.messages import EARLIEST, LATEST
from headwater.flow.source.options import Edge
from headwater.log.batch_table import RECORD_COUNT, SIZE, find_batches
from headwater.record import TopicPartition

SAMPLE_BYTES = 64 * 1024


def places_of(partitions: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]


def latest(client: Client, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return client.offsets(dict.fromkeys(places, LATEST))


def resolve(client: Client, edge: Edge, places: Iterable[TopicPartition], *, name: str) -> dict[TopicPartition, int]:
    """Offsets for every partition. One that a time finds nothing in is read from its end on."""
    wanted = dict.fromkeys(places, edge.time_ms)
    for place, offset in (edge.offsets or {}).items():
        if place not in wanted:
            raise InvalidSetting(name, f"{place.topic}/{place.partition}", "the source reads no such partition")
        wanted[place] = offset if offset in (EARLIEST, LATEST) else LATEST
    found = client.offsets(wanted)
    missing = [place for place, offset in found.items() if offset < 0]
    if missing:
        found |= latest(client, missing)
    for place, offset in (edge.offsets or {}).items():
        if offset >= 0:
            found[place] = offset
    return found


def check_reachable(start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """A log that ends before what was read of it is not the log it was."""
    for place, end in ends.items():
        if start.get(place, 0) > end:
            error = OffsetOutOfRange(place.topic, place.partition, start[place], first=0, end=end)
            error.hint = (
                "The log ends before it: was the topic deleted and made again? Then start with a new checkpoint."
            )
            raise error


def bytes_per_row(client: Client, start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> float:
    """By a look at the first unread batches of the partition that has most to read; at least 1."""
    place = max(ends, key=lambda place: ends[place] - start.get(place, 0))
    try:
        fetched = client.fetch(place, start.get(place, 0), bytes_max=SAMPLE_BYTES)
    except OffsetOutOfRange:
        return 1.0
    table = find_batches(fetched.records)
    rows = int(table.column(RECORD_COUNT).sum())
    return max(1.0, int(table.column(SIZE).sum()) / rows) if rows > 0 else 1.0
