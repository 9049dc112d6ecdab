"""An operator that no killed app has would never be shown to survive a crash."""

from collections import Counter
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from headwater.flow.declare.tables.nodes import Beside, Rank, SetOperation
from headwater.flow.declare.topology.nodes import (
    STATEFUL,
    Compared,
    Join,
    Lesson,
    Node,
    TableAggregate,
    TableJoin,
    TableOperator,
    Windowed,
    walk,
)
from headwater.flow.operators.comparisons.kinds import Comparison
from headwater.flow.operators.joins.pairing import ANTI, FULL, INNER, SEMI
from headwater.flow.operators.ranks import rank
from headwater.flow.operators.tables import sets
from headwater.flow.operators.windows.kinds.registry import KINDS
from tests.crash.flow.apps import declared
from tests.crash.flow.moments import APPS
from tests.crash.flow.oracle import Place
from tests.crash.flow.round_schedule import scheduled_rounds

ROUNDS = 60
PLACE = Place(Path("data"), "127.0.0.1:9092", "sqlite:///other.sqlite")
OPERATORS = {one for kind in STATEFUL for one in (kind, *kind.__subclasses__())} - {Join, TableOperator}


def nodes_of(app: str) -> list[Node]:
    return [node for output in declared(app, PLACE).outputs.values() for node in walk(output.body().node)]


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    return [node for app in APPS for node in nodes_of(app)]


def test_every_operator_is_in_an_app(nodes: list[Node]) -> None:
    assert {kind.__name__ for kind in OPERATORS} - {type(node).__name__ for node in nodes} == set()
    assert Lesson in OPERATORS  # kinds of kinds are found


def test_every_way_of_an_operator_on_tables_is_in_an_app(nodes: list[Node]) -> None:
    assert {node.how for node in nodes if isinstance(node, Rank)} == set(rank.WAYS)
    ways = {(node.how, bool(node.copy)) for node in nodes if isinstance(node, SetOperation)}
    assert ways == set(product(sets.WAYS, (False, True)))
    assert {node.how for node in nodes if isinstance(node, TableJoin)} >= {INNER, FULL, SEMI, ANTI}
    assert {bool(node.guarded) for node in nodes if isinstance(node, Beside)} == {False, True}
    assert {bool(node.key) for node in nodes if isinstance(node, TableAggregate)} == {False, True}


def test_every_kind_of_window_is_in_an_app(nodes: list[Node]) -> None:
    found = {type(node.window) for node in nodes if isinstance(node, Windowed)}
    assert found == set(KINDS)


def test_every_kind_of_comparison_is_in_an_app(nodes: list[Node]) -> None:
    found = {type(one) for node in nodes if isinstance(node, Compared) for one in node.comparisons.values()}
    assert found == set(get_args(Comparison))


def test_joins_one_after_another_on_the_same_column_are_in_an_app(nodes: list[Node]) -> None:
    joins = [node for node in nodes if isinstance(node, Join)]
    assert any(isinstance(join.left, Join) and join.left.on == join.on for join in joins)


def test_rounds_are_of_all_apps_by_turns() -> None:
    """A round whose point several apps come to is of any of them."""
    apps = Counter(one.app for one in islice(scheduled_rounds(Random(1), Counter()), ROUNDS))
    assert set(apps) == set(APPS)
    assert min(apps.values()) > ROUNDS / 6
