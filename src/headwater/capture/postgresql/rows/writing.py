"""Messages that were scanned into contents of records, byte for byte as assembler.py and envelope.py would. Compiled.

It believes lengths, because `scan` has compared them with what is there. Each function that writes answers the cursor
after what it wrote. Contents of records are drawn in log/record_contents.py.
"""

from typing import NamedTuple

import numpy as np

from headwater.capture import last_values
from headwater.capture.postgresql.rows import program as of
from headwater.capture.postgresql.rows.compiling import compiled, inner
from headwater.capture.postgresql.rows.program import ByteArray, Int64Array
from headwater.capture.postgresql.rows.scanning import (
    AT_ADDRESS,
    BEGIN,
    COMMIT,
    COMMIT_MESSAGE,
    DATA_BYTES,
    DELETE,
    ID,
    INSERT,
    KEY,
    NEW,
    NUMBER,
    TIME_US,
    UPDATE,
    advance,
    find,
    int32,
    int64,
    pass_begin,
    pass_commit,
    read_tuple,
)
from headwater.capture.postgresql.rows.values import decimal, decimal_size, fragment, hexadecimal, hexadecimal_size
from headwater.log.kernels import copy, murmur2, write_varint

RECORDS, NOTES, USED, LAST_MS = range(4)  # how far `write` has come
HEAD_BYTES, POSITION_BYTES, HEAD_OF = range(3)  # what of `Scratch` is valid
LENGTH_BYTES = 2  # that most lengths of values take
SLASH, COMMA, OPEN, CLOSE = b"/,{}"
BETWEEN = last_values.BETWEEN[0]


class Routes(NamedTuple):
    """Where records go, for each table that has a program."""

    partitions: Int64Array
    slots: Int64Array
    """The number of its first partition."""

    followed: Int64Array
    """Whether the last values of its keys are kept (last_values.py): set by the first row that is wide."""


class Scratch(NamedTuple):
    before: Int64Array
    after: Int64Array
    """Where each value of a row lies in the message; from -1 if it is NULL."""

    fragments: Int64Array
    """Where each fragment of the new row of a change was written."""

    head: ByteArray
    """`source` up to the address, of the table HEAD_OF and the transaction of now."""

    position: ByteArray
    """The position up to the address."""

    valid: Int64Array


class Output(NamedTuple):
    target: ByteArray
    records: Int64Array
    """Of each: start and end of its content, time, bytes of key and value, slot."""

    notes: Int64Array
    """For last values: table, start and end of the key, of the fragments; from -1 for a deleted or narrow row."""

    lasts: Int64Array
    """Of each slot: commit, address and number of its last record."""

    progress: Int64Array


@inner
def _word(target, cursor, programs, word):  # type: ignore[no-untyped-def]
    return copy(target, cursor, programs.text, programs.words[word, 0], programs.words[word, 1])


@inner
def _write_value(target, cursor, programs, column, data, cells, which):  # type: ignore[no-untyped-def]
    if cells[column, 0] < 0:
        return _word(target, cursor, programs, of.NONE)
    kind = programs.columns[programs.tables[which, of.FIRST_COLUMN] + column, of.KIND]
    return fragment(target, cursor, data, cells[column, 0], cells[column, 1], kind)


@inner
def _write_object(target, cursor, programs, which, data, cells, identity_only, fragments):  # type: ignore[no-untyped-def]
    """Writes a row; returns the cursor after it, and how many bytes its values take."""
    first, width, begin = programs.tables[which, of.FIRST_COLUMN], 0, cursor
    target[cursor] = OPEN
    for column in range(programs.tables[which, of.COLUMN_COUNT]):
        if identity_only and not programs.columns[first + column, of.IDENTITY]:
            continue
        if cursor > begin:
            target[cursor] = COMMA
        start, end = programs.columns[first + column, of.NAME_START], programs.columns[first + column, of.NAME_END]
        value = copy(target, cursor + 1, programs.text, start, end)
        cursor = _write_value(target, value, programs, column, data, cells, which)
        fragments[column, 0], fragments[column, 1] = value, cursor
        width += cursor - value
    if cursor == begin:
        cursor += 1
    target[cursor] = CLOSE
    return cursor + 1, width


