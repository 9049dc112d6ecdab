"""One pass over JSON text: is it well-formed, and where do the values of the wanted names lie? Compiled.

Strict as RFC 8259: no comments, no trailing commas, no NaN, no control characters in texts, nothing behind the value,
and texts are valid UTF-8. Of a name that occurs twice the last one counts. Objects and arrays inside are checked here
and taken apart later, by the same functions, if a column wants them.

A function returns the offset behind what it read, or a failure: a negative number that encodes offset and problem.
"""

from typing import NamedTuple

import numpy as np

from headwater.flow.formats.kernels.cells import (
    ARRAY,
    ESCAPED,
    FALSE,
    INTEGER,
    MISSING,
    NULL,
    NUMBER,
    OBJECT,
    SHORT_ESCAPES,
    TEXT,
    TRUE,
    ByteArray,
    Cells,
    Int32Array,
    cells_of,
    frozen,
    hexadecimal,
    unescape,
)
from headwater.flow.formats.kernels.compiling import compiled, hot, inlined, inner
from headwater.flow.formats.kernels.memory import (
    BACKSLASHES,
    ONES,
    QUOTES,
    SPACES,
    TOPS,
    address_of,
    byte_at,
    int32_at,
    put_byte,
    put_int32,
    trailing_zeros,
    word_at,
)
from headwater.flow.formats.kernels.utf8 import after_letter

DEPTH_MAX = 1000
PROBLEMS_MAX = 32

(
    NO_PROBLEM,
    NOT_OBJECT,
    UNFINISHED,
    NO_VALUE,
    NO_NAME,
    NO_COLON,
    NO_COMMA,
    CONTROL_CHARACTER,
    BAD_ESCAPE,
    BAD_UTF8,
    BAD_NUMBER,
    BEHIND_THE_END,
    TOO_DEEP,
) = range(13)

SENTENCES = {
    NOT_OBJECT: "a JSON object was expected, which begins with {",
    UNFINISHED: "the text ends too early",
    NO_VALUE: "a value was expected",
    NO_NAME: "a name in quotes was expected",
    NO_COLON: 'a ":" was expected',
    NO_COMMA: 'a "," or a closing bracket was expected',
    CONTROL_CHARACTER: "a control character stands in a text without being escaped",
    BAD_ESCAPE: "the letters behind a backslash have no meaning",
    BAD_UTF8: "the bytes are not UTF-8",
    BAD_NUMBER: "a number is not written as JSON wants it",
    BEHIND_THE_END: "something follows the object",
    TOO_DEEP: f"it is nested deeper than {DEPTH_MAX}",
}


def problem_of(failure: int) -> tuple[int, int]:
    """Place and problem of a failure."""
    return divmod(-failure - 1, PROBLEMS_MAX)


class NameTable(NamedTuple):
    """Names to look for. `heads` and `following` chain the names whose length and outer letters hash alike."""

    names: ByteArray
    bounds: Int32Array
    plain: ByteArray  # 1: the name stands in JSON as it is, so bytes can be compared at once
    heads: Int32Array
    following: Int32Array

    @classmethod
    def of(cls, names: list[str]) -> "NameTable":
        raw = [name.encode() for name in names]
        bounds = np.zeros(len(raw) + 1, dtype=np.int32)
        bounds[1:] = np.cumsum([len(name) for name in raw], dtype=np.int64)
        plain = np.array([all(byte >= 32 and byte not in b'"\\' for byte in name) for name in raw], dtype=np.uint8)
        heads, following = np.full(256, -1, dtype=np.int32), np.full(len(raw), -1, dtype=np.int32)
        for number, name in enumerate(raw):
            bucket = (len(name) * 31 + name[0] * 7 + name[-1]) & 255 if name else 0
            following[number], heads[bucket] = heads[bucket], number
        return cls(*map(frozen, (np.frombuffer(b"".join(raw), dtype=np.uint8), bounds, plain, heads, following)))


