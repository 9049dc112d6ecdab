"""The rows that all sections of flows read: JSON of five fields in exactly 100 bytes, made without a loop over rows."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.flow.kafka.client import Client
from headwater.flow.kafka.encoding import encode_records
from headwater.record import TopicPartition

SCHEMA = "id string, user_id long, amount decimal(12,2), currency string, at timestamp"
ROW_BYTES = 100
FIRST_USER = 10_000_000
ROWS_AT_ONCE = 200_000
FIRST_MS = 1_767_225_600_000
"""2026-01-01; a row comes every millisecond, so that less than a day's worth of rows has this date."""

TEMPLATE = b'{"id":"o-0000000","user_id":10000000,"amount":000.00,"currency":"EUR","at":"2026-01-01T00:00:00.0Z"}'

Int64Array = npt.NDArray[np.int64]
Digits = npt.NDArray[np.uint8]


def values_of(rows: Int64Array, users: Int64Array) -> pa.Array:
    """One JSON text for each row number, with the user that belongs to it.

    >>> values_of(np.array([61_500]), np.array([7]))[0].as_py().decode()
    '{"id":"o-0061500","user_id":10000007,"amount":715.00,"currency":"EUR","at":"2026-01-01T00:01:01.5Z"}'
    """
    content = np.tile(np.frombuffer(TEMPLATE, np.uint8), (len(rows), 1))
    cents = 10_000 + rows % 90_000
    for before, number, width in (
        (b'"o-', rows, 7),
        (b'user_id":', users + FIRST_USER, 8),
        (b'amount":', cents // 100, 3),
        (b"000.", cents % 100, 2),
        (b"01T", rows // 3_600_000, 2),
        (b"01T00:", rows // 60_000 % 60, 2),
        (b"01T00:00:", rows // 1000 % 60, 2),
        (b"01T00:00:00.", rows // 100 % 10, 1),
    ):
        write_digits(content, TEMPLATE.index(before) + len(before), number, width)
    ends = np.arange(len(rows) + 1, dtype=np.int32) * ROW_BYTES
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(content.tobytes())]
    )


def write_digits(content: Digits, place: int, numbers: Int64Array, width: int) -> None:
    for digit in range(width):
        content[:, place + digit] = numbers // 10 ** (width - 1 - digit) % 10 + ord("0")


def fill(address: str, topic: str, *, partitions: int, rows: int, users: int) -> None:
    """A new topic with these rows, spread to its partitions one by one; users are drawn, the same in every run."""
    with Client(address) as client:
        client.create_topic(topic, partitions=partitions)
    add(address, topic, rows=rows, users=users)


def add(address: str, topic: str, *, rows: int, users: int) -> None:
    dice = np.random.default_rng(7)
    with Client(address) as client:
        partitions = client.topics()[topic]
        for numbers in chunks(rows):
            drawn = dice.integers(0, users, len(numbers))
            for partition in range(partitions):
                own = numbers % partitions == partition
                batches = encode_records(None, values_of(numbers[own], drawn[own]), FIRST_MS + numbers[own])
                if batches:
                    client.produce({TopicPartition(topic, partition): batches})


def chunks(rows: int) -> Iterator[Int64Array]:
    for first in range(0, rows, ROWS_AT_ONCE):
        yield np.arange(first, min(first + ROWS_AT_ONCE, rows), dtype=np.int64)
