"""Queries that once gave something else than PostgreSQL, each with the rows that showed it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.declare.stream import Table
from headwater.flow.run.app_tester import RunningNode
from headwater.testing import running_node
from tests.flow.random_queries.aggregates import APPROXIMATE
from tests.flow.random_queries.cases import Case, run_case, script_of
from tests.flow.random_queries.expressions import Text
from tests.flow.random_queries.queries import Built, Query, table_query
from tests.flow.random_queries.schemas import BOOL, DECIMAL, INT, REAL, TEXT, Change, Changes, Column, Source

ONE = Source("one", (Column("id", INT), Column("x", INT), Column("y", INT), Column("t", TEXT)), ("id",))
TWO = Source("two", (Column("id", INT), Column("x", INT), Column("d", REAL), Column("n", DECIMAL)), ("id",))
SOURCES = {one.name: one for one in (ONE, TWO)}


@dataclass(frozen=True)
class Found:
    columns: tuple[Column, ...]
    spark: str
    rows: "Sequence[Rows]"
    """For each position: rows of tables as they are from then on; one with a key alone is deleted."""
    postgres: str = ""
    make: "Callable[[App], Table] | None" = None
    reads: tuple[str, ...] = field(default=("one", "two"))


def beside_the_highest(app: App) -> Table:
    groups, highest = app.sql("SELECT DISTINCT x, y FROM one"), app.sql("SELECT max(id) AS value FROM one")
    assert isinstance(groups, Table)
    assert isinstance(highest, Table)
    return groups.with_scalar(highest)


def crosswise(app: App) -> Table:
    one, other = app.sql("SELECT id, x, y FROM one"), app.sql("SELECT id, x, y FROM one WHERE t = 'b'")
    assert isinstance(one, Table)
    assert isinstance(other, Table)
    return one.join(other, on=(one.x == other.y) & (one.y == other.x), how="anti", null_aware="x")


def ahead(app: App) -> Table:
    one = app.sql("SELECT id, x, y, t FROM one")
    assert isinstance(one, Table)
    return one.lead("y", by="t", order="id", into="later", offset=2, default="x")


def quarter(app: App) -> Table:
    one = app.sql("SELECT id, x, t FROM one")
    assert isinstance(one, Table)
    return one.by("t").agg(hw.percentile("x", 0.25, exact=True).alias("m"))


GROUPS_BESIDE = "SELECT g.x, g.y, (SELECT max(id) FROM one) AS value FROM (SELECT DISTINCT x, y FROM one) AS g"
CROSSWISE = "SELECT id, x, y FROM one AS o WHERE x NOT IN (SELECT p.y FROM one AS p WHERE p.t = 'b' AND p.x = o.y)"
Rows = Mapping[str, Sequence[tuple[Any, ...]]]
NUMBERS: tuple[Rows, ...] = (
    {"one": [(1, 1, 2, "a"), (2, 2, 1, "b"), (3, None, 4, "b"), (4, 3, 3, None)],
     "two": [(1, 1, 0.5, None), (2, 2, 1.0, 1), (3, 4, None, 2), (4, 3, 1.5, 0.5)]},
    {"one": [(2, 2, 2, "a"), (4,), (5, 4, 1, "b")], "two": [(1, 1, 2.0, 3), (4,)]},
    {"one": [(1,), (2,), (3,), (5,)], "two": [(2, 2, 0.5, 1)]},
)  # fmt: skip
NAMED = (Column("id", INT), Column("x", INT))
X, Y, IDS = Column("x", INT), Column("y", INT), (Column("id", INT), Column("other", INT))

FOUND = {
    "a single row beside groups with a null in their key": Found(
        (X, Y, Column("value", INT)), "SELECT x, y, value FROM made",
        ({"one": [(1, 1, None, "a")]}, {"one": [(2, 2, 2, "a")]}, {"one": [(2,)]}),
        GROUPS_BESIDE, beside_the_highest, ("one",),
    ),
    "columns of both sides with each other's names, in NOT IN": Found(
        (Column("id", INT), X, Y), "SELECT id, x, y FROM made", NUMBERS, CROSSWISE, crosswise, ("one",)
    ),
    "a whole number joined with a computed double": Found(
        IDS, "SELECT one.id AS id, two.id AS other FROM one JOIN two ON one.x = two.d * 2", NUMBERS
    ),
    "a whole number joined with a computed decimal": Found(
        IDS, "SELECT one.id AS id, two.id AS other FROM one LEFT JOIN two ON one.x + 1 = two.n + 1", NUMBERS
    ),
    "a whole number less than a computed double": Found(
        IDS, "SELECT one.id AS id, two.id AS other FROM one LEFT JOIN two ON one.id = two.id AND one.y < two.d * 2",
        NUMBERS,
    ),
    "a whole number not in computed doubles": Found(
        (Column("id", INT),), "SELECT id FROM one WHERE x NOT IN (SELECT d * 2 FROM two WHERE d < 2)", NUMBERS
    ),
    "a sum joined with a double": Found(
        (X, Column("other", INT)),
        "SELECT s.x AS x, two.id AS other FROM (SELECT t, sum(x) AS x FROM one GROUP BY t) AS s "
        "JOIN two ON s.x = two.d + 1",
        NUMBERS,
    ),
    "how many different pairs there are, without those that have a null": Found(
        (Column("t", TEXT), Column("n", INT)), "SELECT t, count(DISTINCT x, y) AS n FROM one GROUP BY t", NUMBERS,
        "SELECT t, count(DISTINCT (x, y)) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL) AS n FROM one GROUP BY t",
        None, ("one",),
    ),
    "the first rows of tables with other keys, put together": Found(
        (X, Column("odd", BOOL)),
        "SELECT x, odd FROM (SELECT x, y > 2 AS odd FROM one UNION ALL SELECT x, d > 1 FROM two) AS u "
        "ORDER BY x, odd LIMIT 3", NUMBERS,
        "SELECT x, odd FROM (SELECT x, y > 2 AS odd FROM one UNION ALL SELECT x, d > 1 FROM two) AS u "
        "ORDER BY x NULLS FIRST, odd NULLS FIRST LIMIT 3",
    ),
    "exact percentiles of groups whose rows change": Found(
        (Column("t", TEXT), Column("m", APPROXIMATE), Column("p", APPROXIMATE), Column("q", APPROXIMATE)),
        "SELECT t, median(x + y) AS m, percentile(x, 0.3) FILTER (WHERE y > 1) AS p, "
        "percentile_disc(0.75) WITHIN GROUP (ORDER BY x) AS q FROM one GROUP BY t", NUMBERS,
        "SELECT t, percentile_cont(0.5) WITHIN GROUP (ORDER BY x + y) AS m, "
        "percentile_cont(0.3) WITHIN GROUP (ORDER BY x) FILTER (WHERE y > 1) AS p, "
        "percentile_disc(0.75) WITHIN GROUP (ORDER BY x) AS q FROM one GROUP BY t", None, ("one",),
    ),
    "an exact percentile of all rows, of which none is left": Found(
        (Column("m", APPROXIMATE),), "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) AS m FROM one",
        (*NUMBERS, {"one": [(1,), (2,), (3,), (4,), (5,)]}), "", None, ("one",),
    ),
    "values of the rows before and after, which come and go": Found(
        (*NAMED, Column("previous", INT), Column("next", TEXT), Column("later", INT)),
        "SELECT id, x, lag(y) OVER (PARTITION BY t ORDER BY x, id) AS previous, "
        "lead(t, 2) OVER (ORDER BY id DESC) AS next, lead(x, 1, y * 2) OVER (PARTITION BY t ORDER BY id) AS later "
        "FROM one", NUMBERS,
        "SELECT id, x, lag(y) OVER (PARTITION BY t ORDER BY x NULLS FIRST, id) AS previous, "
        "lead(t, 2) OVER (ORDER BY id DESC) AS next, lead(x, 1, y * 2) OVER (PARTITION BY t ORDER BY id) AS later "
        "FROM one", None, ("one",),
    ),
    "the first and the last value of a group, and how often its sums differ from the one before": Found(
        (Column("t", TEXT), Column("n", INT)),
        "SELECT t, count(*) AS n FROM (SELECT t, y, first_value(y) OVER (PARTITION BY t ORDER BY id) AS a, "
        "last_value(y) OVER (PARTITION BY t ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) "
        "AS z, lag(x) OVER (ORDER BY id) AS p FROM one) AS w WHERE a <> z OR p < y GROUP BY t", NUMBERS, "", None,
        ("one",),
    ),
    "a sum of a group beside that of the group before it": Found(
        (Column("t", TEXT), Column("s", INT), Column("p", INT)),
        "SELECT t, sum(y) AS s, lag(sum(y)) OVER (ORDER BY t NULLS FIRST) AS p FROM one GROUP BY t", NUMBERS, "",
        None, ("one",),
    ),
    "the row after each, as Python says it": Found(
        (*NAMED, Column("later", INT)), "SELECT id, x, later FROM made", NUMBERS,
        "SELECT id, x, lead(y, 2, x) OVER (PARTITION BY t ORDER BY id) AS later FROM one", ahead, ("one",),
    ),
    "an exact percentile, as Python says it": Found(
        (Column("t", TEXT), Column("m", APPROXIMATE)), "SELECT t, m FROM made", NUMBERS,
        "SELECT t, percentile_cont(0.25) WITHIN GROUP (ORDER BY x) AS m FROM one GROUP BY t", quarter, ("one",),
    ),
    "groups by every set of ROLLUP": Found(
        (X, Column("t", TEXT), Column("n", INT), Column("g", INT), Column("i", INT)),
        "SELECT x, t, count(*) AS n, grouping(t) AS g, grouping_id() AS i FROM one GROUP BY ROLLUP (x, t)", NUMBERS,
        "SELECT x, t, count(*) AS n, grouping(t) AS g, grouping(x, t) AS i FROM one GROUP BY ROLLUP (x, t) "
        "HAVING count(*) > 0", None, ("one",),
    ),
    "groups by every set of CUBE, without one and with conditions": Found(
        (Column("k", INT), Column("t", TEXT), Column("s", INT)),
        "SELECT x + 1 AS k, t, sum(x) FILTER (WHERE y > 1) AS s FROM one GROUP BY CUBE (x + 1, t) "
        "HAVING grouping(x + 1) = 1 OR max(y) > 2", NUMBERS,
        "SELECT x + 1 AS k, t, sum(x) FILTER (WHERE y > 1) AS s FROM one GROUP BY CUBE (x + 1, t) "
        "HAVING count(*) > 0 AND (grouping(x + 1) = 1 OR max(y) > 2)", None, ("one",),
    ),
    "groups by sets that are named, one of them twice": Found(
        (X, Y, Column("m", TEXT)),
        "SELECT x, y, max(t) AS m FROM one GROUP BY GROUPING SETS ((x, y), (y), (y), ())", NUMBERS,
        "SELECT x, y, max(t) AS m FROM one GROUP BY GROUPING SETS ((x, y), (y), (y), ()) HAVING count(*) > 0", None,
        ("one",),
    ),
}  # fmt: skip


def case_of(found: Found) -> Case:
    sources = tuple(SOURCES[name] for name in found.reads)
    built = (Built("made", found.columns, found.make),) if found.make is not None else ()
    text = Text(found.spark, found.postgres or found.spark)
    query = Query(found.columns, text, tuple(map(table_query, sources)), built)
    positions = tuple(_changes(one, found.reads) for one in found.rows)
    return Case(0, sources, positions, (query,), again=(1,) * len(positions))


def _changes(given: Rows, reads: Sequence[str]) -> Changes:
    made = []
    for name in reads:
        names = [one.name for one in SOURCES[name].columns]
        for row in given.get(name, ()):
            made.append(Change(name, row[:1], dict(zip(names, row, strict=True)) if len(row) > 1 else None))
    return tuple(made)


@pytest.fixture(scope="module")
def node() -> Iterator[RunningNode]:
    with running_node() as node:
        yield node


@pytest.fixture(scope="module")
def database(postgres_server: str) -> "Iterator[psycopg.Connection[Any]]":
    with psycopg.connect(postgres_server, autocommit=True, prepare_threshold=None) as database:
        database.execute("SET timezone TO 'UTC'")
        yield database


@pytest.mark.parametrize("name", FOUND)
def test_it_is_what_postgres_answers_now(name: str, node: RunningNode, database: "psycopg.Connection[Any]") -> None:
    case = case_of(FOUND[name])
    outcome = run_case(case, node, database)
    assert outcome.refused == []
    assert [script_of(case, one) for one in outcome.different] == []
    assert outcome.rows > 0
