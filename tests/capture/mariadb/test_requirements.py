"""What the check reports about a server that is not ready, and that its statements help."""

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.capture.finding import Finding
from headwater.capture.mariadb_binlog.database import Database
from headwater.capture.mariadb_binlog.requirements import ServerFacts, check, check_server
from headwater.cli.main import main
from tests.capture.mariadb.kit import Captured, run
from tests.servers.mariadb import Mariadb

FINE = ServerFacts(
    "10.11.19-MariaDB-log", True, "ROW", "FULL", "FULL", 1, True, 864_000, "ada@%",
    ("GRANT ALL PRIVILEGES ON *.* TO ada",),
)  # fmt: skip


def lacking(url: str, *tables: str) -> list[Finding]:
    database = Database(url)
    try:
        return [finding for finding in check(database, tables, url.rpartition("/")[2]) if not finding.fine]
    finally:
        database.close()


def test_a_server_that_is_ready_lacks_nothing(database: Any, url: str) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY)")
    assert lacking(url, "users") == []


@pytest.mark.parametrize(
    "facts, said, statement",
    [
        (FINE._replace(version="8.0.36"), "the server is 8.0.36; MariaDB 10.5 or newer is needed", ""),
        (FINE._replace(version="10.4.9-MariaDB"), "the server is 10.4.9-MariaDB; MariaDB 10.5 or newer is needed", ""),
        (FINE._replace(log_bin=False), "the server writes no binary log", "log_bin = mysql-bin"),
        (FINE._replace(format="MIXED"), "binlog_format is MIXED; it must be ROW", "SET GLOBAL binlog_format = 'ROW';"),
        (FINE._replace(image="MINIMAL"), "binlog_row_image is MINIMAL; it must be FULL", "binlog_row_image = 'FULL'"),
        (FINE._replace(grants=("GRANT SELECT ON *.* TO ada",)), "user ada@% may not read the binary log",
         "GRANT REPLICATION SLAVE ON *.* TO 'ada'@'%';"),
    ],
    ids=["mysql", "old", "no-log", "format", "image", "rights"],
)  # fmt: skip
def test_what_is_missing_is_said_with_its_statement(facts: ServerFacts, said: str, statement: str) -> None:
    (found,) = [finding for finding in check_server(facts) if not finding.fine]
    assert found.said == said
    assert statement in found.statement


def test_what_may_go_wrong_later_is_noted() -> None:
    assert [one.note for one in check_server(FINE) if one.note] == [True]
    notes = [one.said for one in check_server(FINE._replace(sync=0, strict=False, kept_seconds=600)) if one.note]
    assert [said.partition(" is ")[0] for said in notes[1:]] == ["sync_binlog", "gtid_strict_mode", "the log"]


def test_the_statements_help(server: Mariadb, database: Any, url: str, capture: Callable[..., Captured]) -> None:
    run(
        database, "CREATE TABLE users (id INT PRIMARY KEY) ENGINE = MyISAM", "SET GLOBAL binlog_row_metadata = 'NO_LOG'"
    )
    run(database, "CREATE OR REPLACE USER ada IDENTIFIED BY 'secret'", "GRANT USAGE ON *.* TO ada")
    mine = url.replace("root@", "ada:secret@").replace(f"/{database.name}", "/")
    table = f"{database.name}.users"
    try:
        for _ in range(6):
            found = lacking(mine, table)
            if not found:
                break
            run(database, *(statement for one in found for statement in one.statement.split(";") if statement.strip()))
        assert lacking(mine, table) == []
        run(database, "INSERT INTO users VALUES (1)")
        captured = capture(table)
        captured.settings = type(captured.settings)(**{**vars(captured.settings), "url": mine})
        assert len(captured.start().caught_up(database).records("users")) == 1
        captured.crash()
    finally:
        run(database, "SET GLOBAL binlog_row_metadata = 'FULL'", "DROP USER ada")


def test_rows_that_change_by_cascade_are_warned_of(database: Any, url: str) -> None:
    run(
        database, "CREATE TABLE users (id INT PRIMARY KEY)",
        "CREATE TABLE orders (id INT PRIMARY KEY, user INT REFERENCES users (id) ON DELETE CASCADE)",
    )  # fmt: skip
    checking = Database(url)
    said = [finding.said for finding in check(checking, ["*"], database.name) if "cascade" in finding.said]
    checking.close()
    assert len(said) == 1
    assert f"from users to {database.name}.orders" in said[0]


def test_views_and_missing_tables_are_distinguished(database: Any, url: str) -> None:
    run(database, "CREATE VIEW one AS SELECT 1")
    assert [finding.said for finding in lacking(url, "one", "two")] == [
        f"there is no table {database.name}.one: it is a view",
        f"there is no table {database.name}.two, or root@127.0.0.1 may not read it",
    ]


def test_the_name_in_the_front_door_is_the_function_whatever_was_loaded() -> None:
    assert Database.__module__.startswith("headwater.capture.")
    assert hw.capture.mariadb("mysql://ada:hush@db/shop", table="users").tables == ("users",)
    assert "hush" not in repr(hw.capture.mariadb("mysql://ada:hush@db/shop", table="users"))


def test_the_command_shows_it(database: Any, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY)")
    assert main(["capture", "check", url, "--table", "users"]) == 0
    assert "ok       binlog_row_metadata is FULL" in capsys.readouterr().out
    assert main(["capture", "check", url, "--table", "nothing"]) == 1
    assert "missing  there is no table" in capsys.readouterr().out
