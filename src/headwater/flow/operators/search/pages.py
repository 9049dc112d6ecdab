"""Documents as stored queries look at them: the terms that each has and where, and the values of its columns (pure).

begins        where the terms of each document begin
terms, firsts the terms of a document, each once and in their order, and where its occurrences begin
tokens        occurrences: words by their number, in the order of documents, fields and places
fields, places, starts, ends   of each word: its field, its place there, and its bytes in the field's column
lengths       how many words each field of each document has, as scores see it, by their weight
numbers, known    typed columns by their order, and which values are there; a row for each column
degrees       latitudes and longitudes in turn, a pair of rows for each point; NaN where there is none
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.search.fields import Fields, as_numbers
from headwater.flow.operators.search.lexicon import IGNORED, Lexicon
from headwater.flow.operators.search.lists import Lists
from headwater.flow.operators.search.words import Found, cut, found_words
from headwater.flow.operators.spark_hashes import text_bytes
from headwater.flow.state.runs.equality import Integers, Mask

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
FREE_LENGTHS = 40 - 16
"""Lengths of fields below this are kept as they are by Lucene's norms."""
K1, B = 1.2, 0.75
"""Of BM25, as Lucene has them."""


class Pages(NamedTuple):
    begins: Integers
    terms: Integers
    firsts: Integers
    tokens: Integers
    fields: Integers
    places: Integers
    starts: Integers
    ends: Integers
    words: Integers
    """Where the words of each document begin."""
    lengths: Floats
    numbers: Integers
    known: Mask
    degrees: Floats


class Words(NamedTuple):
    documents: Integers
    fields: Integers
    places: Integers
    starts: Integers
    ends: Integers
    numbers: Integers


def pages_of(documents: pa.RecordBatch, fields: Fields, lexicon: Lexicon) -> Pages:
    count = documents.num_rows
    parts = [_words_of(documents.column(name), number, fields, lexicon) for number, name in enumerate(fields.worded)]
    words = Words(*(np.concatenate(column) for column in zip(_no_words(), *parts, strict=True)))
    order = np.lexsort([words.places, words.fields, words.documents])
    words = Words(*(column[order] for column in words))
    weights = _weights(words, count, len(fields.worded))
    begins, terms, firsts, tokens = _terms(words, count, lexicon)
    numbers, known = _typed(documents, fields)
    return Pages(
        begins, terms, firsts, tokens, words.fields, words.places, words.starts, words.ends,
        np.searchsorted(words.documents, np.arange(count + 1)), weights, numbers, known, _degrees(documents, fields),
    )  # fmt: skip


def _no_words() -> Words:
    return Words(*(np.empty(0, np.int64) for _ in Words._fields))


def _words_of(column: pa.Array, number: int, fields: Fields, lexicon: Lexicon) -> Words:
    analyzer = fields.analyzer_of(fields.worded[number])
    if analyzer is None:
        found, values = _whole(column), column.drop_null()
        texts = values.dictionary_encode()
        known = lexicon.words(number, texts.dictionary.to_pylist())
    else:
        found = found_words(column)
        texts = cut(column, found).dictionary_encode()
        known = lexicon.words(number, [analyzer.compared(one) for one in texts.dictionary.to_pylist()])
    indices = texts.indices.to_numpy()
    numbers = known[indices] if len(known) else np.empty(0, np.int64)
    kept = numbers != IGNORED
    where = np.full(int(kept.sum()), number)
    return Words(found.texts[kept], where, found.places[kept], found.begins[kept], found.ends[kept], numbers[kept])


def _whole(column: pa.Array) -> Found:
    """An exact string is one word."""
    _, starts, ends, there = text_bytes(column)
    texts = np.flatnonzero(there)
    return Found(texts, np.zeros(len(texts), np.int64), starts[texts], ends[texts])


def _weights(words: Words, count: int, fields: int) -> Floats:
    """What BM25 adds to how often a term occurs. A document is scored as if it were alone, so that its score does not
    depend on what comes with it: the average length is its own, but for the eight bits that Lucene keeps of that."""
    lengths = np.bincount(words.documents * fields + words.fields, minlength=count * fields).reshape(count, fields)
    kept = _in_eight_bits(lengths.astype(np.int64))
    return np.asarray(K1 * (1 - B + B * kept / np.maximum(lengths, 1)))


def _in_eight_bits(lengths: Integers) -> Integers:
    """
    >>> _in_eight_bits(np.array([7, 40, 41, 1000])).tolist()
    [7, 40, 40, 984]
    """
    above = np.maximum(lengths - FREE_LENGTHS, 0)
    bits = np.frexp(above.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0).astype(np.int64)
    return np.where(lengths < FREE_LENGTHS, lengths, FREE_LENGTHS + (above >> shift << shift))


def _terms(words: Words, count: int, lexicon: Lexicon) -> tuple[Integers, Integers, Integers, Integers]:
    owners, tokens = _meant(words.numbers, lexicon.meanings())
    size = max(lexicon.size, 1)
    keys = words.documents[tokens] * size + owners
    order = np.argsort(keys, kind="stable")
    keys, tokens = keys[order], tokens[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    begins = np.searchsorted(keys[firsts] // size, np.arange(count + 1))
    return begins, keys[firsts] % size, np.append(firsts, len(keys)), tokens


@njit(cache=True, nogil=True)
def _meant(numbers, meanings: Lists):  # type: ignore[no-untyped-def]
    """The terms that words stand for, and which word each is of."""
    size, count = len(numbers) + 64, 0
    terms, tokens = np.empty(size, np.int64), np.empty(size, np.int64)
    for token in range(len(numbers)):
        word = numbers[token]
        for part in range(2):
            begins, values = meanings[part]
            if word + 1 >= len(begins):
                continue
            for place in range(begins[word], begins[word + 1]):
                if count == size:
                    more_terms, more_tokens = np.empty(size * 2, np.int64), np.empty(size * 2, np.int64)
                    more_terms[:size], more_tokens[:size] = terms, tokens
                    terms, tokens, size = more_terms, more_tokens, size * 2
                terms[count], tokens[count] = values[place], token
                count += 1
    return terms[:count].copy(), tokens[:count].copy()


def _typed(documents: pa.RecordBatch, fields: Fields) -> tuple[Integers, Mask]:
    count, names = documents.num_rows, fields.typed
    numbers, known = np.zeros((len(names), count), np.int64), np.zeros((len(names), count), np.bool_)
    for place, name in enumerate(names):
        numbers[place], known[place] = as_numbers(documents.column(name))
    return numbers, known


def _degrees(documents: pa.RecordBatch, fields: Fields) -> Floats:
    names = [name for one in fields.points for name in (one.latitude, one.longitude)]
    made = np.empty((len(names), documents.num_rows), np.float64)
    for place, name in enumerate(names):
        made[place] = documents.column(name).cast(pa.float64()).fill_null(np.nan).to_numpy()
    return made
