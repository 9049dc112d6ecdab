"""What a file of SQL is refused for: one sentence with file, line and column, and the way out."""

import pytest

from headwater.errors import HeadwaterError, InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.topology.graph import check
from headwater.flow.local.columns import local_columns
from headwater.flow.plan.explanations import explain
from headwater.flow.sql.declaring import app_of
from headwater.flow.sql.reading.source_text import SourceText

HEAD = (
    "CREATE STREAM orders (id BIGINT, user_id BIGINT, amount DECIMAL(12,2), ts TIMESTAMP) FROM TOPIC orders "
    "WITH (time = 'ts');\n"
    "CREATE TABLE users (id BIGINT PRIMARY KEY, country STRING) FROM TOPIC users;\n"
)
VIEW = "CREATE MATERIALIZED VIEW v AS "
TUMBLE = "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(orders, DESCRIPTOR({}), INTERVAL {}) GROUP BY 1, 2"

STATEMENTS = [
    ("CREATE STREM x FROM TOPIC y", "3:8: CREATE what is expected, and there is 'STREM'. Did you mean STREAM?"),
    ("DROP TABLE users", "3:1: it is no query: it begins with 'DROP'"),
    ("CREATE STREAM x (a BIGINT FROM TOPIC y", "3:38: ) is expected, and there is the end"),
    ("CREATE STREAM x (a BIGNT) FROM TOPIC y", '3:18: "BIGNT" at character 3 is not a type. Did you mean bigint?'),
    ("CREATE STREAM x (a BIGINT PRIMARY KEY) FROM TOPIC y", "3:1: stream x has a PRIMARY KEY"),
    (
        "CREATE STREAM x (a BIGINT) FROM TOPIC y WITH (tme = 'a')",
        "3:47: stream x has no option tme. Did you mean time?",
    ),
    ("CREATE STREAM orders (a BIGINT) FROM TOPIC y", "3:1: orders is declared already"),
    ("CREATE TABLE t (a BIGINT) FROM TOPIC t", "3:1: table t has no key. Add PRIMARY KEY"),
    ("CREATE TABLE t (a BIGINT PRIMARY KEY)", "3:37: where the table's rows are is expected, and there is the end"),
    ("CREATE TABLE t (a BIGINT PRIMARY KEY) FROM TOPIC x WITH (time = 'a')", "3:58: table t has no option time"),
    (
        "CREATE TABLE t (a BIGINT PRIMARY KEY) CAPTURED FROM 'oracle://x' TABLE t",
        "3:1: table t is captured from oracle://, which there is not. Write postgresql://",
    ),
    ("CREATE SINK s TO KAFKA 'x' AS SELECT * FROM orders", "3:18: a kind of sink is expected, and there is 'KAFKA'"),
    ("CREATE SINK s TO PARQUET AS SELECT * FROM orders", "3:1: sink s does not say where it writes to. Add the folder"),
    ("CREATE ALERT a ON v WHEN n > 3", "3:30: NOTIFY is expected, and there is the end"),
    ("CREATE FLOW f AS INSERT INTO t SELECT * FROM orders", "3:1: there is no streaming table t"),
    ("CREATE STREAMING TABLE st AS SELECT * FROM users", "3:1: the query of st makes a table, whose rows change"),
    ("CREATE STREAMING TABLE st", "3:1: streaming table st has no flow. Write CREATE FLOW"),
    ("SELECT 1", "3:1: a query stands alone, and nothing keeps its rows"),
    ("CREATE APP x", "3:1: CREATE APP x is not at the head of a file"),
]
QUERIES = [
    ("", "3:28: a query is expected, and there is the end"),
    ("SELECT FROM orders", "3:43: SELECT has no columns"),
    ("SELECT amount FROM", "3:45: it cannot be read: Expected table name near 'FROM'"),
    ("SELECT 'abc FROM orders", '3:38: "\'abc FROM or" begins a text that does not end'),
    ("SELECT a /* x FROM orders", "3:40: '/* x FROM or' begins a text that does not end"),
    (f"SELECT {'(' * 250}1{')' * 250} FROM orders", "3:238: more than 200 brackets are within each other"),
    ("SELECT id\n  FROM user", "4:8: there is no stream, table or view user. Did you mean users?"),
    ("SELECT contry, count(*) AS n\n  FROM users\n  GROUP BY contry", "5:12: there is no column contry; did you mean"),
    (
        "SELECT country FROM users",
        "3:1: the rows of materialized view v are identified by id, and it does not select id",
    ),
    ("SELECT * FROM orders", "3:1: the rows of materialized view v are facts, which have no key"),
    ("SELECT id, id FROM users", "3:31: two columns of the query are called id. Give one another name with AS"),
    ("SELECT id, upper(country) FROM users", "3:31: column 2 of the query has no name"),
    ("SELECT country, id, count(*) AS n FROM users GROUP BY country", "3:47: id is neither grouped by nor aggregated"),
    (
        "SELECT country, count(*) AS n FROM users GROUP BY ROLLUP(country)",
        "it does not select grouping_id. Add grouping",
    ),
    ("SELECT country, grouping(id) AS n FROM users GROUP BY country WITH CUBE", "grouping(...) is of id, which is not"),
    ("SELECT user_id, median(amount) AS m FROM orders GROUP BY user_id", "3:47: median(...) of a stream would need"),
    ("SELECT country, percentile(id, 2) AS m FROM users GROUP BY country", "the rank of percentile(...) is no number"),
    ("SELECT u.id FROM users u JOIN users v ON u.id = v.country", "u.id is bigint, and v.country, which it is"),
    ("SELECT country, grouping(country) AS g FROM users GROUP BY country", "grouping(...) stands without sets of"),
    ("SELECT id, last_value(country) OVER (ORDER BY id) AS r FROM users", "3:42: last_value(...) OVER cannot be kept"),
    ("SELECT id, lag(country, 0) OVER (ORDER BY id) AS r FROM users", "the offset of lag(...) is no whole number"),
    ("SELECT * FROM users ORDER BY id", "3:60: ORDER BY: a view has no order"),
    ("SELECT * FROM users LIMIT 3", "3:57: LIMIT without ORDER BY leaves to chance which rows there are"),
    ("SELECT id FROM users OFFSET 3", "3:59: OFFSET cannot be kept"),
    ("SELECT DISTINCT ON (id) id FROM users", "3:51: DISTINCT ON is not Spark's"),
    ("SELECT id FROM orders JOIN users ON users.id = user_id", "3:38: id may be that of orders and users"),
    ("SELECT id FROM users u JOIN users u ON u.id = u.id", "3:59: u stands in FROM twice"),
    ("SELECT o.id FROM orders o NATURAL JOIN users u", "3:70: NATURAL JOIN is not read"),
    ("SELECT *, rank() OVER (ORDER BY country) AS r FROM users", "3:41: rank() has no bound"),
    ("SELECT *, ntile(2) OVER (ORDER BY id) AS r FROM users", "3:41: ntile(...) OVER cannot be kept"),
    ("WITH RECURSIVE a AS (SELECT id FROM users) SELECT id FROM a", "WITH RECURSIVE a cannot be kept: a row that is"),
    ("SELECT id FROM users UNION SELECT id, country FROM users", "3:65: UNION has 1 columns on one side and 2 on the"),
    ("SELECT id FROM users UNION ALL SELECT user_id FROM orders", "After ALL rows may be alike: leave ALL out"),
    ("SELECT id FROM users WHERE id IN (SELECT user_id FROM orders) OR id = 1", "3:58: IN or EXISTS stands beside OR"),
    (
        "SELECT id FROM users WHERE id = (SELECT user_id FROM orders)",
        "3:71: the query in brackets may have several rows",
    ),
    (
        "SELECT country, (SELECT count(*) FROM orders WHERE user_id = users.id) AS n FROM users GROUP BY country",
        "a query beside groups depends on their rows. Compute the groups in FROM",
    ),
    (TUMBLE.format("id", "'5' MINUTES"), "3:109: windows go by the time of their stream. That is ts."),
    (TUMBLE.format("ts", "'1' MONTH"), "3:123: INTERVAL '1' MONTH has no fixed length"),
    (
        "SELECT window_start, window_end, count(*) AS n FROM SESSION(orders, DESCRIPTOR(ts), INTERVAL '5' MINUTES) o "
        "JOIN users u ON u.id = o.user_id GROUP BY window_start, window_end",
        "rows of a table are grouped by windows of one size and of their own time only",
    ),
    (
        "SELECT count(*) AS n, window_start, window_end FROM TUMBLE(orders, DESCRIPTOR(now()), INTERVAL '5' MINUTES) o "
        "JOIN users u ON u.id = o.user_id GROUP BY window_start, window_end",
        "rows of a table are grouped by windows of one size and of their own time only",
    ),
    ("SELECT * FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '5' MINUTES)", "3:38: rows of TUMBLE, HOP or SESSION are"),
    ("SELECT country, count(*) AS n FROM users GROUP BY country EMIT LATER", "3:89: it cannot be read"),
    (
        "SELECT o.id FROM orders o LEFT JOIN users FOR SYSTEM_TIME AS OF o.id u ON u.id = o.user_id",
        "in this join FOR SYSTEM_TIME AS OF is not the time of the stream. Name ts",
    ),
]


