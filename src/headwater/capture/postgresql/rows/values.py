"""Numbers and values as the text of JSON, byte for byte as types.py writes them. Compiled.

Each write function returns the position after what it wrote.
"""

import numpy as np

from headwater.capture.postgresql.rows import program as of
from headwater.capture.postgresql.rows.compiling import inner
from headwater.log.kernels import copy

QUOTE, BACKSLASH, SPACE, ZERO, NINE = b'"\\ 09'


# One function for each base: a division by what the compiler does not know takes twenty times as long.


@inner
def decimal_size(number):  # type: ignore[no-untyped-def]
    size, left = 1, np.uint64(number) // np.uint64(10)
    while left:
        left //= np.uint64(10)
        size += 1
    return size


@inner
def decimal(target, position, number):  # type: ignore[no-untyped-def]
    """A number that is not negative."""
    left, end = np.uint64(number), position + decimal_size(number)
    for step in range(end - position):
        target[end - 1 - step] = np.uint64(ZERO) + left % np.uint64(10)
        left //= np.uint64(10)
    return end


@inner
def hexadecimal_size(number):  # type: ignore[no-untyped-def]
    size, left = 1, np.int64(number) >> 4
    while left:
        left >>= 4
        size += 1
    return size


@inner
def hexadecimal(target, position, number, size):  # type: ignore[no-untyped-def]
    """As %X has it, with so many digits; a number that is not negative."""
    for step in range(size):
        digit = (np.int64(number) >> (4 * step)) & 15
        target[position + size - 1 - step] = digit + (ZERO if digit < 10 else ord("A") - 10)
    return position + size


@inner
def _write_escaped(target, position, byte):  # type: ignore[no-untyped-def]
    target[position] = BACKSLASH
    short = np.int64(0)
    if byte in (QUOTE, BACKSLASH):
        short = np.int64(byte)
    elif byte == 8:
        short = np.int64(ord("b"))
    elif byte == 9:
        short = np.int64(ord("t"))
    elif byte == 10:
        short = np.int64(ord("n"))
    elif byte == 12:
        short = np.int64(ord("f"))
    elif byte == 13:
        short = np.int64(ord("r"))
    if short:
        target[position + 1] = short
        return position + 2
    target[position + 1] = ord("u")
    for step in range(4):
        digit = (np.int64(byte) >> (12 - 4 * step)) & 15
        target[position + 2 + step] = digit + (ZERO if digit < 10 else ord("a") - 10)
    return position + 6


@inner
def _write_text(target, position, data, start, end):  # type: ignore[no-untyped-def]
    for at in range(start, end):
        byte = data[at]
        if byte >= SPACE and byte != QUOTE and byte != BACKSLASH:
            target[position] = byte
            position += 1
        else:
            position = _write_escaped(target, position, byte)
    return position


@inner
def _write_truth(target, position, truth):  # type: ignore[no-untyped-def]
    letters = b"true" if truth else b"false"
    for letter in letters:
        target[position] = letter
        position += 1
    return position


@inner
def fragment(target, position, data, start, end, kind):  # type: ignore[no-untyped-def]
    """The JSON of a value, as types.py has it."""
    if kind == of.NUMBER or (kind == of.FLOATING and end > start and ZERO <= data[end - 1] <= NINE):
        return copy(target, position, data, start, end)
    if kind == of.BOOLEAN or kind == of.BIT:
        return _write_truth(
            target, position, end - start == 1 and data[start] == (ord("t") if kind == of.BOOLEAN else 49)
        )
    target[position] = QUOTE
    begin = position + 1
    if kind == of.TEXT:
        position = _write_text(target, begin, data, start, end)
    else:
        position = copy(target, begin, data, start, end)
        if kind >= of.TIMESTAMP and end - start > 10 and data[start + 10] == SPACE:
            target[begin + 10] = ord("T")
            if kind == of.TIMESTAMP_WITH_ZONE:
                position -= 2
                target[position - 1] = ord("Z")
    target[position] = QUOTE
    return position + 1
