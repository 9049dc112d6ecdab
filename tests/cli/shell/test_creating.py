"""CREATE at the shell: what it changes is said first, then it is in the file of the app."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.flows import remember_app
from headwater.cli.shell import topics as shell_topics
from headwater.flow.declare.checks.loading import load_app
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.record import Record
from tests.cli.conftest import Terminal
from tests.flow.spark_session import shared_session
from tests.serve.shop import Shop, open_shop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

APP = """-- what is paid
CREATE STREAM payments (id BIGINT, country STRING, paid BIGINT) FROM TOPIC payments;
-- by country
CREATE MATERIALIZED VIEW spend AS SELECT country, sum(paid) AS paid FROM payments GROUP BY country;
"""
LARGE = (
    "CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT country, sum(paid) AS paid FROM payments WHERE paid > 1 "
    "GROUP BY country"
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of an app that has run."""

    @contextmanager
    def shared(*_: object) -> Iterator[SparkSession]:
        yield shared_session()

    monkeypatch.setattr(shell_topics, "spark", shared)
    with open_shop(tmp_path / "data") as shop:
        monkeypatch.setenv("HEADWATER_DATA", str(shop.node.data))
        shop.node.log.create_topic("payments")
        shop.node.log.append("payments", Record(b'{"id": 1, "country": "DE", "paid": 2}', timestamp_ms=1))
        file = tmp_path / "pay.sql"
        file.write_text(APP)
        run(shop, file)
        yield file


def run(shop: Shop, file: Path) -> None:
    app = load_app(file)
    remember_app(shop.node.data, app, file)
    settings = RunSettings(shop.node.data, shop.node.kafka_address, once=True)
    running = RunningApp(app, shared_session(), settings)
    try:
        running.start()
        running.wait()
    finally:
        running.stop()


@pytest.mark.on_spark
def test_what_changes_is_said_and_nothing_is_written_without_a_yes(file: Path, terminal: Terminal) -> None:
    said = terminal.type("sql", "-c", LARGE)
    assert said.code == 1
    assert "spend: rebuild: " in said.output
    assert "nothing was written" in said.errors
    assert file.read_text() == APP

    said = terminal.type("sql", "--yes", "-c", LARGE)
    assert said.code == 0, said.errors
    assert "--take-over --rebuild spend" in said.output
    head, _, rest = APP.partition("CREATE MATERIALIZED")
    assert file.read_text() == f"{head}{LARGE.replace(' OR REPLACE', '')};\n"
    assert rest

    view = "CREATE MATERIALIZED VIEW all_paid AS SELECT country, count(*) AS n FROM payments GROUP BY country;"
    said = terminal.type("sql", "--yes", "-c", view)
    assert said.code == 0, said.errors
    assert "all_paid: new" in said.output
    assert file.read_text().endswith(f"GROUP BY country;\n\n{view}\n")


@pytest.mark.on_spark
def test_a_mistake_or_a_name_that_is_taken_is_a_sentence_and_nothing_is_written(file: Path, terminal: Terminal) -> None:
    for sql, sentence in (
        (LARGE.replace(" OR REPLACE", ""), "spend is declared already, at pay.sql:4:1"),
        ("CREATE MATERIALIZED VIEW b AS SELECT nothing, count(*) AS n FROM payments GROUP BY nothing", "pay.sql:6"),
        ("CREATE SOMETHING x", "statement:1"),
    ):
        said = terminal.type("sql", "--yes", "-c", sql)
        assert said.code == 1
        assert sentence in said.errors
        assert file.read_text() == APP
