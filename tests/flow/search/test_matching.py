"""The index of queries says of every document what plain Python says, query by query."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.highlighting import highlights
from headwater.flow.operators.search.index import QueryIndex
from headwater.flow.operators.search.words import cut, found_words
from headwater.flow.proof.search.reference import Document, fragments, hit_of, tokens
from tests.flow.search.random_search import FIELDS, SCHEMA, document, query

Found = dict[tuple[int, int], Any]


def matched(index: QueryIndex, queries: list[str], documents: list[dict[str, Any]], *, reported: bool = False) -> Found:
    """By the places of a document and a query, its score, or all that is reported of the hit."""
    slots = index.slots(pa.array(queries, pa.string()))
    rows = pa.RecordBatch.from_pylist(documents, SCHEMA)
    alive = index.alive(slots)
    found = index.match(rows, alive)
    by_slot: dict[int, list[int]] = {}
    for place, slot in enumerate(slots.tolist()):
        by_slot.setdefault(slot, []).append(place)
    values: list[Any] = found.found.scores.tolist()
    if reported:
        why = index.reasons(found, alive)
        reasons: list[list[Any]] = [[] for _ in values]
        for pair, leaf, frequency, score in zip(*(one.tolist() for one in why), strict=True):
            reasons[pair].append((index.leaf_texts[leaf], frequency, pytest.approx(score)))
        shown = highlights(index, rows, found).to_pylist()
        values = [(pytest.approx(one), *rest) for one, *rest in zip(values, reasons, shown, strict=True)]
    pairs = zip(found.found.documents.tolist(), found.found.queries.tolist(), values, strict=True)
    return {(owner, place): value for owner, slot, value in pairs for place in by_slot[slot]}


def expected(queries: list[str], documents: list[dict[str, Any]], *, reported: bool = False) -> Found:
    made: Found = {}
    for owner, values in enumerate(documents):
        one = Document(FIELDS, values)
        for place, text in enumerate(queries):
            hit = hit_of(text, one)
            if hit is not None:
                made[owner, place] = (hit.score, list(hit.leaves), fragments(text, one)) if reported else hit.score
    return made


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_hits_scores_reasons_and_fragments_are_those_of_plain_python(seed: int) -> None:
    dice = random.Random(seed)
    queries, documents = [query(dice) for _ in range(20)], [document(dice) for _ in range(12)]
    assert matched(QueryIndex(FIELDS), queries, documents, reported=True) == expected(queries, documents, reported=True)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_an_index_that_grows_says_the_same_of_queries_that_are_alive(seed: int) -> None:
    """Terms and patterns come after the words that they stand for, and words after them."""
    dice = random.Random(seed)
    index, queries = QueryIndex(FIELDS), list[str]()
    for _ in range(4):
        queries = [*dice.sample(queries, len(queries) // 2), *(query(dice) for _ in range(8))]
        documents = [document(dice) for _ in range(6)]
        assert matched(index, queries, documents) == pytest.approx(expected(queries, documents))


@given(st.text(st.sampled_from("ab1.,':_- é\u0301日ひカー\u200b\u200dΩ٣٫")))
def test_words_are_cut_as_plain_python_cuts_them(text: str) -> None:
    column = pa.array(["x", text, None, "y z"])
    found = found_words(column)
    assert cut(column, found).to_pylist() == ["x", *(word for word, *_ in tokens(text)), "y", "z"]
    assert found.texts.tolist()[:1] == [0]


def test_a_query_is_looked_at_only_for_documents_that_have_its_rarest_words() -> None:
    fields = Fields((("body", "standard"),), pa.schema([("body", pa.string())]))
    index = QueryIndex(fields)
    slots = index.slots(pa.array([f"common AND also AND word{one}" for one in range(1000)]))
    rows = pa.RecordBatch.from_pylist([{"body": f"common also word{one}"} for one in range(50)], fields.columns)
    found = index.match(rows, index.alive(slots))
    assert found.found.documents.tolist() == list(range(50))
    assert found.verified < 200
    assert not len(index.always)


@pytest.mark.parametrize(
    "text, always",
    [("storm", False), ("-storm", True), ("storm OR -rain", False), ("n:3", True), ("n:3 AND storm", False),
     ("st*", False), ("*:*", True), ("(storm n:3)@2", False), ("(storm n:3)@1", True), ('"storm rain"~3', False)],
)  # fmt: skip
def test_queries_of_which_nothing_is_known_are_always_run(text: str, always: bool) -> None:
    index = QueryIndex(FIELDS)
    index.slots(pa.array([text]))
    assert bool(len(index.always)) == always


def test_words_that_two_clauses_share_count_for_both() -> None:
    """`a AND (a OR b)` is met by a alone; so is a minimum of clauses."""
    fields = Fields((("body", "standard"),), pa.schema([("body", pa.string())]))
    index = QueryIndex(fields)
    queries = ["a AND (a OR b)", "(a (a b))@2", "((a AND b) (b AND c))@2", '"a a" AND a']
    slots = index.slots(pa.array(queries))
    rows = pa.RecordBatch.from_pylist([{"body": one} for one in ("a", "a b c", "a a")], fields.columns)
    found = index.match(rows, index.alive(slots)).found
    assert sorted(zip(found.documents.tolist(), found.queries.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 3)
    ]  # fmt: skip
    assert isinstance(found.scores, np.ndarray)
