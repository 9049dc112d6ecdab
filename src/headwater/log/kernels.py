"""Small compiled functions that several loops share: numbers of a batch, bytes from here to there, Kafka's hash.

Loaded only where many records are handled at once: importing the compiler takes a second.
"""

import numpy as np

from headwater.log.compiling import compiled


@compiled
def _zigzag(value):  # type: ignore[no-untyped-def]
    return (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> np.int64(63))


@compiled
def varint_size(value):  # type: ignore[no-untyped-def]
    left = _zigzag(np.int64(value))
    size = 1
    while left > np.uint64(0x7F):
        left >>= np.uint64(7)
        size += 1
    return size


@compiled
def write_varint(target, position, value):  # type: ignore[no-untyped-def]
    """Returns the position after the varint, as every write function does."""
    left = _zigzag(np.int64(value))
    while left > np.uint64(0x7F):
        target[position] = np.uint8((left & np.uint64(0x7F)) | np.uint64(0x80))
        left >>= np.uint64(7)
        position += 1
    target[position] = np.uint8(left)
    return position + 1


@compiled
def read_varint(body, position, end):  # type: ignore[no-untyped-def]
    """Returns a zigzag number and the position after it; position -1 if it runs past the end."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        byte = np.uint64(body[position])
        position += 1
        number |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            half = np.int64(number >> np.uint64(1))
            return (~half if number & np.uint64(1) else half), position
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return np.int64(0), -1


@compiled
def copy(target, position, data, start, end):  # type: ignore[no-untyped-def]
    # Unsigned: an index that may be negative is looked at twice, and the copy is then fifty times as slow.
    first, to = np.uint64(start), np.uint64(position)
    for step in range(np.uint64(end - start)):
        target[to + np.uint64(step)] = data[first + np.uint64(step)]
    return position + end - start


@compiled
def murmur2(data, start, end):  # type: ignore[no-untyped-def]
    """As partitioner.py; 64-bit numbers cut to 32 bits after each multiplication."""
    multiplier, mask = np.uint64(0x5BD1E995), np.uint64(0xFFFFFFFF)
    length = end - start
    state = (np.uint64(0x9747B28C) ^ np.uint64(length)) & mask
    whole = start + (length & ~3)
    for position in range(start, whole, 4):
        word = np.uint64(data[position]) | np.uint64(data[position + 1]) << np.uint64(8)
        word |= np.uint64(data[position + 2]) << np.uint64(16) | np.uint64(data[position + 3]) << np.uint64(24)
        word = (word * multiplier) & mask
        word = ((word ^ (word >> np.uint64(24))) * multiplier) & mask
        state = ((state * multiplier) & mask) ^ word
    if whole < end:
        tail = np.uint64(0)
        for position in range(whole, end):
            tail |= np.uint64(data[position]) << np.uint64(8 * (position - whole))
        state = ((state ^ tail) * multiplier) & mask
    state = ((state ^ (state >> np.uint64(13))) * multiplier) & mask
    return state ^ (state >> np.uint64(15))
