"""Which partition a record goes to: by its key, with the hash that Kafka's Java client and its kin use. Pure."""

import itertools
from collections.abc import Iterable

from headwater.record import Record

_rotation = itertools.count()


def choose_partitions(records: Iterable[Record], partitions: int) -> dict[int, list[Record]]:
    """Records by partition, in their order. Those without a key stay together, elsewhere each time."""
    keyless = next(_rotation) % partitions
    chosen: dict[int, list[Record]] = {}
    for record in records:
        number = keyless if record.key is None else partition_of(record.key, partitions)
        chosen.setdefault(number, []).append(record)
    return chosen


def partition_of(key: bytes, partitions: int) -> int:
    """
    >>> partition_of(b"ada", 8)
    5
    """
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with the seed that Kafka's clients use; returns an unsigned number.

    >>> murmur2(b"21")
    3321034988
    """
    multiplier, mask = 0x5BD1E995, 0xFFFF_FFFF
    whole = len(data) & ~3
    state = (0x9747B28C ^ len(data)) & mask
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        word = (word ^ (word >> 24)) * multiplier & mask
        state = (state * multiplier & mask) ^ word
    tail = data[whole:]
    if tail:
        state = (state ^ int.from_bytes(tail, "little")) * multiplier & mask
    state = (state ^ (state >> 13)) * multiplier & mask
    return state ^ (state >> 15)
