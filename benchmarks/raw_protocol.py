"""Just enough of Kafka's protocol to load a broker without a client in the way: Produce 7, Fetch 11, and their answers.

Both are the last versions before flexible encoding, understood by every broker of the last years. Pure.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 7, 11
BATCH_HEADER_BYTES = 61

_PARTITION_ANSWER = struct.Struct(">ihqqqi")  # index, error, high watermark, last stable, log start, aborted count


class BrokerRefused(RuntimeError):
    """A broker under load answered with an error: the measurement would be worthless."""


class Fetched(NamedTuple):
    partition: int
    high_watermark: int
    next_offset: int
    """Where to go on; the offset asked for, if nothing came."""


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def frame(api_key: int, version: int, correlation: int, body: bytes) -> bytes:
    content = struct.pack(">hhi", api_key, version, correlation) + text("bench") + body
    return struct.pack(">i", len(content)) + content


def produce_request(topic: str, partition: int, batch: bytes | bytearray, *, acks: int) -> bytes:
    head = struct.pack(">hhii", -1, acks, 30_000, 1)
    return frame(
        PRODUCE,
        PRODUCE_VERSION,
        partition,
        head + text(topic) + struct.pack(">iii", 1, partition, len(batch)) + bytes(batch),
    )


def check_produce_response(content: bytes | memoryview) -> None:
    """`content` is what follows the length and the correlation id: one topic with one partition."""
    (name_length,) = struct.unpack_from(">h", content, 4)
    (error,) = struct.unpack_from(">h", content, 4 + 2 + name_length + 4 + 4)
    if error:
        raise BrokerRefused(f"Produce was answered with error {error}")


def fetch_request(
    topic: str, offsets: Mapping[int, int], *, bytes_max: int, partition_bytes_max: int, wait_ms: int
) -> bytes:
    head = struct.pack(">iiiibii", -1, wait_ms, 1, bytes_max, 0, 0, -1) + struct.pack(">i", 1) + text(topic)
    partitions = b"".join(
        struct.pack(">iiqqi", partition, -1, offset, -1, partition_bytes_max) for partition, offset in offsets.items()
    )
    tail = struct.pack(">i", 0) + text("")
    return frame(FETCH, FETCH_VERSION, 0, head + struct.pack(">i", len(offsets)) + partitions + tail)


def read_fetch_response(content: memoryview, asked: Mapping[int, int]) -> list[Fetched]:
    """What came for each partition; `content` is what follows the length and the correlation id."""
    error, _, topics = struct.unpack_from(">hii", content, 4)
    if error or topics == 0:
        raise BrokerRefused(f"Fetch was answered with error {error} and {topics} topics")
    place = 14
    (name_length,) = struct.unpack_from(">h", content, place)
    (count,) = struct.unpack_from(">i", content, place + 2 + name_length)
    place += 2 + name_length + 4
    fetched = []
    for _ in range(count):
        partition, error, high_watermark, _, _, aborted = _PARTITION_ANSWER.unpack_from(content, place)
        if error:
            raise BrokerRefused(f"Fetch of partition {partition} was answered with error {error}")
        place += _PARTITION_ANSWER.size + 16 * max(0, aborted) + 4
        (length,) = struct.unpack_from(">i", content, place)
        place += 4
        records = content[place : place + max(0, length)]
        fetched.append(Fetched(partition, high_watermark, next_offset(records, asked[partition])))
        place += max(0, length)
    return fetched


def next_offset(records: memoryview, asked: int) -> int:
    """The offset behind the last whole batch."""
    place = 0
    while place + BATCH_HEADER_BYTES <= len(records):
        base, length = struct.unpack_from(">qi", records, place)
        if place + 12 + length > len(records):
            break
        (last_delta,) = struct.unpack_from(">i", records, place + 23)
        asked = base + last_delta + 1
        place += 12 + length
    return asked
