"""SELECT over views, as the engine answers it."""

import os
import signal
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidQuery, NotComparable, QueryStopped, ViewBehind
from headwater.query.query import Asked, Engine
from headwater.views.store import ViewStore, open_store
from tests.query.selects import SELECTS
from tests.query.shops import START, USERS, answered, engine_on, shop, values, write
from tests.waiting import LONG


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data")
    store = shop(folder)
    yield folder
    store.close()


@pytest.fixture(scope="module")
def engine(data: Path) -> Iterator[Engine]:
    with engine_on(data) as engine:
        yield engine


@pytest.mark.parametrize("sql", SELECTS)
def test_a_select_is_answered(engine: Engine, sql: str) -> None:
    assert values(engine, sql) == SELECTS[sql]


def test_a_recursive_query_is_answered_over_views(engine: Engine) -> None:
    """What flows refuse to keep, and say that it can be asked."""
    reached = (
        "WITH RECURSIVE r AS (SELECT min(userId) AS n, 0 AS depth FROM revenue UNION SELECT v.userId, depth + 1 FROM r "
        "JOIN revenue v ON v.userId = r.n + 10) SELECT n, depth FROM r ORDER BY n"
    )
    assert values(engine, reached) == [(10, 0), (20, 1), (30, 2)]


def test_columns_have_the_names_that_people_gave_them(engine: Engine) -> None:
    table = answered(
        engine, "SELECT USERID, country AS Land, count(*), sum(Orders) total FROM revenue GROUP BY ALL"
    ).table
    assert table.column_names == ["userId", "Land", "count(*)", "total"]
    assert answered(engine, "SELECT * FROM revenue").table.column_names[2:4] == ["orders", "userId"]


def test_a_whole_row_comes_back_as_it_was_written(engine: Engine) -> None:
    (row,) = answered(engine, "SELECT * FROM revenue WHERE country = 'DE'").table.to_pylist(maps_as_pydicts="strict")
    assert row["amount"] == Decimal("12.50")
    assert row["window"]["start"] == START
    assert row["counts"] == {"k": 3}
    assert row["share"] == 0.75


@pytest.mark.parametrize(
    "sql, said",
    [
        ("SELECT amont FROM revenue", 'line 1, column 8: there is no column "amont". Did you mean "amount"?'),
        ("SELECT country,\n  r.amont FROM revenue r", 'line 2, column 5: there is no column "amont". Did you'),
        ("SELECT *\nFROM revenu", 'line 2, column 6: there is no view "revenu". Did you mean "revenue"?'),
        ("SELECT 1,\n  contains_any(country) FROM revenue", 'line 2, column 3: there is no function "contains_any"'),
        ("SELECT (1 FROM revenue", "line 1, column "),
        ("DROP TABLE revenue", "line 1, column 1: DROP cannot be asked here"),
        ("INSERT INTO revenue SELECT 1", "line 1, column 1: INSERT cannot be asked here"),
        ("SELECT 1; DROP TABLE revenue", "one SELECT can be asked at a time, and these are 2"),
        ("SELECT * INTO x FROM revenue", "SELECT INTO would write"),
        ("SELECT * FROM read_csv('/etc/passwd')", "READ_CSV('/etc/passwd') cannot be read"),
        ("SELECT * FROM `/etc/passwd`", 'there is no view "/etc/passwd"'),
        ("SELECT * FROM duckdb_settings()", "cannot be read"),
        ("SELECT ? FROM revenue", "there are no parameters here"),
        ("SELECT country, country FROM revenue", 'two columns of the result are called "country"'),
        ("", "these are 0 statements"),
        ("-- nothing", "these are 0 statements"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "nested too deeply"),
        ("SELECT " + "1 + " * 6000 + "1", "letters; 20,000 are possible"),
    ],
)  # fmt: skip
def test_a_statement_that_cannot_be_asked_is_refused_in_one_sentence(engine: Engine, sql: str, said: str) -> None:
    with pytest.raises(InvalidQuery) as raised:
        engine.ask(Asked(sql=sql, seconds=LONG))
    assert said in str(raised.value)


