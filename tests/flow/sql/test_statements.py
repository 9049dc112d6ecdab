"""Every statement of SQL, and what it declares."""

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.declare.checks.loading import load_app
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.sql.reading.grammar import parse_script
from headwater.flow.sql.reading.source_text import SourceText
from headwater.flow.sql.reading.statements import ViewStatement

SHOP = """
CREATE APP store WITH (shards = 4, retries = 3);
CREATE STREAM IF NOT EXISTS orders (id BIGINT, user_id BIGINT, amount DECIMAL(12,2), tags ARRAY<STRING>, at TIMESTAMP)
  FROM TOPIC shop.orders WITH (time = 'at', lateness = '10 seconds', idle = 'none', format.mode = 'permissive');
CREATE TABLE users (id BIGINT, country STRING, PRIMARY KEY (id))
  CAPTURED FROM 'postgresql://localhost/shop' TABLE public.users WITH (topic = 'users', partitions = 2);
-- what follows reads them
CREATE VIEW large AS SELECT * FROM orders WHERE amount > 10;
CREATE OR REPLACE MATERIALIZED VIEW spend COMMENT 'What countries spend; it''s all' AS
  SELECT country, count(*) AS orders, sum(amount) AS spent FROM large JOIN users ON users.id = large.user_id
  GROUP BY country;
CREATE STREAMING TABLE events WITH (partitions = 3);
CREATE FLOW small AS INSERT INTO events BY NAME SELECT id, amount FROM orders WHERE amount < 1;
CREATE FLOW big AS INSERT INTO events BY NAME SELECT id, amount FROM large;
CREATE SINK archive TO PARQUET '/tmp/archive' AS SELECT id, amount FROM orders;
CREATE SINK copy TO TOPIC spend.changes KEY (country) AS SELECT * FROM spend;
CREATE MATERIALIZED VIEW minutes AS
  SELECT window_start, window_end, count(*) AS n FROM TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE)
  GROUP BY window_start, window_end EMIT FINAL;
CREATE ALERT quiet ON minutes WHEN n < 5 WITH (for = '5 minutes')
  NOTIFY WEBHOOK 'https://example.com/hook' WITH (secret = 'abc'), TOPIC alarms;
"""


@pytest.fixture
def store(tmp_path: Path) -> App:
    file = tmp_path / "shop.sql"
    file.write_text(SHOP)
    return load_app(file)


def test_a_file_declares_an_app_with_its_options(store: App) -> None:
    assert (store.name, store.shards) == ("store", 4)
    assert set(store.sources) == {"orders", "users"}
    assert {"spend", "minutes", "events", "spend.changes", "archive"} <= set(store.outputs)


def test_a_file_without_a_head_is_an_app_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "small.sql"
    file.write_text("CREATE STREAM a (id BIGINT) FROM TOPIC b")
    assert load_app(file).name == "small"


def test_a_stream_has_the_topic_columns_and_time_that_are_said(store: App) -> None:
    orders = store.sources["orders"]
    assert (orders.topic, orders.time) == ("shop.orders", "at")  # type: ignore[union-attr]
    assert list(orders.schema.names) == ["id", "user_id", "amount", "tags", "at"]
    assert str(orders.schema.field("tags").type) == "list<element: string>"


def test_a_captured_table_declares_its_capture(store: App) -> None:
    assert list(store.captures) == ["users"]
    assert store.sources["users"].key == ("id",)  # type: ignore[union-attr]


def test_views_have_their_comment_and_the_key_of_their_query(store: App) -> None:
    assert key_of(store.outputs["spend"].body().node) == ("country",)
    assert store.outputs["spend"].doc == "What countries spend; it's all"


def test_flows_are_united_in_their_streaming_table(store: App) -> None:
    made = store.outputs["events"].body()
    assert isinstance(made, Stream)
    assert len(made.node.inputs) == 2


def test_an_alert_is_on_its_view_and_has_whom_to_notify(store: App) -> None:
    (alert,) = store.alerts.values()
    assert (alert.name, alert.view, alert.for_us) == ("quiet", "minutes", 300_000_000)
    assert len(alert.targets) == 2


def test_a_text_in_python_stands_for_what_its_last_statement_declares() -> None:
    app = hw.App("shop")
    assert isinstance(app.sql("CREATE STREAM a (id BIGINT, n INT) FROM TOPIC a"), Stream)
    assert isinstance(app.sql("CREATE MATERIALIZED VIEW v AS SELECT id, sum(n) AS n FROM a GROUP BY id"), Table)
    assert isinstance(app.sql("select id, n + 1 as more from a"), Stream)
    assert isinstance(app.sql("select max(n) as n from v"), Table)


def test_sql_reads_what_python_declares_and_python_what_sql_does() -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, amount int")
    app.view(name="totals", key="id")(lambda: orders.by("id").agg("sum(amount) as total"))
    found = app.sql("select id, total from totals where total > 3")
    assert isinstance(found, Table)
    app.view(name="high", key="id")(lambda: found.where("total > 9"))
    assert set(app.outputs) == {"totals", "high"}


def test_a_variable_of_the_environment_stands_for_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "CREATE TABLE t (id BIGINT PRIMARY KEY) CAPTURED FROM env('SHOP_URL') TABLE t"
    with pytest.raises(InvalidDeclaration, match=r"a\.sql:1:\d+: the environment has no variable SHOP_URL"):
        parse_script(source(text))
    monkeypatch.setenv("SHOP_URL", "postgresql://localhost/shop")
    (table,) = parse_script(source(text))
    assert table.url == "postgresql://localhost/shop"  # type: ignore[attr-defined]


def source(text: str) -> SourceText:
    return SourceText(text, Place("a.sql", 1), in_python=False)


@pytest.mark.parametrize(
    ("emit", "kind", "corrections"),
    [("", "", ""), ("EMIT FINAL", "final", ""), ("emit updates", "updates", ""),
     ("EMIT CORRECTIONS FOR '1 day'", "corrections", "1 day")],
)  # fmt: skip
def test_emit_stands_at_the_end_of_a_query(emit: str, kind: str, corrections: str) -> None:
    (view,) = parse_script(source(f"CREATE MATERIALIZED VIEW v AS SELECT a AS emit FROM b {emit}"))
    assert isinstance(view, ViewStatement)
    assert (view.query.emit, view.query.corrections) == (kind, corrections)


def test_a_semicolon_in_a_text_or_a_comment_ends_no_statement() -> None:
    text = "CREATE VIEW a AS SELECT ';' AS x FROM b; -- one; two\nCREATE VIEW c AS SELECT y FROM /* ; */ b;"
    assert [one.name for one in parse_script(source(text))] == ["a", "c"]
