"""What joins are measured on: JSON lines of two inputs, the same for all contenders as files and as topics.

left    {"id":…, "key":"k…", "value":…, "at":…}         events, or rows of a table
right   {"other":…, "key":"k…", "rate":…, "since":…}    events, versions of a table, or rows of one

interval   as many of either, 1,000 a second, up to a second out of order
as-of      one in twenty is a version of one of the keys
tables     one in ten is a row of the right, one for each key; each of the others meets one of them
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.flow.events import DAY_MS, DISORDER_MS, values
from benchmarks.flow.orders import chunks, write_digits
from headwater.flow.kafka.client import Client
from headwater.flow.kafka.encoding import encode_records
from headwater.record import TopicPartition

LEFT_SCHEMA = "id long, key string, value double, at timestamp"
RIGHT_SCHEMA = "other long, key string, rate double, since timestamp"
LATENESS = "2 seconds"
WITHIN_SECONDS = 10
A_SECOND = 2000
LEFT_LINE = b'{"id":100000000,"key":"k0000000","value":100.00,"at":"2026-01-01T00:00:00.000Z"}\n'
RIGHT_LINE = b'{"other":100000000,"key":"k0000000","rate":100.00,"since":"2026-01-01T00:00:00.000Z"}\n'
END_MS = 23 * 3_600_000
SHARES = {"interval": 0.5, "as-of": 0.05, "tables": 0.1}
"""Of all rows, how many are of the right."""
KINDS = tuple(SHARES)

Int64Array = npt.NDArray[np.int64]
Lines = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Input:
    """One side of a join."""

    kind: str
    side: int
    rows: int
    keys: int

    @property
    def count(self) -> int:
        right = int(self.rows * SHARES[self.kind])
        return right if self.side else self.rows - right

    def texts(self) -> Iterator[tuple[Int64Array, Lines]]:
        """Times, and a matrix with a line in each row; the same in every run."""
        dice = np.random.default_rng(11 + self.side)
        span_ms = self.rows * 1000 // A_SECOND
        for numbers in chunks(self.count):
            late = dice.integers(0, DISORDER_MS, len(numbers))
            times_ms = DISORDER_MS + numbers * span_ms // max(self.count, 1) - late
            keys = dice.integers(0, self.keys, len(numbers))
            if self.kind == "tables" and self.side:
                keys = numbers
            elif self.kind == "as-of" and self.side:
                # The first version of each key is there before the first event.
                keys = np.where(numbers < self.keys, numbers, keys)
                times_ms = np.where(numbers < self.keys, 0, times_ms)
            yield times_ms, lines(self.side, numbers, times_ms, keys, dice.integers(10_000, 100_000, len(numbers)))


def inputs(kind: str, rows: int, keys: int) -> tuple[Input, Input]:
    """Of a join of tables there are as many keys as rows of the right."""
    own = int(rows * SHARES[kind]) if kind == "tables" else keys
    return Input(kind, 0, rows, own), Input(kind, 1, rows, own)


def lines(side: int, ids: Int64Array, times_ms: Int64Array, keys: Int64Array, cents: Int64Array) -> Lines:
    """
    >>> lines(0, np.array([3]), np.array([61_500]), np.array([7]), np.array([12_345])).tobytes().decode()
    '{"id":100000003,"key":"k0000007","value":123.45,"at":"2026-01-01T00:01:01.500Z"}\\n'
    """
    template = RIGHT_LINE if side else LEFT_LINE
    content = np.tile(np.frombuffer(template, np.uint8), (len(ids), 1))
    number, point, clock = template.index(b":1") + 2, template.index(b".00,"), template.index(b"T00:")
    for place, figures, width in (
        (number, ids, 8),
        (template.index(b':"k') + 3, keys, 7),
        (point - 3, cents // 100, 3),
        (point + 1, cents % 100, 2),
        (clock + 1, times_ms // 3_600_000, 2),
        (clock + 4, times_ms // 60_000 % 60, 2),
        (clock + 7, times_ms // 1000 % 60, 2),
        (clock + 10, times_ms % 1000, 3),
    ):
        write_digits(content, place, figures, width)
    return content


def write_file(path: Path, one: Input) -> None:
    with path.open("wb") as file:
        for _, content in one.texts():
            file.write(content.tobytes())


def fill(address: str, topic: str, one: Input, *, partitions: int) -> None:
    """A new topic with the rows spread to its partitions one by one, and one far ahead in time at their ends."""
    with Client(address) as client:
        client.create_topic(topic, partitions=partitions)
        for times_ms, content in one.texts():
            for partition in range(partitions):
                own = slice(partition, None, partitions)
                _produce(client, TopicPartition(topic, partition), values(content[own]), DAY_MS + times_ms[own])
        for partition in range(partitions):
            last, id, nobody = np.array([END_MS]), np.array([99_999_999 - partition]), np.array([9_999_999])
            content = lines(one.side, id, last, nobody, np.array([10_000]))
            _produce(client, TopicPartition(topic, partition), values(content), DAY_MS + last)


def _produce(client: Client, place: TopicPartition, content: pa.Array, times_ms: Int64Array) -> None:
    if len(content):
        client.produce({place: encode_records(None, content, times_ms)})