@pytest.mark.parametrize("sql", ["SELECT length(repeat('x', 2000000000))", "SELECT size(sequence(1, 1000000000))"])
def test_a_query_that_needs_too_much_memory_is_stopped_and_the_next_one_is_answered(engine: Engine, sql: str) -> None:
    with pytest.raises(QueryStopped, match=r"memory|not done"):
        engine.ask(Asked(sql=sql, seconds=LONG))
    assert values(engine, "SELECT 1") == [(1,)]


def test_a_query_that_takes_too_long_is_stopped_and_its_process_ends(engine: Engine) -> None:
    many = ", ".join(f"revenue r{number}" for number in range(16))
    with pytest.raises(QueryStopped, match="was not done after"):
        engine.ask(Asked(sql=f"SELECT count(*) FROM {many} WHERE r1.orders + r2.orders > random()", seconds=1))
    assert values(engine, "SELECT 1") == [(1,)]


def test_a_process_that_was_killed_between_two_queries_is_replaced(engine: Engine) -> None:
    values(engine, "SELECT 1")
    for worker in engine._workers._free:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(LONG)
    assert values(engine, "SELECT 2") == [(2,)]


def test_rows_beyond_the_limit_are_cut_and_it_is_said(engine: Engine) -> None:
    cut = answered(engine, "SELECT country FROM revenue ORDER BY orders", rows_max=3)
    assert (cut.cut, cut.table.num_rows) == (True, 3)
    whole = answered(engine, "SELECT country FROM revenue ORDER BY orders", rows_max=4)
    assert (whole.cut, whole.table.num_rows) == (False, 4)


def test_only_columns_and_rows_that_matter_are_fetched(engine: Engine) -> None:
    _, (line,) = engine.explain("SELECT country FROM revenue WHERE orders >= 2 AND 'DE' = country AND amount > 1")
    assert line == "scan_0: shop.revenue (country, amount, orders), where orders >= 2, where country 'DE'".replace(
        "(country, amount, orders)", line[line.index("(") : line.index(")") + 1]
    )
    assert sorted(line[line.index("(") + 1 : line.index(")")].split(", ")) == ["amount", "country", "orders"]
    _, (limited,) = engine.explain("SELECT country FROM revenue LIMIT 5")
    assert limited.endswith("5 rows at most")


NUMBERS = st.integers(-2, 11)
SIDES = st.sampled_from(["r.", "s."])
SIGNS = st.sampled_from(["=", "<", "<=", ">", ">="])
TERMS = st.one_of(
    st.builds("{}orders {} {}".format, SIDES, SIGNS, NUMBERS),
    st.builds("{} {} {}orders".format, NUMBERS, SIGNS, SIDES),
    st.builds("{}country IN ('DE', '{}')".format, SIDES, st.sampled_from(["FR", "xx"])),
    st.builds("s.orders BETWEEN {} AND {}".format, NUMBERS, NUMBERS),
    st.builds("r.country = '{}'".format, st.sampled_from(["DE", "IT", ""])),
    st.just("s.orders IS NULL"),
)  # fmt: skip
JOINS = st.sampled_from(
    ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
)


@settings(max_examples=25)
@given(
    kind=JOINS, terms=st.lists(TERMS, min_size=1, max_size=3), either=st.booleans(), limit=st.none() | st.integers(0, 3)
)
def test_what_a_store_leaves_out_never_changes_an_answer(
    engine: Engine, kind: str, terms: list[str], either: bool, limit: int | None
) -> None:
    on = "" if kind == "CROSS JOIN" else "ON r.orders = s.orders + 1"
    one_sided = "SEMI" in kind or "ANTI" in kind
    terms = [term.replace("s.", "r.") for term in terms] if one_sided else terms
    where = (" OR " if either else " AND ").join(terms)
    columns = "r.orders AS a" if one_sided else "r.orders AS a, s.orders AS b"
    tail = "" if limit is None else f" LIMIT {limit}"
    sql = f"SELECT {columns} FROM revenue r {kind} revenue s {on} WHERE {where} ORDER BY ALL{tail}"
    # Around each column stands something that a store is not asked about.
    hidden = where.replace("r.orders", "(r.orders + 0)").replace("s.orders", "(s.orders + 0)")
    hidden = hidden.replace("r.country", "concat(r.country, '')").replace("s.country", "concat(s.country, '')")
    assert values(engine, sql) == values(engine, sql.replace(where, hidden))


