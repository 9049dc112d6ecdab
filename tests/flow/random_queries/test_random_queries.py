"""Random queries over tables give what PostgreSQL gives, after every portion of changes; and bugs that are planted are
found by them. A thousand more: python -m tests.flow.random_queries (make torture)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from headwater.flow.run.app_tester import RunningNode
from headwater.testing import running_node
from tests.flow.random_queries.cases import random_case, run_case, script_of
from tests.flow.random_queries.planted import PLANTED

QUERIES = 8
SEEDS = (0, 1, 2, 3, 5)
"""With as many queries each: 40."""
GROUPS, SETS = frozenset({"group by", "aggregate"}), frozenset({"intersect all", "except all"})
WAYS = {
    "lost retraction": GROUPS,
    "wrong null in NOT IN, Python": frozenset({"not in, in Python"}),
    "wrong null in NOT IN, SQL": frozenset({"not in"}),
    "extreme not computed again": GROUPS,
    "emptied group kept": GROUPS,
    "union without multiplicity": frozenset({"union all"}),
    "set operation without multiplicity": SETS | {f"{one} in Python" for one in SETS},
    "neighbours not corrected": frozenset({"lag", "lead", "first_value", "last_value"}),
    "a set of groups forgotten": frozenset({"sets of groups"}),
}
"""Queries in which a planted bug can show at all."""


@pytest.fixture(scope="module")
def node() -> Iterator[RunningNode]:
    with running_node() as node:
        yield node


@pytest.fixture(scope="module")
def database(postgres_server: str) -> "Iterator[psycopg.Connection[Any]]":
    with psycopg.connect(postgres_server, autocommit=True, prepare_threshold=None) as database:
        database.execute("SET timezone TO 'UTC'")
        yield database


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_view_of_any_query_is_what_postgres_answers_at_every_position(
    seed: int, node: RunningNode, database: "psycopg.Connection[Any]"
) -> None:
    case = random_case(seed, QUERIES)
    outcome = run_case(case, node, database)
    assert [script_of(case.of(one.query), one) for one in outcome.different] == []
    assert len(outcome.compared) + len(outcome.refused) == QUERIES
    assert len(outcome.refused) <= 1, outcome.refused


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(
    name: str, node: RunningNode, database: "psycopg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    PLANTED[name](monkeypatch)
    cases = (random_case(seed, QUERIES) for seed in SEEDS)
    meant = (replace(one, queries=tuple(each for each in one.queries if each.ways & WAYS[name])) for one in cases)
    assert any(run_case(one, node, database).different for one in meant if one.queries)
