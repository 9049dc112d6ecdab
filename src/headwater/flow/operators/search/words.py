"""Where words of texts begin and end (compiled, pure): the word boundaries of Unicode (UAX #29) that separate words.

Marks belong to the letter before them. An ideograph, and a letter of Hiragana, is a word of its own; words of writing
that sets no spaces (Thai, Lao, Khmer) stay together. Signs, and rows of them, are no words.
"""

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.spark_hashes import text_bytes
from headwater.flow.state.runs.equality import Integers

OTHER, LETTER, DIGIT, CONNECTOR, KATAKANA, ALONE, MARK, IN_WORDS, IN_NUMBERS, IN_BOTH = range(10)
IDEOGRAPHS = ((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3041, 0x309F), (0x3400, 0x4DBF),
              (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))  # fmt: skip
KATAKANAS = ((0x3031, 0x3035), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D))
BETWEEN = {
    IN_WORDS: "\u00b7\u0387\u055f\u05f4\u2027\ufe13", IN_BOTH: "'.\u2018\u2019\u2024\ufe52\uff07\uff0e",
    IN_NUMBERS: ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b",
}  # fmt: skip
CODES = 0x110000


class Found(NamedTuple):
    """Words in the order of texts: which text each is in, its place there, and the bytes of the column it lies at."""

    texts: Integers
    places: Integers
    begins: Integers
    ends: Integers


def found_words(column: pa.Array) -> Found:
    data, starts, ends, there = text_bytes(column)
    return Found(*_words(data, starts, ends, there, classes()))


@cache
def classes() -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """What each code point is to words."""
    by_category = {"L": LETTER, "N": OTHER, "M": MARK, "P": OTHER, "S": OTHER, "Z": OTHER, "C": OTHER}
    exact = {"Nd": DIGIT, "Pc": CONNECTOR, "Nl": LETTER, "Cf": MARK}
    known = {name: exact.get(name, by_category[name[0]]) for name in _categories()}
    made = np.fromiter((known[unicodedata.category(chr(code))] for code in range(CODES)), np.uint8, CODES)
    for kind, ranges in ((ALONE, IDEOGRAPHS), (KATAKANA, KATAKANAS)):
        for first, last in ranges:
            letters = made[first : last + 1]
            letters[letters == LETTER] = kind
    for kind, signs in BETWEEN.items():
        made[[ord(sign) for sign in signs]] = kind
    made[0x200B] = OTHER  # a space without width
    return made


def _categories() -> set[str]:
    return {unicodedata.category(chr(code)) for code in range(CODES)}


@njit(cache=True, nogil=True)
def _code(data, at):  # type: ignore[no-untyped-def]
    """The code point that begins at a byte of valid UTF-8, and its length."""
    first = np.int64(data[at])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return ((first & 0x1F) << 6) | (np.int64(data[at + 1]) & 0x3F), 2
    if first < 0xF0:
        code = ((first & 0x0F) << 12) | ((np.int64(data[at + 1]) & 0x3F) << 6) | (np.int64(data[at + 2]) & 0x3F)
        return code, 3
    code = ((first & 0x07) << 18) | ((np.int64(data[at + 1]) & 0x3F) << 12)
    return code | ((np.int64(data[at + 2]) & 0x3F) << 6) | (np.int64(data[at + 3]) & 0x3F), 4


@njit(cache=True, nogil=True)
def _follows(data, at, end, classes):  # type: ignore[no-untyped-def]
    """The kind of the next code point that is no mark, and where it ends."""
    while at < end:
        code, length = _code(data, at)
        kind = classes[code]
        at += length
        if kind != MARK:
            return kind, at
    return OTHER, at


@njit(cache=True, nogil=True)
def _word_end(data, begin, end, classes):  # type: ignore[no-untyped-def]
    """Where the word ends that begins at a letter, and whether there is any letter or digit in it."""
    code, length = _code(data, begin)
    kind = classes[code]
    at, counts = begin + length, kind != CONNECTOR
    while at < end:
        code, length = _code(data, at)
        after = classes[code]
        if after == MARK:
            at += length
            continue
        if kind == ALONE:
            break
        joins = after == kind or CONNECTOR in (kind, after)
        joins = joins or (kind == LETTER and after == DIGIT) or (kind == DIGIT and after == LETTER)
        if joins and after in (LETTER, DIGIT, CONNECTOR, KATAKANA):
            counts = counts or after != CONNECTOR
            kind, at = after, at + length
            continue
        if (kind == LETTER and after in (IN_WORDS, IN_BOTH)) or (kind == DIGIT and after in (IN_NUMBERS, IN_BOTH)):
            behind, next_at = _follows(data, at + length, end, classes)
            if behind == kind:
                at = next_at
                continue
        break
    return at, counts


@njit(cache=True, nogil=True)
def _words(data, starts, ends, there, classes):  # type: ignore[no-untyped-def]
    size, count = 1024, 0
    found = np.empty((4, size), np.int64)
    for text in range(len(starts)):
        if not there[text]:
            continue
        at, end, place = starts[text], ends[text], 0
        while at < end:
            code, length = _code(data, at)
            kind = classes[code]
            if kind not in (LETTER, DIGIT, CONNECTOR, KATAKANA, ALONE):
                at += length
                continue
            begin = at
            at, counts = _word_end(data, begin, end, classes)
            if not counts:
                continue
            if count == size:
                larger = np.empty((4, size * 2), np.int64)
                larger[:, :size] = found
                found, size = larger, size * 2
            found[0, count], found[1, count], found[2, count], found[3, count] = text, place, begin, at
            count, place = count + 1, place + 1
    return found[0, :count].copy(), found[1, :count].copy(), found[2, :count].copy(), found[3, :count].copy()


def cut(column: pa.Array, found: Found) -> pa.Array:
    """The words themselves."""
    data, *_ = text_bytes(column)
    lengths = found.ends - found.begins
    offsets = np.append(0, np.cumsum(lengths))
    copied = _copied(data, found.begins, offsets)
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(copied)]
    return pa.LargeStringArray.from_buffers(len(lengths), buffers[1], buffers[2])


@njit(cache=True, nogil=True)
def _copied(data, begins, offsets):  # type: ignore[no-untyped-def]
    made = np.empty(offsets[-1], np.uint8)
    for word in range(len(begins)):
        length = offsets[word + 1] - offsets[word]
        for byte in range(length):
            made[offsets[word] + byte] = data[begins[word] + byte]
    return made
