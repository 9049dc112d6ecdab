"""Long rows of values that any language can make again, and a digest that proves bytes and order of a whole row."""

import hashlib
from collections.abc import Iterable, Iterator

BLOCK = b"abcdefghijklmnopqrstuvwxyz0123456789" * 8


def numbered_value(partition: int, number: int) -> bytes:
    """Lengths vary from a few bytes to about 190, so that batches never line up.

    >>> numbered_value(3, 2)
    b'3:2:cdefghijklmnop'
    """
    start = number % 36
    return b"%d:%d:%s" % (partition, number, BLOCK[start : start + number * 7 % 180])


def numbered_values(partition: int, count: int) -> Iterator[bytes]:
    return (numbered_value(partition, number) for number in range(count))


def digest(values: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\n".join(values)).hexdigest()


def expected_digests(partitions: int, count: int) -> dict[int, str]:
    return {partition: digest(numbered_values(partition, count)) for partition in range(partitions)}