class Scanned(NamedTuple):
    columns: list[Cells]
    """Per name: its cells, one for each row."""
    failures: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    """0, or what is wrong with the row; then all its cells are MISSING."""


def scan_objects(cells: Cells, table: NameTable) -> Scanned:
    """Cells of every name in each OBJECT; rows of another kind have none."""
    shape = (len(table.plain), len(cells.kinds))
    starts, ends = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    kinds, failures = np.empty(shape, dtype=np.uint8), np.zeros(shape[1], dtype=np.int64)
    longest = int(np.diff(table.bounds).max(initial=0))
    scratch = np.empty(DEPTH_MAX + 6 * longest, dtype=np.uint8)  # an escape takes six bytes at most for each of a name
    _scan_objects(*cells, tuple(table), scratch, (starts, ends, kinds), failures)
    columns = [cells_of(cells.body, starts[name], ends[name], kinds[name]) for name in range(shape[0])]
    return Scanned(columns, failures)


class Elements(NamedTuple):
    """What stands in the arrays or objects of a column. Those of row i: offsets[i] to offsets[i + 1]."""

    offsets: Int32Array
    keys: Cells
    values: Cells


def scan_elements(cells: Cells, kind: int) -> Elements:
    """Elements of each ARRAY, or names and values of each OBJECT, that scan_objects has found well-formed."""
    lengths = (cells.ends - cells.starts)[cells.kinds == kind].astype(np.int64)
    room = int(((lengths - 1) // 2).sum())  # an element takes a byte and a comma at least
    offsets = np.zeros(len(cells.kinds) + 1, dtype=np.int32)
    keys = np.empty((2, room), dtype=np.int32), np.empty(room, dtype=np.uint8)
    values = np.empty((2, room), dtype=np.int32), np.empty(room, dtype=np.uint8)
    scratch = np.empty(DEPTH_MAX, dtype=np.uint8)
    count = _scan_elements(*cells, kind, scratch, offsets, *keys, *values)
    found = [
        cells_of(cells.body, bounds[0, :count], bounds[1, :count], kinds[:count]) for bounds, kinds in (keys, values)
    ]
    return Elements(offsets, *found)


@inlined
def _failure(offset, problem):  # type: ignore[no-untyped-def]
    return -(np.int64(offset) * PROBLEMS_MAX + problem) - 1


@hot
def _behind_space(body, offset, end):  # type: ignore[no-untyped-def]
    while offset < end:
        byte = byte_at(body, offset)
        if byte > 32 or not (byte == 32 or byte == 10 or byte == 13 or byte == 9):
            break
        offset += 1
    return offset


@hot
def _special(word):  # type: ignore[no-untyped-def]
    """Top bits of the bytes that do not stand for themselves in a text: quotes, backslashes, control characters and
    what is not ASCII. Exact for the lowest one, which is all that a reader needs."""
    quotes, backslashes = word ^ QUOTES, word ^ BACKSLASHES
    found = ((quotes - ONES) & ~quotes) | ((backslashes - ONES) & ~backslashes) | ((word - SPACES) & ~word) | word
    return found & TOPS


@hot
def _text(body, offset, end):  # type: ignore[no-untyped-def]
    """From behind the opening quote to the closing one; and whether there are escapes between them."""
    kind = TEXT
    while offset < end:
        if offset + 8 <= end:
            special = _special(word_at(body, offset))
            if special == 0:
                offset += 8
                continue
            offset += trailing_zeros(special) >> 3
        byte = byte_at(body, offset)
        if byte == 34:
            return offset, kind
        if byte == 92:
            kind = ESCAPED
            if offset + 1 < end and SHORT_ESCAPES[byte_at(body, offset + 1)]:
                offset += 2
            elif offset + 5 < end and byte_at(body, offset + 1) == 117 and hexadecimal(body, offset + 2) >= 0:
                offset += 6
            else:
                return _failure(offset, BAD_ESCAPE), kind
        elif byte < 32:
            return _failure(offset, CONTROL_CHARACTER), kind
        elif byte < 128:
            offset += 1
        else:
            after = after_letter(body, offset, end)
            if after < 0:
                return _failure(offset, BAD_UTF8), kind
            offset = after
    return _failure(end, UNFINISHED), kind


@hot
def _digits(body, offset, end):  # type: ignore[no-untyped-def]
    while offset < end and 48 <= byte_at(body, offset) <= 57:
        offset += 1
    return offset


@hot
def _number(body, offset, end):  # type: ignore[no-untyped-def]
    start = offset
    kind = INTEGER
    if byte_at(body, offset) == 45:
        offset += 1
    first = offset
    offset = _digits(body, offset, end)
    if offset == first or (byte_at(body, first) == 48 and offset > first + 1):
        return _failure(start, BAD_NUMBER), kind
    if offset < end and byte_at(body, offset) == 46:
        kind = NUMBER
        first = offset + 1
        offset = _digits(body, first, end)
        if offset == first:
            return _failure(start, BAD_NUMBER), kind
    if offset < end and (byte_at(body, offset) | 32) == 101:
        kind = NUMBER
        offset += 1
        if offset < end and (byte_at(body, offset) == 43 or byte_at(body, offset) == 45):
            offset += 1
        first = offset
        offset = _digits(body, offset, end)
        if offset == first:
            return _failure(start, BAD_NUMBER), kind
    return offset, kind


@inlined
def _word(body, offset, end, second, third, fourth):  # type: ignore[no-untyped-def]
    return (
        offset + 4 <= end
        and byte_at(body, offset + 1) == second
        and byte_at(body, offset + 2) == third
        and byte_at(body, offset + 3) == fourth
    )


@hot
def _scalar(body, offset, end):  # type: ignore[no-untyped-def]
    """Place behind a text, number or word, its kind, and how many quotes stand around it on each side."""
    if offset >= end:
        return _failure(end, UNFINISHED), MISSING, 0
    byte = byte_at(body, offset)
    if byte == 34:
        closing, kind = _text(body, offset + 1, end)
        return (closing + 1 if closing >= 0 else closing), kind, 1
    if byte == 45 or 48 <= byte <= 57:
        after, kind = _number(body, offset, end)
        return after, kind, 0
    if byte == 116 and _word(body, offset, end, 114, 117, 101):
        return offset + 4, TRUE, 0
    if byte == 110 and _word(body, offset, end, 117, 108, 108):
        return offset + 4, NULL, 0
    if byte == 102 and _word(body, offset + 1, end, 108, 115, 101) and byte_at(body, offset + 1) == 97:
        return offset + 5, FALSE, 0
    return _failure(offset, NO_VALUE), MISSING, 0


@hot
def _behind_colon(body, offset, end):  # type: ignore[no-untyped-def]
    """From behind a name to the value that belongs to it."""
    offset = _behind_space(body, offset, end)
    if offset >= end:
        return _failure(end, UNFINISHED)
    if byte_at(body, offset) != 58:
        return _failure(offset, NO_COLON)
    return _behind_space(body, offset + 1, end)


@inner
def _behind_name(body, offset, end):  # type: ignore[no-untyped-def]
    """Over a name that is not asked for and its colon."""
    if offset >= end:
        return _failure(end, UNFINISHED)
    if byte_at(body, offset) != 34:
        return _failure(offset, NO_NAME)
    closing, _ = _text(body, offset + 1, end)
    return closing if closing < 0 else _behind_colon(body, closing + 1, end)


@inner
def _behind_open(body, offset, end, opening):  # type: ignore[no-untyped-def]
    """From behind a comma or an opening bracket to the next value."""
    offset = _behind_space(body, offset, end)
    return _behind_name(body, offset, end) if opening == 123 else offset


@inner
def _nested(body, offset, end, open_brackets):  # type: ignore[no-untyped-def]
    """Over a whole array or object, from its opening bracket; brackets that are open wait on a stack."""
    depth = 0
    while True:
        byte = byte_at(body, offset) if offset < end else 0
        if byte == 123 or byte == 91:
            if depth == DEPTH_MAX - 1:
                return _failure(offset, TOO_DEEP)
            put_byte(open_brackets, depth, byte)
            depth += 1
            inside = _behind_space(body, offset + 1, end)
            if inside >= end or byte_at(body, inside) != byte + 2:  # in ASCII, a closing bracket is its opening one + 2
                offset = _behind_open(body, inside, end, byte)
                if offset < 0:
                    return offset
                continue
            offset = inside
        else:
            offset, _, _ = _scalar(body, offset, end)
            if offset < 0:
                return offset
            offset = _behind_space(body, offset, end)
        while offset < end and byte_at(body, offset) == byte_at(open_brackets, depth - 1) + 2:
            depth -= 1
            offset += 1
            if depth == 0:
                return offset
            offset = _behind_space(body, offset, end)
        if offset >= end:
            return _failure(end, UNFINISHED)
        if byte_at(body, offset) != 44:
            return _failure(offset, NO_COMMA)
        offset = _behind_open(body, offset + 1, end, byte_at(open_brackets, depth - 1))
        if offset < 0:
            return offset


@hot
def _value(body, offset, end, open_brackets):  # type: ignore[no-untyped-def]
    """Over any value: the offset behind it, its kind, and the quotes around it."""
    byte = byte_at(body, offset) if offset < end else 0
    if byte == 123:
        return _nested(body, offset, end, open_brackets), OBJECT, 0
    if byte == 91:
        return _nested(body, offset, end, open_brackets), ARRAY, 0
    return _scalar(body, offset, end)


@hot
def same_bytes(body, offset, end, names, first, last):  # type: ignore[no-untyped-def]
    """Does the body go on at this offset with these bytes of the names?"""
    if offset + (last - first) > end:
        return False
    for distance in range(last - first):  # noqa: SIM110  the compiler knows no all()
        if byte_at(body, offset + distance) != byte_at(names, first + distance):
            return False
    return True


@inner
def _named(body, start, end, table):  # type: ignore[no-untyped-def]
    """Number of the name that these bytes are; -1 if none."""
    names, bounds, _, heads, following, _, _ = table
    length = end - start
    bucket = 0
    if length > 0:
        bucket = (length * 31 + byte_at(body, start) * 7 + byte_at(body, end - 1)) & 255
    number = int32_at(heads, bucket)
    while number >= 0:
        first, last = int32_at(bounds, number), int32_at(bounds, number + 1)
        if last - first == length and same_bytes(body, start, end, names, first, last):
            return number
        number = int32_at(following, number)
    return number


@inner
def _named_in_escapes(body, start, end, table):  # type: ignore[no-untyped-def]
    """The same for a name with escapes; the scratch has room for every name that could be one of the table's."""
    scratch, room = table[5:]
    if end - start > room:
        return -1
    length = unescape(body, start, end, scratch, np.int64(0))
    return _named(scratch, np.int64(0), length, table) if length >= 0 else -1


@hot
def _expected(body, offset, end, table, number):  # type: ignore[no-untyped-def]
    """Place of the closing quote if just this name stands here; -1 if not. Most writers keep to one order of names, so
    that comparing with the next one finds it without looking it up."""
    names, bounds, plain = table[:3]
    first, last = int32_at(bounds, number), int32_at(bounds, number + 1)
    closing = offset + (last - first)
    if closing >= end or byte_at(body, closing) != 34 or not byte_at(plain, number):
        return -1
    return closing if same_bytes(body, offset, end, names, first, last) else -1


@hot
def _object(body, offset, end, table, count, cells, row, open_brackets):  # type: ignore[no-untyped-def]
    """Over the object of one row, noting the cells of the names; the offset behind it."""
    guess = np.int64(0)
    offset = _behind_space(body, offset + 1, end)
    if offset < end and byte_at(body, offset) == 125:
        return offset + 1
    while True:
        if offset >= end:
            return _failure(end, UNFINISHED)
        if byte_at(body, offset) != 34:
            return _failure(offset, NO_NAME)
        offset += 1
        number = guess
        closing = _expected(body, offset, end, table, guess) if guess < count else -1
        if closing < 0:
            closing, kind = _text(body, offset, end)
            if closing < 0:
                return closing
            if kind == TEXT:
                number = _named(body, offset, closing, table)
            else:
                number = _named_in_escapes(body, offset, closing, table)
        start = _behind_colon(body, closing + 1, end)
        if start < 0:
            return start
        offset, kind, quotes = _value(body, start, end, open_brackets)
        if offset < 0:
            return offset
        if number >= 0:
            starts, ends, kinds, rows = cells
            put_int32(starts, number * rows + row, start + quotes)
            put_int32(ends, number * rows + row, offset - quotes)
            put_byte(kinds, number * rows + row, kind)
            guess = number + 1
        offset = _behind_space(body, offset, end)
        if offset >= end:
            return _failure(end, UNFINISHED)
        if byte_at(body, offset) == 125:
            return offset + 1
        if byte_at(body, offset) != 44:
            return _failure(offset, NO_COMMA)
        offset = _behind_space(body, offset + 1, end)


@compiled
def _scan_objects(  # type: ignore[no-untyped-def]
    body, row_starts, row_ends, row_kinds, table_arrays, scratch, cell_arrays, failures
):
    names, bounds, plain, heads, following = table_arrays
    starts, ends, kinds = cell_arrays
    count, rows = kinds.shape
    text, open_brackets = address_of(body), address_of(scratch)
    table = (address_of(names), address_of(bounds), address_of(plain), address_of(heads), address_of(following),
             open_brackets + DEPTH_MAX, len(scratch) - DEPTH_MAX)  # fmt: skip
    cells = (address_of(starts), address_of(ends), address_of(kinds), rows)
    for row in range(rows):
        for number in range(count):
            kinds[number, row] = MISSING
        if row_kinds[row] != OBJECT:
            continue
        end = np.int64(row_ends[row])
        offset = _behind_space(text, np.int64(row_starts[row]), end)
        if offset >= end or byte_at(text, offset) != 123:
            offset = _failure(offset, NOT_OBJECT)
        else:
            offset = _object(text, offset, end, table, count, cells, row, open_brackets)
        if offset >= 0:
            offset = _behind_space(text, offset, end)
            if offset < end:
                offset = _failure(offset, BEHIND_THE_END)
        if offset < 0:
            failures[row] = offset
            for number in range(count):
                kinds[number, row] = MISSING


@compiled
def _scan_elements(  # type: ignore[no-untyped-def]
    body, starts, ends, kinds, wanted, scratch, offsets, key_bounds, key_kinds, value_bounds, value_kinds
):
    text, open_brackets = address_of(body), address_of(scratch)
    count = 0
    for row in range(len(starts)):
        if kinds[row] == wanted:
            end = np.int64(ends[row]) - 1
            offset = _behind_space(text, np.int64(starts[row]) + 1, end)
            while offset < end:
                if wanted == OBJECT:
                    closing, kind = _text(text, offset + 1, end)
                    key_bounds[0, count], key_bounds[1, count], key_kinds[count] = offset + 1, closing, kind
                    offset = _behind_colon(text, closing + 1, end)
                after, kind, quotes = _value(text, offset, end, open_brackets)
                value_bounds[0, count], value_bounds[1, count] = offset + quotes, after - quotes
                value_kinds[count] = kind
                count += 1
                offset = _behind_space(text, _behind_space(text, after, end) + 1, end)
        offsets[row + 1] = count
    return count
