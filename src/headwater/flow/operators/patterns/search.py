"""Finds the matches of a key's rows, in the order of the standard's preferment (pure, compiled).

An attempt begins at a row and follows the program depth first, what is preferred first; the first way that comes to its
end is the match. A way that needs a row that is not known yet leaves the attempt undecided, because a way after it
counts only if this one fails. So what is found depends on the rows and on the watermark, and on no batch.

Where no condition looks back, a way that failed at an instruction and a row fails there always, and is not followed
again: an attempt takes time in proportion to its rows. Otherwise `tries_max` bounds it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.flow.operators.patterns.machine import (
    Conditions,
    Flags,
    Kept,
    Limits,
    Whole,
    _compiled,
    holds,
    take,
)
from headwater.flow.operators.patterns.program import BEGIN, JUMP, MARK, MOVED, NEVER, SPLIT, TAKE

NO_MATCH, MATCHED, UNDECIDED, TIMED_OUT, BY_ZERO, TOO_LARGE, TOO_MANY, NOT_THERE, ENDLESS = range(9)
"""What an attempt comes to; from BY_ZERO on it has failed."""
FAILURES = {
    BY_ZERO: "a condition divides by zero",
    TOO_LARGE: "a number in a condition does not fit into its type",
    TOO_MANY: "more partial matches were tried for it than tries= allows",
    NOT_THERE: "after match skips to a variable of which the match has no row",
    ENDLESS: "after match skips to the first row of the match, from where it would be found again without end",
}
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = range(4)
Ways = npt.NDArray[np.int32]
HIDDEN = 1 << 8
"""Beside the number of a variable: the row is not shown."""


class Groups(NamedTuple):
    """Rows by key: where each key's begin, where the search resumes, where the rows end that are known; and whether the
    first is the first of all of its key."""

    begins: Whole
    resumes: Whole
    ends: Whole
    is_first: Flags
    numbers: Whole
    """How many matches each key has had."""


class Plan(NamedTuple):
    program: Whole
    registers: int
    memo: bool
    """No condition looks back."""
    skip: int
    skip_bits: int
    ahead: int
    """How many rows measures look beyond the match."""
    timeouts: bool


LEADS_ON, NOWHERE, NO_ROW = -1, -2, -3
"""What a way comes to at an instruction, unless the attempt comes to something."""


class Sight(NamedTuple):
    """The rows that an attempt can see: from the first of the key that is known, of which those before `floor` are too
    old, to the end of those that its match can have; and whether no more can come."""

    begin: int
    limit: int
    floor: int
    ended: bool


GROUP, FIRST_ROW, LENGTH, LIMIT, OUTCOME, MATCH_NUMBER, LABELS = range(7)
"""Columns of what was found; the last is where the labels of its rows begin."""


class Found(NamedTuple):
    """Matches, timeouts and failures, in order; the labels of their rows; where each group resumes, and which rows were
    tried as the first of a match."""

    rows: Whole
    labels: Whole
    resumes: Whole
    candidates: Flags


@_compiled
def reach(times: Whole, first: int, end: int, limits: Limits) -> tuple[int, bool]:
    """The end of the rows that a match from `first` can have, and whether no more can come."""
    most = min(end, first + limits.rows_max)
    if limits.within_us < 0:
        return most, most < end or most - first == limits.rows_max
    until = times[first] + limits.within_us
    limit = first
    while limit < most and times[limit] < until:
        limit += 1
    return limit, limit < end or limit - first == limits.rows_max or until <= limits.watermark_us


@_compiled
def floor_of(times: Whole, first: int, begin: int, limits: Limits) -> int:
    """The first row that PREV can see: no older than WITHIN before the first of the match."""
    if limits.within_us < 0:
        return begin
    found = first
    while found > begin and times[found - 1] >= times[first] - limits.within_us:
        found -= 1
    return found


@_compiled
def _tried(conditions: Conditions, kept: Kept, variable: int, depth: int, first: int, sight: Sight) -> int:
    """Whether the row at `depth` is of a variable: LEADS_ON or NOWHERE, NO_ROW, or what the attempt comes to."""
    row = first + depth
    if row + conditions.kinds[variable, 3] >= sight.limit and not sight.ended:
        return UNDECIDED
    if row >= sight.limit:
        return NO_ROW
    return int(_met(conditions, kept, variable, depth, row, first, sight))


@_compiled
def _met(
    conditions: Conditions, kept: Kept, variable: int, depth: int, row: int, first: int, sight: Sight
) -> int:  # fmt: skip
    take(kept, depth, row, variable, conditions.slots, conditions.whole, conditions.real, conditions.there)
    met = holds(conditions, kept, variable, depth, row, first, sight.begin, sight.limit, sight.floor)
    return BY_ZERO + met - 2 if met > 1 else LEADS_ON if met else NOWHERE


@_compiled
def _never(conditions: Conditions, kept: Kept, variable: int, depth: int, first: int, sight: Sight) -> int:
    """Whether no row of a variable follows."""
    for row in range(first + depth, sight.limit):
        if row + conditions.kinds[variable, 3] >= sight.limit and not sight.ended:
            return UNDECIDED
        met = _met(conditions, kept, variable, depth, row, first, sight)
        if met != NOWHERE:
            return NOWHERE if met == LEADS_ON else met
    return LEADS_ON if sight.ended else UNDECIDED


@_compiled
def _with_room(stack: Whole, top: int) -> Whole:
    if top < len(stack):
        return stack
    larger = np.empty((2 * len(stack), stack.shape[1]), np.int64)
    larger[:top] = stack[:top]
    return larger


@_compiled
def attempt(
    plan: Plan, conditions: Conditions, kept: Kept, limits: Limits, first: int, sight: Sight, is_first: bool,
    seen: Ways, stamp: int,
) -> tuple[int, int]:  # fmt: skip
    """The outcome, and how many rows it has; their labels are left in `kept`."""
    program = plan.program
    stack, registers = np.empty((32, 2 + plan.registers), np.int64), np.zeros(max(plan.registers, 1), np.int64)
    partial_labels, partial_hidden = np.empty(0, np.int64), np.empty(0, np.bool_)
    tries = top = at = depth = 0
    while True:
        instruction, one, other = program[at, 0], program[at, 1], program[at, 2]
        result, following = LEADS_ON, at + 1
        if instruction == TAKE:
            if not (plan.memo and seen[at, depth] == stamp):
                seen[at, depth] = stamp
                result = _tried(conditions, kept, one, depth, first, sight)
                tries += result not in (UNDECIDED, NO_ROW)
            else:
                result = NOWHERE
            if tries > limits.tries_max:
                return TOO_MANY, 0
            if result == LEADS_ON:
                kept.hidden[depth] = other == 1
                depth += 1
            elif result == NO_ROW and depth and not len(partial_labels):
                partial_labels, partial_hidden = kept.labels[:depth].copy(), kept.hidden[:depth].copy()
        elif instruction == SPLIT:
            stack = _with_room(stack, top)
            stack[top, 0], stack[top, 1], stack[top, 2:] = other, depth, registers[: plan.registers]
            top, following = top + 1, one
        elif instruction == JUMP:
            following = one
        elif instruction == BEGIN:
            result = LEADS_ON if is_first and depth == 0 else NOWHERE
        elif instruction == MARK:
            registers[one] = depth
        elif instruction == MOVED:
            result = LEADS_ON if depth > registers[one] else NOWHERE
        elif instruction == NEVER:
            result = _never(conditions, kept, one, depth, first, sight)
        else:
            waits = depth and first + depth - 1 + plan.ahead >= sight.limit and not sight.ended
            return (UNDECIDED, depth) if waits else (MATCHED, depth)
        if result >= 0:
            return result, 0
        if result == LEADS_ON:
            at = following
        elif top == 0:
            break
        else:
            top -= 1
            at, depth, registers[: plan.registers] = stack[top, 0], stack[top, 1], stack[top, 2:]
    partial = len(partial_labels) if plan.timeouts else 0
    kept.labels[:partial], kept.hidden[:partial] = partial_labels[:partial], partial_hidden[:partial]
    return (TIMED_OUT, partial) if partial else (NO_MATCH, 0)


@_compiled
def recognised(plan: Plan, conditions: Conditions, limits: Limits, groups: Groups) -> Found:
    """All that can be decided of some keys."""
    longest = 1
    for group in range(len(groups.begins)):
        longest = max(longest, groups.ends[group] - groups.begins[group])
    slots = len(conditions.slots)
    kept = Kept(
        np.zeros(longest, np.int64), np.zeros(longest, np.bool_), np.zeros((longest, slots), np.int64),
        np.zeros((longest, slots), np.float64), np.zeros((longest, slots), np.int64),
    )  # fmt: skip
    seen = np.zeros((len(plan.program), longest + 1), np.int32)  # a way may want one row more than there are
    found, labels = np.empty((64, 7), np.int64), np.empty(256, np.int64)
    count, named, stamp = 0, 0, 0
    resumes, candidates = groups.resumes.copy(), np.zeros(len(conditions.times), np.bool_)
    for group in range(len(groups.begins)):
        begin, end, at, number = groups.begins[group], groups.ends[group], groups.resumes[group], groups.numbers[group]
        while at < end:
            stamp += 1
            limit, ended = reach(conditions.times, at, end, limits)
            sight = Sight(begin, limit, floor_of(conditions.times, at, begin, limits), ended)
            is_first = groups.is_first[group] and at == begin
            outcome, length = attempt(plan, conditions, kept, limits, at, sight, is_first, seen, stamp)
            if outcome == UNDECIDED:
                break
            candidates[at] = True
            following = at + 1
            if outcome == MATCHED and length:
                following = _skipped(plan, kept, at, length)
                if following <= at:
                    outcome, following = (NOT_THERE if following < at else ENDLESS), at + 1
            if outcome == MATCHED:
                number += 1
            if outcome != NO_MATCH:
                if count == len(found):
                    larger = np.empty((2 * count, 7), np.int64)
                    larger[:count] = found
                    found = larger
                while named + length > len(labels):
                    more = np.empty(2 * len(labels), np.int64)
                    more[:named] = labels[:named]
                    labels = more
                found[count, GROUP], found[count, FIRST_ROW], found[count, LENGTH] = group, at, length
                found[count, LIMIT], found[count, OUTCOME] = limit, outcome
                found[count, MATCH_NUMBER], found[count, LABELS] = number, named
                for row in range(length):
                    labels[named + row] = kept.labels[row] + (HIDDEN if kept.hidden[row] else 0)
                count += 1
                named += length
            at = following
        resumes[group] = at
    return Found(found[:count], labels[:named], resumes, candidates)


@_compiled
def _skipped(plan: Plan, kept: Kept, first: int, length: int) -> int:
    """Where the search resumes after a match: before its first row if there is no row to skip to."""
    if plan.skip == PAST_LAST:
        return first + length
    if plan.skip == TO_NEXT:
        return first + 1
    found = -1
    for row in range(length):
        if (plan.skip_bits >> kept.labels[row]) & 1:
            found = row
            if plan.skip == TO_FIRST:
                break
    return first + found