def said_of(text: str) -> str:
    """What the file is refused for."""
    with pytest.raises(HeadwaterError) as refused, local_columns():
        check(app_of(SourceText(text, Place("shop.sql", 1), in_python=False), "shop"), explain)
    return str(refused.value)


@pytest.mark.parametrize(("statement", "said"), STATEMENTS)
def test_a_statement_is_refused_at_its_line_and_column(statement: str, said: str) -> None:
    found = said_of(f"{HEAD}{statement};\n")
    assert found.startswith("shop.sql:3:")
    assert said in found


@pytest.mark.parametrize(("query", "said"), QUERIES)
def test_a_query_is_refused_at_its_line_and_column(query: str, said: str) -> None:
    found = said_of(f"{HEAD}{VIEW}{query};\n")
    assert found.startswith("shop.sql:")
    assert said in found


def test_a_file_is_refused_for_all_its_mistakes_at_once() -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        app_of(SourceText("CREATE STREM a FROM TOPIC b;\nDROP TABLE c;\n", Place("a.sql", 1), in_python=False), "a")
    assert [str(one).split(": ")[0] for one in (refused.value, *refused.value.also)] == ["a.sql:1:8", "a.sql:2:1"]


def test_text_in_python_names_the_line_of_python_and_that_of_the_text() -> None:
    import headwater as hw

    app = hw.App("shop")
    with pytest.raises(HeadwaterError, match=r"sql at test_errors\.py:\d+.*no stream.*\(line 2, column 6 of it\)"):
        app.sql("select *\nfrom nothing")


def test_an_emission_is_refused_for_what_has_no_windows() -> None:
    found = said_of(f"{HEAD}{VIEW}SELECT country, count(*) AS n FROM users GROUP BY country EMIT FINAL;")
    assert "view v (shop.sql:3:1) has emit=" in found
