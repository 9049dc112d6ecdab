"""Documents against the index of queries (compiled): candidates by the terms that a document has, each verified.

A query is looked at for a document only if the document has as many of its key terms as it needs, or if nothing is
known of what it needs. Its program then says whether it matches, and the score; see programs.py for the instructions.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from headwater.flow.operators.search.lists import Lists
from headwater.flow.operators.search.pages import Floats, Pages
from headwater.flow.operators.search.programs import (
    ALL,
    BETWEEN,
    BOOST,
    CLOSE,
    CONSTANT,
    END,
    NEAR,
    OPEN,
    PHRASE,
    TERM,
)
from headwater.flow.state.runs.equality import Integers, Mask

IDF = math.log(4 / 3)
"""Of BM25 in an index of one document, which has the term."""
EARTH_METRES = 6_371_008.7714
"""The mean radius, as Lucene has it."""
FRAMES = 128
"""Deeper than queries can be nested: a pair of brackets makes three groups at most, several fields one."""


class Queries(NamedTuple):
    """The programs of all queries, one behind the other, and the lists of those that wait for a term."""

    code: Integers
    code_begins: Integers
    floats: Floats
    float_begins: Integers
    needed: Integers
    alive: Mask
    waiting: Lists
    always: Integers
    """Queries of which nothing is known."""


class Matches(NamedTuple):
    """Pairs of a document and a query, in the order of documents."""

    documents: Integers
    queries: Integers
    scores: Floats


class Reasons(NamedTuple):
    """The clauses of queries that hold: the place among the pairs, the number of the clause, how often, its score."""

    pairs: Integers
    leaves: Integers
    frequencies: Floats
    scores: Floats


class _Scratch(NamedTuple):
    """Where a document has the terms: stamped with its number. The open groups of a program, and clauses that hold."""

    stamps: Integers
    groups: Integers
    failed: Mask
    some: Integers
    noted: Integers
    totals: Floats
    leaves: Integers
    amounts: Floats


@njit(cache=True, nogil=True)
def _scratch(terms, leaves):  # type: ignore[no-untyped-def]
    return _Scratch(
        np.full(terms, -1, np.int64), np.zeros(terms, np.int64), np.zeros(FRAMES, np.bool_),
        np.zeros(FRAMES, np.int64), np.zeros(FRAMES, np.int64), np.zeros(FRAMES, np.float64),
        np.zeros(leaves, np.int64), np.zeros((2, leaves), np.float64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _stamp(pages, document, scratch):  # type: ignore[no-untyped-def]
    for group in range(pages.begins[document], pages.begins[document + 1]):
        term = pages.terms[group]
        scratch.stamps[term], scratch.groups[term] = document, group


@njit(cache=True, nogil=True)
def matches(pages: Pages, queries: Queries, terms: int):  # type: ignore[no-untyped-def]
    """All pairs that match, and how many were looked at."""
    where = _scratch(terms, 0)
    seen, counts = np.full(len(queries.needed), -1, np.int64), np.zeros(len(queries.needed), np.int64)
    size, found, verified = 1024, 0, 0
    pairs, scores = np.empty((2, size), np.int64), np.empty(size, np.float64)
    for document in range(len(pages.begins) - 1):
        _stamp(pages, document, where)
        candidates = _candidates(pages, queries, document, seen, counts)
        for place in range(len(candidates) + len(queries.always)):
            query = candidates[place] if place < len(candidates) else queries.always[place - len(candidates)]
            if not queries.alive[query]:
                continue
            verified += 1
            holds, score, _ = _run(pages, queries, document, query, where)
            if not holds:
                continue
            if found == size:
                more_pairs, more_scores = np.empty((2, size * 2), np.int64), np.empty(size * 2, np.float64)
                more_pairs[:, :size], more_scores[:size] = pairs, scores
                pairs, scores, size = more_pairs, more_scores, size * 2
            pairs[0, found], pairs[1, found], scores[found] = document, query, score
            found += 1
    return pairs[0, :found].copy(), pairs[1, :found].copy(), scores[:found].copy(), verified


@njit(cache=True, nogil=True)
def _candidates(pages, queries, document, seen, counts):  # type: ignore[no-untyped-def]
    size, found = 256, 0
    made = np.empty(size, np.int64)
    for group in range(pages.begins[document], pages.begins[document + 1]):
        term = pages.terms[group]
        for part in range(2):
            begins, values = queries.waiting[part]
            if term + 1 >= len(begins):
                continue
            for place in range(begins[term], begins[term + 1]):
                query = values[place]
                if seen[query] != document:
                    seen[query], counts[query] = document, 0
                counts[query] += 1
                if counts[query] == queries.needed[query]:
                    if found == size:
                        larger = np.empty(size * 2, np.int64)
                        larger[:size] = made
                        made, size = larger, size * 2
                    made[found] = query
                    found += 1
    return made[:found]


@njit(cache=True, nogil=True)
def _run(pages, queries, document, query, where):  # type: ignore[no-untyped-def]
    """Whether a query holds, its score, and how many of its clauses were noted, if there is room for them."""
    code, at, end = queries.code, queries.code_begins[query], queries.code_begins[query + 1]
    begin, floats = at, queries.float_begins[query]
    failed, some, total = where.failed, where.some, where.totals
    depth, noted, holds, score = 0, 0, False, 0.0
    while at < end:
        what = code[at]
        if what == OPEN:
            failed[depth], some[depth], total[depth], where.noted[depth] = False, 0, 0.0, noted
            depth, at = depth + 1, at + 1
        elif what == CLOSE:
            occurs, top = code[at + 1], depth - 1
            if holds and occurs != 2:
                total[top] += score
                some[top] += occurs == 1
            if (occurs == 0 and not holds) or (occurs == 2 and holds):
                failed[top] = True
                at = begin + code[at + 2]
            else:
                at += 3
        elif what == END:
            depth -= 1
            holds, score = not failed[depth] and some[depth] >= code[at + 1], total[depth]
            noted = noted if holds else where.noted[depth]
            at += 2
        elif what == BOOST:
            score *= queries.floats[floats + code[at + 1]]
            at += 2
        else:
            frequency, score, length = _leaf(pages, queries, document, at, floats, where)
            holds = frequency > 0
            if holds and what != ALL and noted < len(where.leaves):
                where.leaves[noted], where.amounts[0, noted] = code[at + length - 1], frequency
                where.amounts[1, noted] = score
                noted += 1
            at += length
    return holds, score, noted


@njit(cache=True, nogil=True)
def _leaf(pages, queries, document, at, floats, where):  # type: ignore[no-untyped-def]
    """How often a clause is met, its score, and how long its instruction is."""
    code = queries.code
    what = code[at]
    if what in (TERM, CONSTANT):
        term = code[at + 1]
        if where.stamps[term] != document:
            return 0.0, 0.0, 3
        group = where.groups[term]
        frequency = float(pages.firsts[group + 1] - pages.firsts[group])
        if what == CONSTANT:
            return frequency, 1.0, 3
        field = pages.fields[pages.tokens[pages.firsts[group]]]
        return frequency, IDF * frequency / (frequency + pages.lengths[document, field]), 3
    if what == PHRASE:
        count = code[at + 2]
        frequency, field = _phrase(pages, code, at, document, where)
        length = 4 + 2 * count
        if frequency == 0.0:
            return 0.0, 0.0, length
        return frequency, count * IDF * frequency / (frequency + pages.lengths[document, field]), length
    if what == BETWEEN:
        column = code[at + 1]
        value = pages.numbers[column, document]
        within = pages.known[column, document] and code[at + 2] <= value <= code[at + 3]
        met = 1.0 if within else 0.0
        return met, met, 5
    if what == NEAR:
        point, place = code[at + 1], floats + code[at + 2]
        metres = _metres(
            queries.floats[place], queries.floats[place + 1],
            pages.degrees[2 * point, document], pages.degrees[2 * point + 1, document],
        )  # fmt: skip
        near = 1.0 if metres <= queries.floats[place + 2] else 0.0
        return near, near, 4
    return 1.0, 1.0, 1


@njit(cache=True, nogil=True)
def _metres(latitude, longitude, other_latitude, other_longitude):  # type: ignore[no-untyped-def]
    """Along the surface, by the haversine formula; NaN where there is no point."""
    one, other = np.radians(latitude), np.radians(other_latitude)
    half_up, half_along = (other - one) / 2, np.radians(other_longitude - longitude) / 2
    share = np.sin(half_up) ** 2 + np.cos(one) * np.cos(other) * np.sin(half_along) ** 2
    return 2 * EARTH_METRES * np.arcsin(np.sqrt(min(share, 1.0)) if share == share else share)


@njit(cache=True, nogil=True)
def _phrase(pages, code, at, document, where):  # type: ignore[no-untyped-def]
    """How often the terms lie as a phrase has them, and the field. With a slop an occurrence that is k places apart
    counts as 1 / (1 + k).

    Every word of the phrase is tried as the one that lies farthest ahead of its place; the others then lie within the
    slop behind theirs. A word of the document stands for one of the phrase only: words that are there twice take the
    first that is free, in their order, which leaves the most for the next, as all have the same room.
    """
    slop, count = code[at + 1], code[at + 2]
    for number in range(count):
        if where.stamps[code[at + 3 + 2 * number]] != document:
            return 0.0, 0
    frequency = 0.0
    field = pages.fields[pages.tokens[pages.firsts[where.groups[code[at + 3]]]]]
    for leading in range(count if slop else 1):
        group = where.groups[code[at + 3 + 2 * leading]]
        for occurrence in range(pages.firsts[group], pages.firsts[group + 1]):
            start = pages.places[pages.tokens[occurrence]] - code[at + 4 + 2 * leading]
            width = _width(pages, code, at, where, start, slop)
            if width >= 0 and not _was_tried(pages, code, at, where, start, leading):
                frequency += 1.0 / (1.0 + width)
    return frequency, field


@njit(cache=True, nogil=True)
def _was_tried(pages, code, at, where, start, leading):  # type: ignore[no-untyped-def]
    """Whether an earlier word of the phrase leads with the same start."""
    for earlier in range(leading):
        place = start + code[at + 4 + 2 * earlier]
        if _first_from(pages, where.groups[code[at + 3 + 2 * earlier]], place) == place:
            return True
    return False


@njit(cache=True, nogil=True)
def _width(pages, code, at, where, start, slop):  # type: ignore[no-untyped-def]
    """By how much the words lie apart if the first, by its place there, is at `start`; −1: they do not fit."""
    count, width, led = code[at + 2], 0, False
    for number in range(count):
        term, place = code[at + 3 + 2 * number], code[at + 4 + 2 * number]
        taken = -1
        for earlier in range(number):  # the same word, which has been given a place
            if code[at + 3 + 2 * earlier] == term:
                taken = max(taken, _given(pages, code, at, where, start, earlier))
        group = where.groups[term]
        found = _first_from(pages, group, max(start + place, taken + 1))
        if found < 0 or found > start + place + slop:
            return -1
        width, led = max(width, found - start - place), led or found == start + place
    return width if led else -1


@njit(cache=True, nogil=True)
def _given(pages, code, at, where, start, number):  # type: ignore[no-untyped-def]
    """The place that a word of the phrase was given, which others of its kind before it have left."""
    term, taken = code[at + 3 + 2 * number], -1
    group = where.groups[term]
    for earlier in range(number + 1):
        if code[at + 3 + 2 * earlier] == term:
            taken = _first_from(pages, group, max(start + code[at + 4 + 2 * earlier], taken + 1))
    return taken


@njit(cache=True, nogil=True)
def _first_from(pages, group, wanted):  # type: ignore[no-untyped-def]
    """The first place of a term that is not before another; −1 if there is none."""
    low, high = pages.firsts[group], pages.firsts[group + 1]
    last = high
    while low < high:
        middle = (low + high) // 2
        if pages.places[pages.tokens[middle]] < wanted:
            low = middle + 1
        else:
            high = middle
    return pages.places[pages.tokens[low]] if low < last else -1


@njit(cache=True, nogil=True)
def reasons(pages: Pages, queries: Queries, documents, wanted, terms, leaves):  # type: ignore[no-untyped-def]
    """Why pairs match that are known to, document by document; `leaves` is the most clauses that a query has."""
    where = _scratch(terms, leaves)
    size, found, stamped = 1024, 0, -1
    numbers, amounts = np.empty((2, size), np.int64), np.empty((2, size), np.float64)
    for pair in range(len(documents)):
        if documents[pair] != stamped:
            stamped = documents[pair]
            _stamp(pages, stamped, where)
        _, _, noted = _run(pages, queries, stamped, wanted[pair], where)
        while found + noted > size:
            more_numbers, more_amounts = np.empty((2, size * 2), np.int64), np.empty((2, size * 2), np.float64)
            more_numbers[:, :size], more_amounts[:, :size] = numbers, amounts
            numbers, amounts, size = more_numbers, more_amounts, size * 2
        for place in range(noted):
            numbers[0, found], numbers[1, found] = pair, where.leaves[place]
            amounts[0, found], amounts[1, found] = where.amounts[0, place], where.amounts[1, place]
            found += 1
    return numbers[0, :found].copy(), numbers[1, :found].copy(), amounts[0, :found].copy(), amounts[1, :found].copy()
