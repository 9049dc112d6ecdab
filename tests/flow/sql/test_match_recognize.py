"""MATCH_RECOGNIZE in SQL: the same as stream.match(...), and what is wrong is said with its line."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.nodes import Recognized, walk
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node

PAYMENTS = """
CREATE STREAM payments (card STRING, amount DOUBLE, kind STRING, at TIMESTAMP) FROM TOPIC payments
  WITH (time = 'at', lateness = '1 minute');
"""
SUSPICIOUS = """
CREATE STREAMING TABLE suspicious AS
  SELECT card, tries, m.amount * 2 AS twice FROM payments MATCH_RECOGNIZE (
    PARTITION BY card ORDER BY at
    MEASURES count(small.*) AS tries, large.amount AS amount
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (small{3,} {- other*? -} large) WITHIN INTERVAL '10' MINUTES
    SUBSET any = (small, large)
    DEFINE small AS amount < 2, large AS amount > 500 AND amount > 50 * avg(small.amount), other AS kind <> 'confirmed'
  ) AS m WHERE tries > 2;
"""


def refuse() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], AppTester]]:
    """A tester of an app of these statements."""
    with running_node(tmp_path) as node:

        def made(text: str) -> AppTester:
            app = hw.App("bank", shards=2)
            app.sql(PAYMENTS + text)
            return AppTester(app, node, refuse)

        yield made


def payment(card: str, amount: float, minute: int) -> dict[str, Any]:
    return {"card": card, "amount": amount, "kind": "payment", "at": f"2026-03-01T09:{minute:02}:00Z"}


def test_matches_are_rows_like_others(run: Callable[[str], AppTester]) -> None:
    bank = run(SUSPICIOUS)
    bank.feed("payments", [payment("ann", 1, 0), payment("ann", 1, 1), payment("ann", 1, 2), payment("ann", 600, 3)])
    bank.flush()
    assert bank.values("suspicious") == [{"card": "ann", "tries": 3, "twice": 1200.0}]


def declared(text: str) -> Recognized:
    app = hw.App("bank")
    app.sql(PAYMENTS + text)
    nodes = (node for job in plan(app) for one in job.outputs for node in walk(one.node))
    return next(node for node in nodes if isinstance(node, Recognized))


def test_the_clauses_are_those_of_python() -> None:
    app = hw.App("bank")
    payments = app.stream("payments", "card string, amount double, kind string, at timestamp", time="at")
    same = payments.match(
        by="card", order="at", within="10 minutes", pattern="small{3,} {- other*? -} large",
        subset={"any": ("small", "large")},
        define={"small": "amount < 2", "large": "amount > 500 AND amount > 50 * avg(small.amount)",
                "other": "kind <> 'confirmed'"},
        measures={"tries": "count(small.*)", "amount": "large.amount"},
    )  # fmt: skip
    assert isinstance(same.node, Recognized)
    assert declared(SUSPICIOUS).spec == same.node.spec


@pytest.mark.parametrize(
    ("said", "rows", "skip"),
    [
        ("ALL ROWS PER MATCH", (True, True, False), (0, 0)),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", (True, False, False), (0, 0)),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW", (True, True, True), (1, 0)),
        ("AFTER MATCH SKIP TO LAST b", (False, True, False), (3, 2)),
    ],
)
def test_ways_to_show_and_to_resume_are_read(said: str, rows: tuple[bool, ...], skip: tuple[int, int]) -> None:
    found = declared(
        f"CREATE STREAMING TABLE found AS SELECT * FROM payments MATCH_RECOGNIZE (PARTITION BY card {said} "
        "PATTERN (a b) DEFINE b AS amount > a.amount)"
    ).spec
    assert (found.all_rows, found.show_empty, found.unmatched) == rows
    assert found.skip == skip


@pytest.mark.parametrize(
    ("clauses", "line", "said"),
    [
        ("PARTITION BY card PATTERN (a $) DEFINE a AS amount > 1", 4, r"\$ is the last row of a key"),
        ("PARTITION BY card DEFINE a AS amount > 1", 4, r"has no PATTERN"),
        ("PARTITION BY card MEASURES count(a.*) PATTERN (a)", 4, "has no name"),
        ("PARTITION BY card ORDER BY at DESC PATTERN (a)", 4, "the earliest first"),
        ("PARTITION BY card PATTERN (a) DEFINE a amount > 1", 4, "DEFINE has a amount > 1"),
        ("SOMETHING PATTERN (a)", 4, "begins with no clause that it has"),
        ("PARTITION BY card PATTERN (a) SUBSET s", 4, "SUBSET has s"),
        ("PARTITION BY card ALL ROWS PER MATCH TWICE PATTERN (a)", 4, "TWICE is no way to show matches"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(clauses: str, line: int, said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said) as refused:
        declared(f"CREATE STREAMING TABLE found AS SELECT * FROM payments MATCH_RECOGNIZE ({clauses})")
    assert f"line {line}, column " in str(refused.value)