@inner
def _write_key(target, cursor, programs, which, data, cells, identity_only):  # type: ignore[no-untyped-def]
    """Writes the key with its length before it; returns the cursor after it, and where it begins."""
    table = programs.tables[which]
    if not table[of.KEY_COUNT]:
        return write_varint(target, cursor, -1), -1
    begin = at = cursor + 5
    target[at] = OPEN
    for number in range(table[of.FIRST_KEY], table[of.FIRST_KEY] + table[of.KEY_COUNT]):
        column = programs.keys[number]
        if at > begin:
            target[at] = COMMA
        facts = programs.columns[table[of.FIRST_COLUMN] + column]
        at = copy(target, at + 1, programs.text, facts[of.NAME_START], facts[of.NAME_END])
        if identity_only and not facts[of.IDENTITY]:
            at = _word(target, at, programs, of.NONE)
        else:
            at = _write_value(target, at, programs, column, data, cells, which)
    target[at] = CLOSE
    start = write_varint(target, cursor, at + 1 - begin)
    for step in range(at + 1 - begin):
        target[start + step] = target[begin + step]
    return start + at + 1 - begin, start


@inner
def _write_head(programs, which, state, scratch):  # type: ignore[no-untyped-def]
    target, table, time_us = scratch.head, programs.tables[which], state[TIME_US]
    cursor = copy(target, 0, programs.text, table[of.HEAD_START], table[of.HEAD_END])
    cursor = _word(target, decimal(target, cursor, time_us // 1000), programs, of.TS_US)
    cursor = _word(target, decimal(target, cursor, time_us), programs, of.TS_NS)
    cursor = decimal(target, cursor, time_us * 1000)
    cursor = copy(target, cursor, programs.text, table[of.NAMED_START], table[of.NAMED_END])
    cursor = _word(target, decimal(target, cursor, state[ID]), programs, of.SEQUENCE)
    cursor = _word(target, decimal(target, cursor, state[COMMIT]), programs, of.ADDRESS)
    scratch.valid[HEAD_BYTES], scratch.valid[HEAD_OF] = cursor, which


@inner
def _begin_position(state, generation, scratch):  # type: ignore[no-untyped-def]
    """Writes the commit; after a generation, which counts 64 bits above, all of its digits are written."""
    cursor = copy(scratch.position, 0, generation, 0, len(generation))
    size = 16 if cursor else hexadecimal_size(state[COMMIT])
    cursor = hexadecimal(scratch.position, cursor, state[COMMIT], size)
    scratch.position[cursor] = SLASH
    scratch.valid[POSITION_BYTES], scratch.valid[HEAD_OF] = cursor + 1, -1


@inner
def _write_headers(target, cursor, programs, scratch, address, number):  # type: ignore[no-untyped-def]
    cursor = _word(target, cursor, programs, of.HEADERS)
    prefix, high, low = scratch.valid[POSITION_BYTES], hexadecimal_size(address), decimal_size(number)
    cursor = write_varint(target, cursor, prefix + high + 1 + low)
    cursor = copy(target, cursor, scratch.position, 0, prefix)
    cursor = hexadecimal(target, cursor, address, high)
    target[cursor] = SLASH
    return decimal(target, cursor + 1, number)


@inner
def _close_value(target, cursor, begin, end):  # type: ignore[no-untyped-def]
    """Put the length before a value that was written LENGTH_BYTES after `cursor`, and is moved if it takes more."""
    length = end - begin
    start = cursor + 1
    left = length >> 6
    while left:
        left >>= 7
        start += 1
    if start > begin:
        for step in range(length):
            target[start + length - 1 - step] = target[begin + length - 1 - step]
    elif start < begin:
        for step in range(length):
            target[start + step] = target[begin + step]
    write_varint(target, cursor, length)
    return start + length


@inner
def _write_envelope(target, cursor, programs, which, data, kind, marker, state, closing, scratch):  # type: ignore[no-untyped-def]
    """Writes the value with its length; returns the cursor after it, its bytes, and those of the row's values."""
    begin, width = cursor + LENGTH_BYTES, 0
    at = _word(target, begin, programs, of.BEFORE)
    if marker == NEW:
        at = _word(target, at, programs, of.NONE)
    else:
        at, width = _write_object(
            target, at, programs, which, data, scratch.before, marker == KEY, scratch.fragments
        )  # fmt: skip
    at = _word(target, at, programs, of.AFTER)
    if kind == DELETE:
        at = _word(target, at, programs, of.NONE)
    else:
        at, width = _write_object(target, at, programs, which, data, scratch.after, False, scratch.fragments)
    at = _word(target, at, programs, of.SOURCE)
    if scratch.valid[HEAD_OF] != which:
        _write_head(programs, which, state, scratch)
    at = copy(target, at, scratch.head, 0, scratch.valid[HEAD_BYTES])
    address = at
    at = decimal(target, at, state[AT_ADDRESS])
    size = at - address
    at = _word(target, at, programs, of.LSN)
    at = _word(target, copy(target, at, target, address, address + size), programs, of.TRANSACTION)
    target[at] = ord("c") if kind == INSERT else ord("u") if kind == UPDATE else ord("d")
    at = copy(target, at + 1, closing, 0, len(closing))
    return _close_value(target, cursor, begin, at), at - begin, width


@inner
def _add(out, start, end, time_ms, size, slot, state, number):  # type: ignore[no-untyped-def]
    row = out.records[out.progress[RECORDS]]
    row[0], row[1], row[2], row[3], row[4] = start, end, time_ms, size, slot
    out.lasts[slot, 0], out.lasts[slot, 1], out.lasts[slot, 2] = state[COMMIT], state[AT_ADDRESS], number
    out.progress[RECORDS] += 1
    out.progress[USED] = end
    out.progress[LAST_MS] = time_ms


@inner
def _note(out, which, key, key_end, wide, count, followed, fragments, moved):  # type: ignore[no-untyped-def]
    """Notes what last_values.py needs of a change; the fragments of a wide row are put after the record.

    `moved`: how far the value has been moved since its fragments were written, to make room for its length.
    """
    if not wide and not followed[which]:
        return
    row, target, cursor = out.notes[out.progress[NOTES]], out.target, out.progress[USED]
    row[0], row[1], row[2], row[3] = which, key, key_end, -1
    if wide:
        followed[which] = 1
        row[3] = cursor
        for column in range(count):
            if column:
                target[cursor] = BETWEEN
                cursor += 1
            for at in range(fragments[column, 0] + moved, fragments[column, 1] + moved):
                target[cursor] = target[at]
                cursor += 1
        row[4] = out.progress[USED] = cursor
    out.progress[NOTES] += 1


@inner
def _write_row(programs, data, body, which, state, routes, closing, now_ms, scratch, out):  # type: ignore[no-untyped-def]
    count, kind, marker = programs.tables[which, of.COLUMN_COUNT], data[body], data[body + 5]
    if marker == NEW:
        read_tuple(data, body + 6, count, scratch.after)
    else:
        cursor = read_tuple(data, body + 6, count, scratch.before)
        if kind == UPDATE:
            read_tuple(data, cursor + 1, count, scratch.after)
    cells = scratch.before if kind == DELETE else scratch.after
    target, start, number = out.target, out.progress[USED], state[NUMBER]
    key_end, key = _write_key(target, start, programs, which, data, cells, marker == KEY)
    key_size, slot = key_end - key if key >= 0 else 0, routes.slots[which]
    if key >= 0 and routes.partitions[which] > 1:
        slot += (np.int64(murmur2(target, key, key_end)) & np.int64(0x7FFFFFFF)) % routes.partitions[which]
    cursor, size, width = _write_envelope(
        target, key_end, programs, which, data, kind, marker, state, closing, scratch
    )  # fmt: skip
    end = _write_headers(target, cursor, programs, scratch, state[AT_ADDRESS], number)
    time_ms = min(state[TIME_US] // 1000, now_ms)
    _add(out, start, end, time_ms, key_size + size, slot, state, number)
    if key < 0:
        return
    if kind == DELETE:
        cursor = write_varint(target, copy(target, end, target, start, key_end), -1)
        tombstone_end = _write_headers(target, cursor, programs, scratch, state[AT_ADDRESS], number + 1)
        _add(out, end, tombstone_end, time_ms, key_size, slot, state, number + 1)
    wide = kind != DELETE and width >= programs.tables[which, of.WIDE_BYTES]
    moved = cursor - size - (key_end + LENGTH_BYTES)
    _note(out, which, key, key_end, wide, count, routes.followed, scratch.fragments, moved)


@compiled
def write(programs, data, ends, index, stop, state, routes, generation, closing, now_ms, scratch, out):  # type: ignore[no-untyped-def]
    """Write what was scanned from `index` on. The index where it ended: before `stop` if there is no more room."""
    _begin_position(state, generation, scratch)
    while index < stop:
        body, end = ends[index] + DATA_BYTES, ends[index + 1]
        if data[body] == BEGIN:
            pass_begin(data, body, end, state)
            _begin_position(state, generation, scratch)
        elif data[body] == COMMIT_MESSAGE:
            pass_commit(data, body, end, state)
        else:
            which = find(programs.relations, int32(data, body + 1))
            if out.progress[USED] + programs.tables[which, of.FIXED_BYTES] + 24 * (end - body) > len(out.target):
                break
            advance(state, int64(data, ends[index] + 1))
            _write_row(programs, data, body, which, state, routes, closing, now_ms, scratch, out)
        index += 1
    return index
