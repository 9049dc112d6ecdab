"""How far messages of the replication stream are what the compiled loops know. Compiled.

That is: rows of tables that have a program (program.py), whole and sound, and the begin and end of transactions that
pass at once. Messages are drawn in replication.py and pgoutput.py; no length is believed before it is compared with
what is there.
"""

import numpy as np

from headwater.capture.change import RECORDS_PER_CHANGE
from headwater.capture.postgresql.pgoutput import EPOCH_US
from headwater.capture.postgresql.rows import program as of
from headwater.capture.postgresql.rows.compiling import compiled, inner

INSIDE, ID, COMMIT, TIME_US, AT_ADDRESS, NUMBER, END = range(7)
"""Where among the messages the loops are: fields of `state`."""

ROWS, COMMITTED, FIRST_COMMIT, FIRST_ADDRESS, FIRST_NUMBER = range(5)
"""What `scan` has found: fields of `found`."""

DATA, DATA_BYTES = ord("w"), 25
BEGIN, COMMIT_MESSAGE, INSERT, UPDATE, DELETE = b"BCIUD"
BEGIN_BYTES, COMMIT_BYTES = 21, 26
NULL, TEXT = b"nt"
OLD, KEY, NEW = b"OKN"
SPACE, ZERO = b" 0"
TIME_US_MAX = 2**52  # a thousand times that still is a number of 64 bits


@inner
def int32(data, position):  # type: ignore[no-untyped-def]
    high = np.int64(data[position]) << 24 | np.int64(data[position + 1]) << 16
    return high | np.int64(data[position + 2]) << 8 | np.int64(data[position + 3])


@inner
def int64(data, position):  # type: ignore[no-untyped-def]
    return int32(data, position) << 32 | int32(data, position + 4)


@inner
def find(relations, id):  # type: ignore[no-untyped-def]
    low, high = 0, len(relations)
    while low < high:
        middle = (low + high) // 2
        if relations[middle] < id:
            low = middle + 1
        else:
            high = middle
    return low if low < len(relations) and relations[low] == id else -1


@inner
def _known(kind, data, start, end):  # type: ignore[no-untyped-def]
    """Whether the value is written in a way that `_fragment` knows."""
    if kind == of.NUMBER:
        return end > start
    if kind < of.DATE:
        return True
    last = data[end - 1] if end > start else 0
    if kind == of.DATE:
        return end - start == 10 or last == ord("y")
    split = end - start > 10 and data[start + 10] == SPACE
    if split and kind == of.TIMESTAMP:
        return last != ord("C")
    if split and data[end - 3] == ord("+") and data[end - 2] == ZERO and last == ZERO:
        return True
    return last == ord("y")


@inner
def _check_tuple(data, position, end, columns, first, count):  # type: ignore[no-untyped-def]
    """Returns the position after the tuple; -1 if it is not one of whole values that are known."""
    if end - position < 2 or (np.int64(data[position]) << 8 | np.int64(data[position + 1])) != count:
        return -1
    position += 2
    for column in range(first, first + count):
        if position >= end:
            return -1
        if data[position] == NULL:
            position += 1
        elif data[position] == TEXT and end - position >= 5:
            start = position + 5
            length = int32(data, position + 1)
            if length > end - start or not _known(columns[column, of.KIND], data, start, start + length):
                return -1
            position = start + length
        else:
            return -1
    return position


@inner
def read_tuple(data, position, count, cells):  # type: ignore[no-untyped-def]
    position += 2
    for column in range(count):
        if data[position] == NULL:
            cells[column, 0] = cells[column, 1] = -1
            position += 1
        else:
            cells[column, 0] = position + 5
            position += 5 + int32(data, position + 1)
            cells[column, 1] = position
    return position


