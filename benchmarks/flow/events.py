"""The events that windows are measured on: JSON of three fields, 2,000 a second, up to a second out of order.

All contenders get the same events: those that read files as a file with one event a line, the others as a topic.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.flow.orders import chunks, write_digits
from headwater.flow.kafka.client import Client
from headwater.flow.kafka.encoding import encode_records
from headwater.record import TopicPartition

SCHEMA = "key string, value double, at timestamp"
LATENESS = "2 seconds"
EVENTS_A_SECOND = 2000
DISORDER_MS = 1000
DAY_MS = 1_767_225_600_000
"""2026-01-01; less than an hour of events is measured."""
TEMPLATE = b'{"key":"k0000000","value":000.00,"at":"2026-01-01T00:00:00.000Z"}\n'
END = b'{"key":"end","value":0.0,"at":"2026-01-01T12:00:00.000Z"}\n'
"""One in each partition: time goes on, and everything before it can be closed."""

Int64Array = npt.NDArray[np.int64]


def texts(events: int, keys: int) -> Iterator[tuple[Int64Array, npt.NDArray[np.uint8]]]:
    """Times, and a matrix with a line in each row; the same in every run."""
    dice = np.random.default_rng(11)
    for numbers in chunks(events):
        times_ms = DISORDER_MS + numbers * 1000 // EVENTS_A_SECOND - dice.integers(0, DISORDER_MS, len(numbers))
        yield (
            times_ms,
            lines(times_ms, dice.integers(0, keys, len(numbers)), dice.integers(10_000, 100_000, len(numbers))),
        )


def lines(times_ms: Int64Array, keys: Int64Array, cents: Int64Array) -> npt.NDArray[np.uint8]:
    """
    >>> lines(np.array([61_500]), np.array([7]), np.array([12_345])).tobytes().decode()
    '{"key":"k0000007","value":123.45,"at":"2026-01-01T00:01:01.500Z"}\\n'
    """
    content = np.tile(np.frombuffer(TEMPLATE, np.uint8), (len(times_ms), 1))
    for before, number, width in (
        (b':"k', keys, 7),
        (b'value":', cents // 100, 3),
        (b'value":000.', cents % 100, 2),
        (b"01T", times_ms // 3_600_000, 2),
        (b"01T00:", times_ms // 60_000 % 60, 2),
        (b"01T00:00:", times_ms // 1000 % 60, 2),
        (b"01T00:00:00.", times_ms % 1000, 3),
    ):
        write_digits(content, TEMPLATE.index(before) + len(before), number, width)
    return content


def write_file(path: Path, events: int, keys: int) -> None:
    with path.open("wb") as file:
        for _, content in texts(events, keys):
            file.write(content.tobytes())


def fill(address: str, topic: str, *, partitions: int, events: int, keys: int) -> None:
    """A new topic with the events spread to its partitions one by one, and the end in each of them."""
    with Client(address) as client:
        client.create_topic(topic, partitions=partitions)
        for times_ms, content in texts(events, keys):
            for partition in range(partitions):
                own = slice(partition, None, partitions)
                _produce(client, TopicPartition(topic, partition), values(content[own]), DAY_MS + times_ms[own])
        for partition in range(partitions):
            end_ms = np.array([DAY_MS + 12 * 3_600_000], np.int64)
            _produce(client, TopicPartition(topic, partition), pa.array([END.rstrip()], pa.binary()), end_ms)


def values(content: npt.NDArray[np.uint8]) -> pa.Array:
    """Lines without their ends."""
    width = content.shape[1] - 1
    ends = np.arange(len(content) + 1, dtype=np.int32) * width
    text = np.ascontiguousarray(content[:, :width]).tobytes()
    return pa.BinaryArray.from_buffers(pa.binary(), len(content), [None, pa.py_buffer(ends), pa.py_buffer(text)])


def _produce(client: Client, place: TopicPartition, content: pa.Array, times_ms: Int64Array) -> None:
    client.produce({place: encode_records(None, content, times_ms)})
