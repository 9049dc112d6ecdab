"""Conditions that look back, computed for one row of one attempt (pure, compiled).

A condition is a table of instructions for a stack. Values are whole numbers (also decimals as their last digits, times,
dates, texts by their place in an order) or doubles, null, or an error. What it looks back at are slots: a value of a
row of the match, or a count, sum, least or greatest of values of some variables. A slot is kept for each row that the
match has so far, so that taking a row back costs nothing.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ROW, LAST, FIRST, COUNT, SUM, AVERAGE, LEAST, GREATEST, LABEL, NUMBER = range(10)
"""Kinds of slots. LABEL, which variable a row is of, and NUMBER, that of the match, are for measures alone."""
ALWAYS, COLUMN, CODE = range(3)
"""A condition that always holds, that is a column, or that is code."""
VALUE, NULL, ZERO, UNFIT = range(4)
"""What an instruction leaves: a value, none, or an error: a division by zero, a number that does not fit."""
(
    PUSH, WHOLE, REAL, NOTHING, ADD, SUBTRACT, MULTIPLY, NEGATE, ABSOLUTE, ADD_REAL, SUBTRACT_REAL, MULTIPLY_REAL,
    DIVIDE_REAL, NEGATE_REAL, ABSOLUTE_REAL, RESCALE, TO_REAL, EQUAL, LESS, LESS_EQUAL, EQUAL_REAL, LESS_REAL,
    LESS_EQUAL_REAL, AND, OR, NOT, IS_NULL, IS_NOT_NULL, COALESCE, CHOOSE, SAME, SAME_REAL, FITS,
) = range(33)  # fmt: skip
STACK = 64
NEVER_US = -(2**62)


class Conditions(NamedTuple):
    """The conditions of all variables over some rows."""

    kinds: Whole
    """For each variable: kind; its column, or where its code begins; where that ends; how many rows it looks ahead."""
    columns: Flags
    code: Whole
    numbers: Real
    slots: Whole
    """Kind, bits of variables, column, how many rows of these back, by how many rows beside it, is it a double."""
    whole: Whole
    real: Real
    there: Flags
    times: Whole


class Limits(NamedTuple):
    within_us: int
    """-1: none."""
    rows_max: int
    watermark_us: int
    tries_max: int


class Kept(NamedTuple):
    """Of each row that an attempt has taken: its variable, whether it is shown, and slots after it."""

    labels: Whole
    hidden: Flags
    whole: Whole
    real: Real
    counts: Whole


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _same(one: float, two: float) -> bool:
    return bool(one == two or (np.isnan(one) and np.isnan(two)))


@_compiled
def _less(one: float, two: float) -> bool:
    """NaN is greater than all numbers."""
    return bool(one < two or (np.isnan(two) and not np.isnan(one)))


@_compiled
def take(kept: Kept, depth: int, row: int, label: int, slots: Whole, whole: Whole, real: Real, there: Flags) -> None:
    """Slots after a row is taken as the one at `depth`."""
    kept.labels[depth] = label
    for slot in range(len(slots)):
        kind, bits, column = slots[slot, 0], slots[slot, 1], slots[slot, 2]
        if kind == ROW or kind >= LABEL:
            continue
        if depth:
            count, number, double = (
                kept.counts[depth - 1, slot], kept.whole[depth - 1, slot], kept.real[depth - 1, slot],
            )  # fmt: skip
        else:
            count, number, double = 0, 0, 0.0
        if (bits >> label) & 1 and (column < 0 or kind <= FIRST or there[column, row]):
            if kind == LAST or (kind == FIRST and count == 0):
                number = depth
            elif kind in (SUM, AVERAGE):
                before = number
                number += whole[column, row]
                double += real[column, row]
                if not slots[slot, 5] and whole[column, row] != 0 and (whole[column, row] > 0) != (number > before):
                    count = -(2**40)  # it does not fit, and never will
            elif kind in (LEAST, GREATEST):
                sign = 1 if kind == LEAST else -1
                best = number
                if count == 0 or before_row(column, row, best, sign, slots[slot, 5], whole, real):
                    number = row
            count += 1
        kept.counts[depth, slot], kept.whole[depth, slot], kept.real[depth, slot] = count, number, double


@_compiled
def before_row(column: int, row: int, other: int, sign: int, is_real: int, whole: Whole, real: Real) -> bool:
    """Whether the value of a row is less than that of another (sign -1: greater). NaN is the greatest."""
    if is_real:
        one, two = real[column, row], real[column, other]
        return bool(_less(one, two)) if sign == 1 else bool(_less(two, one))
    if sign == 1:
        return bool(whole[column, row] < whole[column, other])
    return bool(whole[column, row] > whole[column, other])


@_compiled
def navigated(kept: Kept, slots: Whole, slot: int, depth: int, first: int, begin: int, limit: int, floor: int) -> int:
    """The row that a slot of kind LAST or FIRST stands for, once the row at `depth` is taken; -1: there is none.

    `begin` is the first row of the key that is known, `limit` the end of those that can be seen, `floor` the first one
    that is not too old to be.
    """
    bits, offset, shift = slots[slot, 1], slots[slot, 3], slots[slot, 4]
    if kept.counts[depth, slot] <= offset:
        return -1
    place = kept.whole[depth, slot]
    step = -1 if slots[slot, 0] == LAST else 1
    while offset:
        place += step
        if (bits >> kept.labels[place]) & 1:
            offset -= 1
    row = first + place + shift
    return row if floor <= row < limit and row >= begin else -1


@_compiled
def holds(
    conditions: Conditions, kept: Kept, variable: int, depth: int, row: int, first: int, begin: int, limit: int,
    floor: int,
) -> int:  # fmt: skip
    """0 or 1; an error is its number, ZERO or UNFIT."""
    kind = conditions.kinds[variable, 0]
    if kind == ALWAYS:
        return 1
    if kind == COLUMN:
        return 1 if conditions.columns[conditions.kinds[variable, 1], row] else 0
    state, whole, real = np.empty(STACK, np.int64), np.empty(STACK, np.int64), np.empty(STACK, np.float64)
    top = 0
    code = conditions.code
    for at in range(conditions.kinds[variable, 1], conditions.kinds[variable, 2]):
        operation, operand = code[at, 0], code[at, 1]
        if operation == PUSH:
            _push(conditions, kept, operand, depth, row, first, begin, limit, floor, state, whole, real, top)
            top += 1
        elif operation == WHOLE:
            state[top], whole[top] = VALUE, operand
            top += 1
        elif operation == REAL:
            state[top], real[top] = VALUE, conditions.numbers[operand]
            top += 1
        elif operation == NOTHING:
            state[top] = NULL
            top += 1
        elif operation == CHOOSE:
            top -= 2
            chosen = top if state[top - 1] == VALUE and whole[top - 1] else top + 1
            if state[top - 1] <= NULL:
                state[top - 1], whole[top - 1], real[top - 1] = state[chosen], whole[chosen], real[chosen]
        elif operation in (
            NEGATE,
            ABSOLUTE,
            NEGATE_REAL,
            ABSOLUTE_REAL,
            RESCALE,
            TO_REAL,
            NOT,
            IS_NULL,
            IS_NOT_NULL,
            FITS,
        ):
            _one(operation, operand, state, whole, real, top - 1)
        else:
            top -= 1
            _two(operation, operand, state, whole, real, top - 1)
    if state[0] == VALUE:
        return 1 if whole[0] else 0
    return 0 if state[0] == NULL else int(state[0])


@_compiled
def _push(
    conditions: Conditions, kept: Kept, slot: int, depth: int, row: int, first: int, begin: int, limit: int,
    floor: int, state: Whole, whole: Whole, real: Real, top: int,
) -> None:  # fmt: skip
    slots = conditions.slots
    kind, column = slots[slot, 0], slots[slot, 2]
    state[top] = VALUE
    if kind == COUNT:
        whole[top] = kept.counts[depth, slot]
        return
    if kind in (SUM, AVERAGE):
        count = kept.counts[depth, slot]
        state[top] = UNFIT if count < 0 else (NULL if count == 0 else VALUE)
        whole[top], real[top] = kept.whole[depth, slot], kept.real[depth, slot]
        if kind == AVERAGE and count > 0:
            if slots[slot, 5]:
                real[top] /= count
            else:  # a decimal, which has so many more digits
                scaled = kept.whole[depth, slot] * slots[slot, 3]
                if scaled // slots[slot, 3] != kept.whole[depth, slot]:
                    state[top] = UNFIT
                half = (2 * abs(scaled) + count) // (2 * count)
                whole[top] = half if scaled >= 0 else -half
        return
    if kind == ROW:
        found = row + slots[slot, 4]
        if not (floor <= found < limit and found >= begin):
            found = -1
    elif kind in (LEAST, GREATEST):
        found = kept.whole[depth, slot] if kept.counts[depth, slot] else -1
    else:
        found = navigated(kept, slots, slot, depth, first, begin, limit, floor)
    if found < 0 or not conditions.there[column, found]:
        state[top] = NULL
        return
    whole[top], real[top] = conditions.whole[column, found], conditions.real[column, found]


@_compiled
def _one(operation: int, operand: int, state: Whole, whole: Whole, real: Real, at: int) -> None:
    if operation in (IS_NULL, IS_NOT_NULL):
        if state[at] <= NULL:
            whole[at] = 1 if (state[at] == NULL) == (operation == IS_NULL) else 0
            state[at] = VALUE
        return
    if state[at] != VALUE:
        return
    if operation == NOT:
        whole[at] = 0 if whole[at] else 1
    elif operation in (NEGATE, ABSOLUTE):
        if whole[at] == -(2**63):
            state[at] = UNFIT
        elif operation == NEGATE or whole[at] < 0:
            whole[at] = -whole[at]
    elif operation == NEGATE_REAL:
        real[at] = -real[at]
    elif operation == ABSOLUTE_REAL:
        real[at] = abs(real[at])
    elif operation == RESCALE:
        scaled = whole[at] * operand
        if scaled // operand != whole[at]:
            state[at] = UNFIT
        whole[at] = scaled
    elif operation == TO_REAL:
        real[at] = whole[at] / float(operand)
    elif operation == FITS and (whole[at] >= 1 << operand or whole[at] < -(1 << operand)):
        state[at] = UNFIT


@_compiled
def _two(operation: int, operand: int, state: Whole, whole: Whole, real: Real, at: int) -> None:
    """What an operation makes of the two topmost values; the first that is null or an error decides."""
    other = at + 1
    if operation in (AND, OR):
        _connected(operation == OR, state, whole, at)
        return
    if operation == COALESCE:
        if state[at] == NULL:
            state[at], whole[at], real[at] = state[other], whole[other], real[other]
        return
    if operation in (SAME, SAME_REAL):
        if state[at] <= NULL and state[other] <= NULL:
            both = state[at] == VALUE and state[other] == VALUE
            equal = whole[at] == whole[other] if operation == SAME else _same(real[at], real[other])
            whole[at] = 1 if (equal if both else state[at] == state[other]) else 0
            state[at] = VALUE
        elif state[at] <= NULL:
            state[at] = state[other]
        return
    if operation == DIVIDE_REAL:
        if state[other] != VALUE:
            state[at] = state[other]
        elif state[at] == VALUE:
            if real[other] == 0:
                state[at] = ZERO
            else:
                real[at] /= real[other]
        return
    if state[at] != VALUE:
        return
    if state[other] != VALUE:
        state[at] = state[other]
        return
    if operation <= MULTIPLY:
        _calculated(operation, operand, state, whole, at)
    elif operation == ADD_REAL:
        real[at] += real[other]
    elif operation == SUBTRACT_REAL:
        real[at] -= real[other]
    elif operation == MULTIPLY_REAL:
        real[at] *= real[other]
    elif operation == EQUAL:
        whole[at] = 1 if whole[at] == whole[other] else 0
    elif operation == LESS:
        whole[at] = 1 if whole[at] < whole[other] else 0
    elif operation == LESS_EQUAL:
        whole[at] = 1 if whole[at] <= whole[other] else 0
    elif operation == EQUAL_REAL:
        whole[at] = 1 if _same(real[at], real[other]) else 0
    elif operation == LESS_REAL:
        whole[at] = 1 if _less(real[at], real[other]) else 0
    else:
        whole[at] = 0 if _less(real[other], real[at]) else 1


@_compiled
def _connected(is_or: bool, state: Whole, whole: Whole, at: int) -> None:
    """AND and OR: of the right nothing counts where the left decides."""
    decisive = 1 if is_or else 0
    one, two = state[at], state[at + 1]
    if one > NULL or (one == VALUE and (whole[at] != 0) == (decisive != 0)):
        return
    if two > NULL:
        state[at] = two
    elif two == VALUE and (whole[at + 1] != 0) == (decisive != 0):
        state[at], whole[at] = VALUE, decisive
    elif one == NULL or two == NULL:
        state[at] = NULL
    else:
        whole[at] = 1 - decisive


@_compiled
def _calculated(operation: int, bits: int, state: Whole, whole: Whole, at: int) -> None:
    """Whole numbers of some bits; one that does not fit is an error."""
    one, two = whole[at], whole[at + 1]
    if operation == ADD:
        result = one + two
        wrong = (two >= 0) != (result >= one)
    elif operation == SUBTRACT:
        result = one - two
        wrong = (two >= 0) != (result <= one)
    else:
        result = one * two
        wrong = (one != 0 and result // one != two) or (one == -1 and two == -(2**63))
    if bits < 63 and (result >= 1 << bits or result < -(1 << bits)):
        wrong = True
    whole[at] = result
    if wrong:
        state[at] = UNFIT
