"""Where the values of one column lie in a body of text, and what kind each is. Compiled, no Python per row.

A scanner (JSON, CSV) finds the cells of every column in one pass over the text; each column is then converted on its
own, straight from the text. A cell is a half-open range of the body: texts without their quotes, objects and arrays
with their brackets.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.flow.formats.kernels.compiling import compiled, inner
from headwater.flow.formats.kernels.memory import address_of, byte_at, put_byte

ByteArray = npt.NDArray[np.uint8]
Int32Array = npt.NDArray[np.int32]

# What a cell is. TEXT can be taken as it stands, ESCAPED is a text with backslashes in it, INTEGER is a number without
# point and exponent.
MISSING, NULL, TRUE, FALSE, TEXT, ESCAPED, INTEGER, NUMBER, OBJECT, ARRAY = range(10)

# What became of a cell.
ABSENT, VALID, WRONG, PENDING = range(4)

HIGH_SURROGATE, LOW_SURROGATE, AFTER_SURROGATES = 0xD800, 0xDC00, 0xE000


def _short_escapes() -> ByteArray:
    """The byte that a letter behind a backslash stands for; 0 where the letter has no business there."""
    table = np.zeros(256, dtype=np.uint8)
    for letter, meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
        table[letter] = meaning
    return table


SHORT_ESCAPES = _short_escapes()


class Cells(NamedTuple):
    """Arrays are read-only, wherever they were made: the compiler would make a second version for writable ones."""

    body: ByteArray
    starts: Int32Array
    ends: Int32Array
    kinds: ByteArray

    def text(self, row: int) -> str:
        return bytes(self.body[self.starts[row] : self.ends[row]]).decode("utf-8", errors="replace")

    def having(self, chosen: Any) -> "Cells":
        """Only the chosen rows (a mask or indices) of the same body."""
        return cells_of(self.body, self.starts[chosen], self.ends[chosen], self.kinds[chosen])


def cells_of(body: ByteArray, starts: Int32Array, ends: Int32Array, kinds: ByteArray) -> Cells:
    return Cells(frozen(body), frozen(starts), frozen(ends), frozen(kinds))


def frozen(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def cells_of_values(values: pa.BinaryArray, kind: int) -> Cells:
    """One cell per value of an Arrow array, without copying; MISSING where it is null."""
    _, offsets, data = values.buffers()
    count = len(values)
    body = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(0, dtype=np.uint8)
    if not count:
        nothing = np.zeros(0, dtype=np.int32)
        return cells_of(body, nothing, nothing, np.zeros(0, dtype=np.uint8))
    bounds = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + count + 1]
    kinds = np.full(count, kind, dtype=np.uint8)
    if values.null_count:
        kinds[values.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return cells_of(body, bounds[:-1], bounds[1:], kinds)


def cells_of_spans(body: ByteArray, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], kind: int) -> Cells:
    """One cell per value in a body of less than 2 GiB; MISSING where its length is -1."""
    begins, sizes = starts.astype(np.int32), lengths.astype(np.int32)
    missing = sizes < 0
    kinds = np.full(len(begins), kind, dtype=np.uint8)
    if missing.any():
        kinds[missing], sizes[missing] = MISSING, 0
    return cells_of(body, begins, begins + sizes, kinds)


class Texts(NamedTuple):
    """The texts of cells, one after the other, as Arrow keeps a column of strings."""

    data: ByteArray
    offsets: Int32Array
    states: ByteArray

    def array(self, kind: pa.DataType) -> pa.Array:
        """All of them, absent ones as empty."""
        return pa.Array.from_buffers(kind, len(self.states), [None, *self.buffers()])

    def buffers(self) -> list[pa.Buffer]:
        return [pa.py_buffer(self.offsets), pa.py_buffer(self.data)]


def texts_of(cells: Cells) -> Texts:
    """What stands in each cell, without escapes. WRONG: half a surrogate pair, which no text can hold."""
    lengths = cells.ends - cells.starts
    data = np.empty(int(lengths[cells.kinds > NULL].sum(dtype=np.int64)), dtype=np.uint8)
    offsets = np.empty(len(lengths) + 1, dtype=np.int32)
    states = np.empty(len(lengths), dtype=np.uint8)
    used = _gather(*cells, data, offsets, states)
    return Texts(data[:used], offsets, states)


def without_escapes(cells: Cells) -> Cells:
    """The same cells with every ESCAPED one a TEXT, in a body of their own; a WRONG one stays ESCAPED."""
    texts = texts_of(cells)
    kinds = cells.kinds.copy()
    kinds[(kinds == ESCAPED) & (texts.states == VALID)] = TEXT
    return cells_of(texts.data, texts.offsets[:-1], texts.offsets[1:], kinds)


@compiled
def _gather(body, starts, ends, kinds, data, offsets, states):  # type: ignore[no-untyped-def]
    text, target = address_of(body), address_of(data)
    position = 0
    offsets[0] = 0
    for row in range(len(starts)):
        kind = kinds[row]
        states[row] = VALID if kind > NULL else ABSENT
        if kind == ESCAPED:
            after = unescape(text, np.int64(starts[row]), np.int64(ends[row]), target, position)
            if after < 0:
                states[row] = WRONG
            else:
                position = after
        elif kind > NULL:
            for place in range(starts[row], ends[row]):
                data[position] = body[place]
                position += 1
        offsets[row + 1] = position
    return position


@inner
def hexadecimal(body, position):  # type: ignore[no-untyped-def]
    """The number that four hexadecimal digits make; -1 if they are none."""
    number = np.int64(0)
    for place in range(position, position + 4):
        digit = byte_at(body, place)
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit <= 102:
            digit -= 87
        elif 65 <= digit <= 70:
            digit -= 55
        else:
            return -1
        number = number * 16 + digit
    return number


@inner
def unescape(body, start, end, target, position):  # type: ignore[no-untyped-def]
    """Write a text whose escapes are known to be well-formed; the place behind it, -1 for half a surrogate pair."""
    place = start
    while place < end:
        byte = byte_at(body, place)
        if byte != 92:
            put_byte(target, position, byte)
            position += 1
            place += 1
            continue
        letter = byte_at(body, place + 1)
        place += 2
        if letter != 117:
            put_byte(target, position, SHORT_ESCAPES[letter])
            position += 1
            continue
        code = hexadecimal(body, place)
        place += 4
        if HIGH_SURROGATE <= code < LOW_SURROGATE:
            if place + 6 > end or byte_at(body, place) != 92 or byte_at(body, place + 1) != 117:
                return -1
            low = hexadecimal(body, place + 2)
            place += 6
            if not LOW_SURROGATE <= low < AFTER_SURROGATES:
                return -1
            code = 0x10000 + ((code - HIGH_SURROGATE) << 10) + (low - LOW_SURROGATE)
        elif LOW_SURROGATE <= code < AFTER_SURROGATES:
            return -1
        position = _write_utf8(code, target, position)
    return position


@inner
def _write_utf8(code, target, position):  # type: ignore[no-untyped-def]
    if code < 0x80:
        put_byte(target, position, code)
        return position + 1
    if code < 0x800:
        put_byte(target, position, 0xC0 | (code >> 6))
    else:
        if code < 0x10000:
            put_byte(target, position, 0xE0 | (code >> 12))
        else:
            put_byte(target, position, 0xF0 | (code >> 18))
            position += 1
            put_byte(target, position, 0x80 | ((code >> 12) & 0x3F))
        position += 1
        put_byte(target, position, 0x80 | ((code >> 6) & 0x3F))
    put_byte(target, position + 1, 0x80 | (code & 0x3F))
    return position + 2
