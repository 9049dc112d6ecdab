"""Which words fit terms that stand for several: prefixes, wildcards, words that differ in a few letters, ranges.

Every word is looked at once for each such term, and what is found is remembered (lexicon.py): documents have the same
words again and again.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from headwater.flow.operators.search.programs import ABOUT, FROM_TO, LIKE, PREFIX, TermKey
from headwater.flow.state.runs.equality import Integers

ANY, ONE = -1, -2
"""In a pattern of code points: `*` and `?`."""


def fitting(words: Sequence[str], patterns: Sequence[TermKey]) -> Integers:
    """Pairs of a place among the words and a place among the patterns, which are of the field of the words."""
    found = [np.empty((2, 0), np.int64)]
    if not words or not patterns:
        return found[0]
    column = pa.array(words, pa.large_string())
    by_kind: dict[int, list[int]] = {}
    for place, one in enumerate(patterns):
        by_kind.setdefault(one.kind, []).append(place)
    if PREFIX in by_kind:
        found += _prefixes(column, patterns, by_kind[PREFIX])
    found += [_ranged(column, patterns[place], place) for place in by_kind.get(FROM_TO, [])]
    if LIKE in by_kind or ABOUT in by_kind:
        letters, ends = _code_points(words)
        for kind, pairs in ((LIKE, _like), (ABOUT, _about)):
            places = by_kind.get(kind, [])
            if places:
                wanted = [_signs(patterns[one].text) if kind == LIKE else list(map(ord, patterns[one].text))
                          for one in places]  # fmt: skip
                edits = np.array([patterns[one].edits for one in places])
                at = pairs(letters, ends, *_flat(wanted), edits)
                found.append(np.vstack([at[0], np.array(places, np.int64)[at[1]]]))
    return np.hstack(found)


def _prefixes(words: pa.Array, patterns: Sequence[TermKey], places: Sequence[int]) -> list[Integers]:
    by_length: dict[int, dict[str, int]] = {}
    for place in places:
        text = patterns[place].text
        by_length.setdefault(len(text), {})[text] = place
    found = []
    for length, texts in by_length.items():
        at = pc.index_in(pc.utf8_slice_codeunits(words, 0, length), pa.array(list(texts), pa.large_string()))
        known = np.flatnonzero(np.asarray(at.is_valid()))
        numbers = np.array(list(texts.values()), np.int64)[at.drop_null().to_numpy()]
        found.append(np.vstack([known, numbers]))
    return found


def _ranged(words: pa.Array, pattern: TermKey, place: int) -> Integers:
    """By the bytes of words, with the flags that say which ends are open or excluded."""
    low, high = pattern.text.split("\0")
    within = (pc.greater_equal if pattern.edits & 1 else pc.greater)(words, low)
    if not pattern.edits & 4:
        within = pc.and_(within, (pc.less_equal if pattern.edits & 2 else pc.less)(words, high))
    found = np.flatnonzero(np.asarray(within))
    return np.vstack([found, np.full(len(found), place, np.int64)])


def _signs(pattern: str) -> list[int]:
    r"""
    >>> _signs(r"a*\*")
    [97, -1, 42]
    """
    signs, letters = [], iter(pattern)
    for one in letters:
        signs.append(ord(next(letters, "\\")) if one == "\\" else {"*": ANY, "?": ONE}.get(one, ord(one)))
    return signs


def _code_points(words: Sequence[str]) -> tuple[Integers, Integers]:
    letters = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32).astype(np.int64)
    return letters, np.append(0, np.cumsum(np.fromiter(map(len, words), np.int64, len(words))))


def _flat(wanted: list[list[int]]) -> tuple[Integers, Integers]:
    ends = np.append(0, np.cumsum([len(one) for one in wanted])).astype(np.int64)
    return np.array([sign for one in wanted for sign in one], np.int64), ends


@njit(cache=True, nogil=True)
def _like(letters, ends, signs, sign_ends, edits):  # type: ignore[no-untyped-def]
    found, count = np.empty((2, 256), np.int64), 0
    for pattern in range(len(sign_ends) - 1):
        first, last = sign_ends[pattern], sign_ends[pattern + 1]
        for word in range(len(ends) - 1):
            begin, end = ends[word], ends[word + 1]
            if signs[first] >= 0 and (begin == end or letters[begin] != signs[first]):
                continue
            if _is_like(letters, begin, end, signs, first, last):
                found, count = _noted(found, count, word, pattern)
    return found[:, :count].copy()


@njit(cache=True, nogil=True)
def _noted(found, count, word, pattern):  # type: ignore[no-untyped-def]
    if count == found.shape[1]:
        larger = np.empty((2, count * 2), np.int64)
        larger[:, :count] = found
        found = larger
    found[0, count], found[1, count] = word, pattern
    return found, count + 1


@njit(cache=True, nogil=True)
def _is_like(letters, at, end, signs, sign, last):  # type: ignore[no-untyped-def]
    """After a mismatch the last `*` takes one letter more."""
    star, resumed = -1, at
    while at < end:
        if sign < last and (signs[sign] == ONE or signs[sign] == letters[at]):
            at, sign = at + 1, sign + 1
        elif sign < last and signs[sign] == ANY:
            star, resumed, sign = sign, at, sign + 1
        elif star >= 0:
            resumed += 1
            at, sign = resumed, star + 1
        else:
            return False
    while sign < last and signs[sign] == ANY:
        sign += 1
    return sign == last


@njit(cache=True, nogil=True)
def _about(letters, ends, wanted, wanted_ends, edits):  # type: ignore[no-untyped-def]
    found, count = np.empty((2, 256), np.int64), 0
    for pattern in range(len(wanted_ends) - 1):
        first, last, most = wanted_ends[pattern], wanted_ends[pattern + 1], edits[pattern]
        for word in range(len(ends) - 1):
            begin, end = ends[word], ends[word + 1]
            if abs((end - begin) - (last - first)) > most:
                continue
            if _distance(letters, begin, end, wanted, first, last, most) <= most:
                found, count = _noted(found, count, word, pattern)
    return found[:, :count].copy()


@njit(cache=True, nogil=True)
def _distance(letters, begin, end, wanted, first, last, most):  # type: ignore[no-untyped-def]
    """Letters put in, left out, replaced or swapped with their neighbour; anything above `most` if it is more."""
    width = last - first + 1
    older, before, row = np.zeros(width, np.int64), np.arange(width), np.zeros(width, np.int64)
    for at in range(end - begin):
        row[0] = at + 1
        least = row[0]
        for place in range(1, width):
            same = letters[begin + at] == wanted[first + place - 1]
            cost = min(before[place - 1] + (not same), before[place] + 1, row[place - 1] + 1)
            if (
                at > 0 and place > 1
                and letters[begin + at] == wanted[first + place - 2]
                and letters[begin + at - 1] == wanted[first + place - 1]
            ):  # fmt: skip
                cost = min(cost, older[place - 2] + 1)
            row[place] = cost
            least = min(least, cost)
        if least > most:
            return most + 1
        older, before, row = before, row, older
    return before[width - 1]