@inner
def _same_key(programs, which, data, before, after):  # type: ignore[no-untyped-def]
    first = programs.tables[which, of.FIRST_KEY]
    for position in range(first, first + programs.tables[which, of.KEY_COUNT]):
        column = programs.keys[position]
        start, other = before[column, 0], after[column, 0]
        if before[column, 1] - start != after[column, 1] - other or (start < 0) != (other < 0):
            return False
        for step in range(before[column, 1] - start):
            if data[start + step] != data[other + step]:
                return False
    return True


@inner
def _sound(programs, data, body, end, before, after):  # type: ignore[no-untyped-def]
    """The table of a change, by its position among those that have a program; -1 if the change is not for the loops."""
    which = find(programs.relations, int32(data, body + 1)) if end - body >= 8 else -1
    if which < 0:
        return -1
    first, count = programs.tables[which, of.FIRST_COLUMN], programs.tables[which, of.COLUMN_COUNT]
    kind, marker = data[body], data[body + 5]
    position = _check_tuple(data, body + 6, end, programs.columns, first, count)
    if position < 0:
        return -1
    if kind == UPDATE and marker == OLD:
        if position >= end or data[position] != NEW:
            return -1
        after_new = _check_tuple(data, position + 1, end, programs.columns, first, count)
        if after_new < 0:
            return -1
        read_tuple(data, body + 6, count, before)
        read_tuple(data, position + 1, count, after)
        position = after_new
        if not _same_key(programs, which, data, before, after):
            return -1  # the row has moved: three records instead of one
    elif kind == DELETE:
        if marker != KEY and marker != OLD:
            return -1
    elif marker != NEW:
        return -1
    return which if position == end else -1


@inner
def pass_begin(data, body, end, state):  # type: ignore[no-untyped-def]
    if end - body != BEGIN_BYTES or state[INSIDE]:
        return False
    commit, time_us, id = int64(data, body + 1), int64(data, body + 9), int32(data, body + 17)
    if commit < 0 or id == 0 or not -EPOCH_US < time_us < TIME_US_MAX - EPOCH_US:
        return False
    state[INSIDE], state[ID], state[COMMIT], state[TIME_US], state[AT_ADDRESS] = 1, id, commit, time_us + EPOCH_US, -1
    return True


@inner
def pass_commit(data, body, end, state):  # type: ignore[no-untyped-def]
    if end - body != COMMIT_BYTES or not state[INSIDE] or int64(data, body + 10) < 0:
        return False
    state[INSIDE], state[END] = 0, int64(data, body + 10)
    return True


@inner
def advance(state, address):  # type: ignore[no-untyped-def]
    if address == state[AT_ADDRESS]:
        state[NUMBER] += RECORDS_PER_CHANGE
    else:
        state[AT_ADDRESS], state[NUMBER] = address, 0


@compiled
def scan(programs, data, ends, index, state, before, after, used, committed, found):  # type: ignore[no-untyped-def]
    """The index of the first message from `index` on that is not for the loops.

    `used` marks the tables that had rows, `committed` the transactions that have ended.
    """
    while index < len(ends) - 1:
        body, end = ends[index] + DATA_BYTES, ends[index + 1]
        if body >= end or data[ends[index]] != DATA:
            break
        kind, address = data[body], int64(data, ends[index] + 1)
        if kind == BEGIN:
            if not pass_begin(data, body, end, state):
                break
        elif kind == COMMIT_MESSAGE:
            if not pass_commit(data, body, end, state):
                break
            committed[found[COMMITTED]] = state[ID]
            found[COMMITTED] += 1
        elif kind in (INSERT, UPDATE, DELETE) and state[INSIDE]:
            # Positions must grow; an address that goes back is left to the assembler.
            which = _sound(programs, data, body, end, before, after) if address >= max(state[AT_ADDRESS], 0) else -1
            if which < 0:
                break
            advance(state, address)
            if found[ROWS] == 0:
                found[FIRST_COMMIT], found[FIRST_ADDRESS], found[FIRST_NUMBER] = state[COMMIT], address, state[NUMBER]
            found[ROWS] += 1
            used[which] = 1
        else:
            break
        index += 1
    return index
