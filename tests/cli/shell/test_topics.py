"""`headwater sql` over topics, which are read by Spark up to where they ended when they were asked."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.shell import topics as shell_topics
from headwater.record import Record
from tests.cli.conftest import Ran, Terminal
from tests.flow.spark_session import shared_session
from tests.serve.shop import Shop, fill, open_shop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

APP = """
CREATE STREAM payments (id BIGINT, country STRING, paid DECIMAL(12,2), at TIMESTAMP) FROM TOPIC payments;
CREATE TABLE cities (id BIGINT PRIMARY KEY, name STRING) FROM TOPIC cities;
CREATE MATERIALIZED VIEW spend AS SELECT country, sum(paid) AS paid FROM payments GROUP BY country;
"""


@pytest.fixture(scope="module")
def shared_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with open_shop(folder / "data") as opened:
        fill(opened)
        log = opened.node.log
        for topic, partitions in (("payments", 2), ("cities", 1), ("plain-text", 1)):
            log.create_topic(topic, partitions=partitions)
        for number, (country, paid) in enumerate((("DE", "1.50"), ("IT", "2.00"), ("DE", "4.00"))):
            said = {"id": number, "country": country, "paid": paid, "at": "2026-01-01T00:00:00Z"}
            log.append("payments", Record(json.dumps(said).encode(), timestamp_ms=number), partition=number % 2)
        log.append("payments", Record(b"no json", timestamp_ms=9), partition=1)
        for value in ({"id": 1, "name": "Oslo"}, {"id": 2, "name": "Bergen"}, {"id": 1, "name": "Rome"}):
            log.append("cities", Record(json.dumps(value).encode(), key=str(value["id"]).encode(), timestamp_ms=1))
        log.append("cities", Record(None, key=b"2", timestamp_ms=2))
        log.append("plain-text", Record(b"hello", key=b"k", timestamp_ms=1))
        remembered(folder, opened.node.data)
        yield opened


def remembered(folder: Path, data: Path) -> None:
    from headwater.cli.flows import remember_app
    from headwater.flow.declare.checks.loading import load_app

    file = folder / "pay.sql"
    file.write_text(APP)
    remember_app(data, load_app(file), file)


@pytest.fixture
def ask(shared_shop: Shop, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    @contextmanager
    def shared(*_: object) -> Iterator[SparkSession]:
        yield shared_session()

    monkeypatch.setattr(shell_topics, "spark", shared)
    monkeypatch.setenv("HEADWATER_DATA", str(shared_shop.node.data))
    return terminal


def asked(terminal: Terminal, sql: str, *words: str) -> Ran:
    return terminal.type("sql", "--json", *words, "-c", sql)


@pytest.mark.on_spark
def test_a_topic_has_the_columns_that_its_app_declares_and_says_up_to_where_it_was_read(ask: Terminal) -> None:
    said = asked(ask, "SELECT country, sum(paid) AS paid FROM payments GROUP BY country ORDER BY country")
    assert said.code == 0, said.errors
    assert said.json["rows"] == [{"country": "DE", "paid": "5.50"}, {"country": "IT", "paid": "2.00"}]
    assert said.json["position"] == {"payments": {"0": 2, "1": 2}}
    assert "reading up to 4 records of payments with Spark" in said.errors
    assert "1 record left out that cannot be decoded" in said.errors


@pytest.mark.on_spark
def test_a_declared_table_is_its_newest_rows(ask: Terminal) -> None:
    assert asked(ask, "SELECT * FROM cities").json["rows"] == [{"id": 1, "name": "Rome"}]


@pytest.mark.on_spark
def test_a_topic_that_nothing_describes_has_keys_values_and_timestamps(ask: Terminal) -> None:
    sql = "SELECT cast(key AS string) AS k, cast(value AS string) AS v, timestamp, partition, offset FROM `plain-text`"
    said = asked(ask, sql)
    (row,) = said.json["rows"]
    assert (row["k"], row["v"], row["partition"], row["offset"]) == ("k", "hello", 0, 0)
    assert row["timestamp"] == "1970-01-01T00:00:00.001000+00:00"


@pytest.mark.on_spark
def test_topics_are_joined_with_views_and_rows_are_bounded(ask: Terminal) -> None:
    sql = "SELECT r.country, r.amount, p.paid FROM shop.revenue r JOIN payments p USING (country) ORDER BY p.id"
    said = asked(ask, sql, "--limit", "2")
    assert [row["country"] for row in said.json["rows"]] == ["DE", "IT"]
    assert said.json["rows"][0]["amount"] == "12.50"
    assert said.json["cut"]
    assert said.json["position"] is None
    assert set(said.json["views"]) == {"payments", "shop.revenue"}


@pytest.mark.on_spark
def test_what_spark_does_not_know_is_a_sentence(ask: Terminal) -> None:
    said = ask.type("sql", "-c", "SELECT payed FROM payments")
    assert said.code == 1
    assert "payed" in said.errors
    assert "Traceback" not in said.errors


@pytest.mark.parametrize(
    "sql, sentence",
    [
        ("SELECT * FROM payments JOIN nothing USING (id)", "there is no view and no topic nothing"),
        ("SUBSCRIBE TO (SELECT * FROM payments)", "SUBSCRIBE goes with views, and payments is a topic"),
        ("EXPLAIN SELECT * FROM payments", "EXPLAIN goes with views, and payments is a topic"),
        ("SELECT * FROM nothing", "nothing"),
        ("INSERT INTO payments VALUES (1)", "Only SELECT can"),
    ],
)
def test_mistakes_are_sentences_before_spark_starts(ask: Terminal, sql: str, sentence: str) -> None:
    said = ask.type("sql", "-c", sql)
    assert said.code == 1
    assert sentence in said.errors
    assert "with Spark" not in said.errors
