"""What of a document made a query match, in fragments of its text (compiled).

A fragment is some words around words of the query, which are marked with <em>. Words of a phrase are marked wherever
they stand. The text is given as it is: whoever puts it into a page has to escape it, all but these marks.
"""

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.search.index import Matched, QueryIndex
from headwater.flow.operators.spark_hashes import text_bytes

FRAGMENTS_MAX = 3
AROUND = 6
"""Words before and after a word that is marked."""
BEGIN_MARK, END_MARK = np.frombuffer(b"<em>", np.uint8), np.frombuffer(b"</em>", np.uint8)


def highlights(index: QueryIndex, documents: pa.RecordBatch, matched: Matched) -> pa.Array:
    """A list of fragments for each match."""
    fields = index.fields
    texts = [text_bytes(documents.column(name)) for name in fields.texts]
    sizes = np.append(0, np.cumsum([len(one[0]) for one in texts])).astype(np.int64)
    data = np.concatenate([np.empty(0, np.uint8), *(one[0] for one in texts)])
    begins, terms = index.shown
    ends, offsets, text = _fragments(
        matched.pages, matched.found.documents, matched.found.queries, begins, terms, data, sizes, len(texts)
    )
    values = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


@njit(cache=True, nogil=True)
def _fragments(pages, documents, queries, shown_begins, shown, data, sizes, texts):  # type: ignore[no-untyped-def]
    marked = np.full(len(pages.fields), -1, np.int64)
    ends = np.zeros(len(documents) + 1, np.int64)
    offsets, count = np.zeros(64, np.int64), 0
    text, length = np.empty(4096, np.uint8), 0
    for pair in range(len(documents)):
        document, query = documents[pair], queries[pair]
        first, last = pages.words[document], pages.words[document + 1]
        _mark(pages, document, shown[shown_begins[query] : shown_begins[query + 1]], pair, marked)
        word, made, lowest = first, 0, first
        while word < last and made < FRAGMENTS_MAX:
            if marked[word] != pair or pages.fields[word] >= texts:
                word += 1
                continue
            begin, end = _bounds(pages, marked, word, pair, lowest, last)
            needed = pages.ends[end - 1] - pages.starts[begin] + 9 * (end - begin)
            if length + needed > len(text):
                larger = np.empty(2 * (length + needed), np.uint8)
                larger[:length] = text[:length]
                text = larger
            length = _copied(pages, marked, pair, begin, end, data, sizes[pages.fields[word]], text, length)
            count, made, word, lowest = count + 1, made + 1, end, end
            if count == len(offsets):
                more = np.zeros(2 * count, np.int64)
                more[:count] = offsets
                offsets = more
            offsets[count] = length
        ends[pair + 1] = count
    return ends, offsets[: count + 1].copy(), text[:length].copy()


@njit(cache=True, nogil=True)
def _mark(pages, document, wanted, pair, marked):  # type: ignore[no-untyped-def]
    """Both lists of terms are in order."""
    group, end = pages.begins[document], pages.begins[document + 1]
    for term in wanted:
        while group < end and pages.terms[group] < term:
            group += 1
        if group == end:
            return
        if pages.terms[group] == term:
            for place in range(pages.firsts[group], pages.firsts[group + 1]):
                marked[pages.tokens[place]] = pair


@njit(cache=True, nogil=True)
def _bounds(pages, marked, word, pair, first, last):  # type: ignore[no-untyped-def]
    """The words of a fragment: it goes on as long as marked words are near."""
    field, begin = pages.fields[word], word
    while begin > first and word - begin < AROUND and pages.fields[begin - 1] == field:
        begin -= 1
    latest, end = word, word + 1
    while end < last and end - latest <= AROUND and pages.fields[end] == field and end - begin < 6 * AROUND:
        if marked[end] == pair:
            latest = end
        end += 1
    return begin, end


@njit(cache=True, nogil=True)
def _copied(pages, marked, pair, begin, end, data, base, text, length):  # type: ignore[no-untyped-def]
    at = pages.starts[begin]
    for word in range(begin, end):
        if marked[word] != pair:
            continue
        length = _bytes(data, base + at, base + pages.starts[word], text, length)
        length = _bytes(BEGIN_MARK, 0, 4, text, length)
        length = _bytes(data, base + pages.starts[word], base + pages.ends[word], text, length)
        length = _bytes(END_MARK, 0, 5, text, length)
        at = pages.ends[word]
    return _bytes(data, base + at, base + pages.ends[end - 1], text, length)


@njit(cache=True, nogil=True)
def _bytes(source, begin, end, into, length):  # type: ignore[no-untyped-def]
    for place in range(begin, end):
        into[length] = source[place]
        length += 1
    return length
