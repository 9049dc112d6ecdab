"""Queries with a word left out, doubled or exchanged are compiled or refused, and never end in an error of Python."""

import random

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.sql.reading.dialect import tokens_of
from headwater.flow.sql.reading.source_text import SourceText
from tests.flow.sql.queries import GROUPS, IN_TIME, JOINS, QUERIES_WITHIN, RANKS, SETS, SPARKS
from tests.flow.sql.shops import shop_app

QUERIES = [one.ours for area in (GROUPS, JOINS, QUERIES_WITHIN, SETS, RANKS, IN_TIME, SPARKS) for one in area]


def words_of(query: str) -> list[str]:
    return [query[one.start : one.end + 1] for one in tokens_of(SourceText(query, Place("a.sql", 1), in_python=False))]


def damaged(dice: random.Random, query: str) -> str:
    words = words_of(query)
    for _ in range(dice.randint(1, 2)):
        place, other = dice.randrange(len(words)), dice.choice(words_of(dice.choice(QUERIES)))
        match dice.randrange(4):
            case 0:
                del words[place]
            case 1:
                words.insert(place, words[place])
            case 2:
                words[place] = other
            case _:
                words.insert(place, other)
    return " ".join(words)


def errors_of_python(app: hw.App, queries: list[str]) -> list[tuple[str, str]]:
    found = []
    for number, query in enumerate(queries):
        try:
            app.sql(query)
            app.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        except HeadwaterError:
            continue
        except Exception as error:  # any: that is what is looked for
            found.append((query, repr(error)))
    return found


@pytest.mark.timeout(300)
def test_a_damaged_query_is_compiled_or_refused_with_a_sentence() -> None:
    dice = random.Random(1)
    assert errors_of_python(shop_app(), [damaged(dice, dice.choice(QUERIES)) for _ in range(300)]) == []


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10, 15))
def test_many_damaged_queries_are(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(10):
        assert errors_of_python(shop_app(), [damaged(dice, dice.choice(QUERIES)) for _ in range(300)]) == []