# One moment


def moved(store: ViewStore, view: str, job: str, batch: int, offset: int, topic: str = "orders") -> None:
    write(store, view, job, batch, {topic: {0: offset}}, pa.table({"id": [1], "country": [str(offset)]}))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[ViewStore]:
    """Views a and b of two jobs that read the same topic, and c that reads another."""
    store = open_store(tmp_path, "pair")
    for view, job, topic in (("a", "pair.1", "orders"), ("b", "pair.2", "orders"), ("c", "pair.3", "clicks")):
        store.prepare(view, USERS, ["id"])
        moved(store, view, job, 0, 5, topic)
    yield store
    store.close()


BOTH = "SELECT a.country AS x, b.country AS y FROM a JOIN b ON a.id = b.id"


def test_an_answer_says_the_one_position_of_all_its_views_or_that_there_is_none(two: ViewStore, tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        assert answered(engine, BOTH).position == {"orders": {0: 5}}
        moved(two, "a", "pair.1", 1, 6)
        apart = answered(engine, BOTH)
    assert apart.position is None
    assert apart.positions == {"pair.a": {"orders": {0: 6}}, "pair.b": {"orders": {0: 5}}}


def test_a_read_at_one_position_waits_for_the_slower_view(two: ViewStore, tmp_path: Path) -> None:
    moved(two, "a", "pair.1", 1, 6)
    timer = threading.Timer(0.3, lambda: moved(two, "b", "pair.2", 1, 6))
    timer.start()
    with engine_on(tmp_path) as engine:
        found = answered(engine, BOTH, one_position=True, seconds=LONG)
    timer.join()
    assert found.position == {"orders": {0: 6}}
    assert found.table.to_pylist() == [{"x": "6", "y": "6"}]


def test_a_read_at_one_position_ends_with_a_sentence_if_that_takes_too_long(two: ViewStore, tmp_path: Path) -> None:
    moved(two, "a", "pair.1", 1, 6)
    with engine_on(tmp_path) as engine, pytest.raises(ViewBehind) as raised:
        engine.ask(Asked(sql=BOTH, one_position=True, seconds=0.2))
    assert "one position" in str(raised.value)
    assert "orders/0: pair.a up to 6, pair.b up to 5" in str(raised.value)


def test_views_of_different_topics_have_no_one_position(two: ViewStore, tmp_path: Path) -> None:
    apart = "SELECT a.id FROM a JOIN c ON a.id = c.id"
    with engine_on(tmp_path) as engine:
        assert answered(engine, apart).position is None
        with pytest.raises(NotComparable, match=r'"pair.a" and "pair.c" cannot be at one position.*one_job=True'):
            engine.ask(Asked(sql=apart, one_position=True))


def test_a_read_waits_until_the_views_include_a_record(two: ViewStore, tmp_path: Path) -> None:
    def both() -> None:
        moved(two, "a", "pair.1", 1, 9)
        moved(two, "b", "pair.2", 1, 8)

    timer = threading.Timer(0.3, both)
    timer.start()
    with engine_on(tmp_path) as engine:
        found = answered(engine, BOTH, at_least={"orders": {0: 8}}, seconds=LONG)
        timer.join()
        assert found.table.to_pylist() == [{"x": "9", "y": "8"}]
        with pytest.raises(ViewBehind, match=r'view "pair.b" has not reached orders/0 up to 9'):
            engine.ask(Asked(sql=BOTH, at_least={"orders": {0: 9}}, seconds=0.1))
        with pytest.raises(NotComparable, match='none of the views reads topic "nowhere"'):
            engine.ask(Asked(sql=BOTH, at_least={"nowhere": {0: 9}}))


def test_an_answer_that_is_waited_for_comes_when_a_view_has_changed(two: ViewStore, tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        version = answered(engine, BOTH).version
        assert engine.ask(Asked(sql=BOTH, after=version, seconds=0.1)) is None
        timer = threading.Timer(0.2, lambda: moved(two, "b", "pair.2", 1, 7))
        timer.start()
        found = answered(engine, BOTH, after=version, seconds=LONG)
        timer.join()
    assert found.table.to_pylist() == [{"x": "5", "y": "7"}]
    assert found.version != version
