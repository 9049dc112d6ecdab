"""Apps that are files of SQL, as commands read them: nothing here starts Spark."""

from pathlib import Path

import pytest
from pyspark import SparkContext

from tests.cli.conftest import Terminal

SHOP = """
CREATE STREAM orders (id BIGINT, user_id BIGINT, amount DECIMAL(12,2), at TIMESTAMP)
  FROM TOPIC orders WITH (time = 'at');
CREATE TABLE users (id BIGINT PRIMARY KEY, country STRING) FROM TOPIC users;
CREATE MATERIALIZED VIEW spend COMMENT 'Per country.' AS
  SELECT country, sum(amount) AS spent FROM orders JOIN users ON users.id = user_id GROUP BY country;
CREATE MATERIALIZED VIEW leaders AS
  SELECT * FROM spend ORDER BY spent DESC LIMIT 3;
"""


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


def written(terminal: Terminal, text: str) -> Path:
    file = terminal.folder / "shop.sql"
    file.write_text(text)
    return file


def test_the_plan_names_the_statements_by_line(terminal: Terminal) -> None:
    said = terminal.type("plan", str(written(terminal, SHOP)))
    assert (said.code, said.errors) == (0, "")
    assert "job orders+users, consumer group shop.orders+users" in said.output
    assert "writes view spend  (shop.sql:5:1)" in said.output
    assert "rank 3, in the order of spent desc" in said.output
    (job,) = terminal.type("plan", str(terminal.folder / "shop.sql"), "--json").json["jobs"]
    assert [(one["name"], one["key"]) for one in job["outputs"]] == [("spend", ["country"]), ("leaders", ["country"])]


@pytest.mark.parametrize("command", [["plan"], ["run", "--once"]])
def test_all_mistakes_of_a_file_are_shown_with_line_and_column(terminal: Terminal, command: list[str]) -> None:
    wrong = SHOP.replace("FROM spend", "FROM spent").replace("users.id", "user.id")
    said = terminal.type(command[0], str(written(terminal, wrong)), *command[1:])
    assert said.code != 0
    assert "shop.sql:8:17: there is no stream, table or view spent. Did you mean spend?" in said.errors
    assert "shop.sql:6:" in said.errors
    assert "Traceback" not in said.errors
