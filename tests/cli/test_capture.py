"""headwater capture, against a real PostgreSQL and a node."""

import json
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.capture.definition import Definitions
from headwater.cli.capture import bar
from tests.capture.kit import fold, run
from tests.capture.postgres.conftest import cluster, database, url
from tests.cli.conftest import Ran, Terminal
from tests.servers.postgres_cluster import Cluster
from tests.waiting import patience

__all__ = ["cluster", "database", "url"]  # fixtures
Connection = psycopg.Connection[Any]
PATIENCE_SECONDS = 60


@contextmanager
def running(data: Path) -> Iterator[Node]:
    with Node(data, NodeSettings(wire=WireSettings(port=0), captures=True)) as node:
        yield node


def until(reached: Callable[[], object]) -> None:
    deadline = patience() + PATIENCE_SECONDS
    while not reached():
        assert patience() < deadline, "it did not come so far"
        time.sleep(0.05)


def state(terminal: Terminal, name: str) -> str:
    (status,) = terminal.type("capture", "status", name, "--json").json
    return str(status["state"])


@pytest.fixture
def users(database: Connection) -> Connection:
    run(database, "CREATE TABLE users (id int PRIMARY KEY, name text)", "INSERT INTO users VALUES (1, 'ada')")
    return database


def add(terminal: Terminal, url: str, *more: str) -> Ran:
    return terminal.type("capture", "add", "users", url, "--table", "public.users", *more)


def test_a_capture_that_is_added_runs_with_the_node_until_it_is_removed(
    terminal: Terminal, url: str, users: Connection
) -> None:
    assert add(terminal, url, "--json").json["running"] is False
    with running(terminal.data) as node:
        until(lambda: state(terminal, "users") == "streaming")
        run(users, "INSERT INTO users VALUES (2, 'bob')")
        until(lambda: len(list(node.log.read("users", 0))) == 2)
        assert [row["name"] for row in fold(list(node.log.read("users", 0))).values()] == ["ada", "bob"]
        listed = terminal.type("capture", "list").output
        assert "public.users" in listed
        assert "streaming" in listed
        assert terminal.type("capture", "remove", "users").code == 0
        until(lambda: not Definitions(terminal.data).names())
        assert not users.execute("SELECT 1 FROM pg_replication_slots WHERE database = current_database()").fetchall()
        assert users.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
        assert len(list(node.log.read("users", 0))) == 2, "its topic stays"


def test_where_a_node_runs_the_topic_is_there_when_the_command_is_done(
    terminal: Terminal, url: str, users: Connection
) -> None:
    with running(terminal.data) as node:
        assert "begins now" in add(terminal, url).output
        assert node.log.topic("users").name == "users"


def test_status_reports_position_lag_and_what_the_database_keeps(
    terminal: Terminal, url: str, users: Connection
) -> None:
    add(terminal, url)
    with running(terminal.data):
        until(lambda: (terminal.type("capture", "status", "--json").json[0]).get("lag_seconds") is not None)
        (status,) = terminal.type("capture", "status", "--json").json
        assert status["node_running"] is True
        assert status["lag_bytes"] >= 0
        assert status["retained_bytes"] >= 0
        shown = terminal.type("capture", "status").output
        assert "bytes, 0.0 s" in shown
        assert "kept by database" in shown
    assert "no node runs" in terminal.type("capture", "status").errors


def test_the_bar_shows_how_far_a_copy_is() -> None:
    assert bar("public.users", 25, 100, False) == "public.users  [#####---------------]  25 of about 100 rows"


def test_a_copy_on_demand_reads_a_table_again(terminal: Terminal, url: str, users: Connection) -> None:
    add(terminal, url)
    with running(terminal.data) as node:
        until(lambda: state(terminal, "users") == "streaming")
        assert terminal.type("capture", "snapshot", "users", "--table", "public.users").code == 0
        until(lambda: len(list(node.log.read("users", 0))) == 2)
        assert [json.loads(record.value or b"")["op"] for record in node.log.read("users", 0)] == ["r", "r"]


def test_a_gap_stops_it_until_a_new_copy_is_requested(terminal: Terminal, url: str, users: Connection) -> None:
    add(terminal, url)
    with running(terminal.data):
        until(lambda: state(terminal, "users") == "streaming")
    run(users, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    run(users, "INSERT INTO users VALUES (2, 'bob')", "DELETE FROM users WHERE id = 1")
    with running(terminal.data) as node:
        until(lambda: state(terminal, "users") == "gap")
        assert "headwater capture snapshot" in terminal.type("capture", "status").output
        terminal.type("capture", "snapshot", "users")
        until(lambda: state(terminal, "users") == "streaming")
        until(lambda: list(fold(list(node.log.read("users", 0)))) == ['{"id":2}'])


def test_a_database_that_goes_away_and_comes_back_is_waited_for(
    terminal: Terminal, url: str, users: Connection, cluster: Cluster
) -> None:
    add(terminal, url)
    with running(terminal.data) as node:
        until(lambda: state(terminal, "users") == "streaming")
        users.close()
        cluster.stop()
        until(lambda: state(terminal, "users") == "waiting")
        cluster.start()
        with psycopg.connect(url, autocommit=True) as connection:
            run(connection, "INSERT INTO users VALUES (2, 'bob')")
        until(lambda: len(list(node.log.read("users", 0))) == 2)


def test_what_is_missing_is_shown_with_the_statement(terminal: Terminal, url: str, database: Connection) -> None:
    run(database, "CREATE TABLE bag (a int)", "DROP ROLE IF EXISTS newcomer", "CREATE ROLE newcomer LOGIN")
    try:
        checked = terminal.type("capture", "check", url.replace("postgres@", "newcomer@"), "--table", "public.bag")
        assert checked.code == 1
        for words in (
            "missing  role newcomer may not open replication connections",
            "ALTER ROLE newcomer REPLICATION;",
            "GRANT CREATE ON DATABASE",
            "GRANT SELECT ON public.bag TO newcomer;",
            "ALTER TABLE public.bag REPLICA IDENTITY FULL;",
            "ok       wal_level is logical",
        ):
            assert words in checked.output
    finally:
        run(database, "DROP ROLE newcomer")


def test_the_statements_that_check_gives_are_enough(terminal: Terminal, url: str, database: Connection) -> None:
    run(database, "CREATE TABLE bag (a int)", "DROP ROLE IF EXISTS newcomer", "CREATE ROLE newcomer LOGIN")
    theirs = url.replace("postgres@", "newcomer@")
    try:
        for finding in terminal.type("capture", "check", theirs, "--table", "public.bag", "--json").json:
            if not finding["fine"]:
                run(database, finding["statement"].partition("--")[0])
        assert terminal.type("capture", "check", theirs, "--table", "public.bag").code == 0
        assert terminal.type("capture", "add", "bag", theirs, "--table", "public.bag").code == 0
        with running(terminal.data):
            until(lambda: state(terminal, "bag") == "streaming")
        assert terminal.type("capture", "remove", "bag").code == 0
    finally:
        run(database, "DROP OWNED BY newcomer", "DROP ROLE newcomer")


def test_a_table_that_is_not_there_is_one_sentence(terminal: Terminal, url: str) -> None:
    ran = terminal.type("capture", "add", "users", url, "--table", "public.nobody")
    assert ran.code == 1
    assert "there is no table public.nobody" in ran.errors


def test_a_database_that_does_not_answer_is_one_sentence(terminal: Terminal) -> None:
    ran = terminal.type("capture", "check", "postgresql://ada:secret@127.0.0.1:1/shop")
    assert ran.code == 1
    assert "does not answer" in ran.errors
    assert "secret" not in ran.errors


def test_a_password_is_kept_where_only_its_owner_can_read_and_never_shown(
    terminal: Terminal, url: str, users: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hush")
    said = add(terminal, url)
    path = Definitions(terminal.data).of("users") / "definition.json"
    assert "hush" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    shown = said.output + terminal.type("capture", "list").output + terminal.type("capture", "status").output
    assert "hush" not in shown
    assert "hush" not in repr(Definitions(terminal.data).get("users"))


def test_a_capture_that_is_added_again_takes_the_new_password(
    terminal: Terminal, url: str, users: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for password in ("old", "new"):
        monkeypatch.setenv("PGPASSWORD", password)
        assert add(terminal, url).code == 0
    monkeypatch.delenv("PGPASSWORD")
    assert add(terminal, url).code == 0
    assert ":new@" in Definitions(terminal.data).get("users").url
    assert "exists already" in add(terminal, url, "--partitions", "3").errors


def test_an_unknown_capture_is_one_sentence(terminal: Terminal) -> None:
    ran = terminal.type("capture", "status", "nobody")
    assert ran.code == 1
    assert 'there is no capture "nobody"' in ran.errors


def test_a_database_of_sqlite_is_captured_until_it_is_removed(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "local.db"
    local = sqlite3.connect(path, isolation_level=None)
    local.execute("CREATE TABLE sensors (id INTEGER PRIMARY KEY, value REAL)")
    assert "journal_mode = WAL" in terminal.type("capture", "check", f"sqlite:///{path}", "--table", "sensors").output
    missing = terminal.type("capture", "add", "nobody", f"sqlite:///{path}", "--table", "nobody")
    assert "has no table nobody" in missing.errors
    assert terminal.type("capture", "add", "sensors", f"sqlite:///{path}", "--table", "sensors").code == 0
    with running(terminal.data) as node:
        until(lambda: state(terminal, "sensors") == "streaming")
        local.execute("INSERT INTO sensors VALUES (1, 20.5)")
        until(lambda: len(list(node.log.read("sensors", 0))) == 1)
        assert terminal.type("capture", "remove", "sensors").code == 0
        until(lambda: not Definitions(terminal.data).names())
    assert local.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'headwater%'").fetchone() == (0,)
    local.close()


def test_events_of_postgresql_are_relayed_in_the_order_of_commits(
    terminal: Terminal, url: str, database: Connection
) -> None:
    run(database, "CREATE TABLE events (id bigserial PRIMARY KEY, order_id text, kind text, payload jsonb)")
    run(database, "INSERT INTO events VALUES (0, 'o0', 'before', '{}')")
    added = terminal.type(
        "capture", "add", "events", url, "--table", "public.events", "--outbox", "--key-column", "order_id"
    )
    assert added.code == 0, added.errors
    with running(terminal.data) as node, psycopg.connect(url) as slow, psycopg.connect(url) as fast:
        until(lambda: state(terminal, "events") == "streaming")
        slow.execute("""INSERT INTO events (order_id, kind, payload) VALUES ('o1', 'placed', '{"n": 1}')""")
        fast.execute("""INSERT INTO events (order_id, kind, payload) VALUES ('o2', 'placed', '{"n": 2}')""")
        fast.execute("UPDATE events SET kind = 'changed'")
        fast.execute("DELETE FROM events WHERE order_id = 'o2'")
        fast.commit()
        slow.commit()
        until(lambda: len(list(node.log.read("events", 0))) == 2)
        records = list(node.log.read("events", 0))
    assert [(record.key, record.value) for record in records] == [(b"o2", b'{"n": 2}'), (b"o1", b'{"n": 1}')]
    assert dict(records[0].headers)["kind"] == b"placed"


def test_metrics_that_are_sent_to_a_port_are_emitted(terminal: Terminal) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        port = sender.getsockname()[1] + 1
        added = terminal.type("capture", "add", "metrics", f"statsd://127.0.0.1:{port}", "--interval", "200ms")
        assert added.code == 0, added.errors
        with running(terminal.data) as node:
            until(lambda: state(terminal, "metrics") == "streaming")
            sender.sendto(b"hits:3|c", ("127.0.0.1", port))
            until(lambda: any(record.key == b"hits" for record in node.log.read("metrics", 0)))
    refused = terminal.type("capture", "add", "open", f"statsd://0.0.0.0:{port}")
    assert "--insecure-public-bind" in refused.errors


def test_lines_of_files_are_emitted(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    added = terminal.type("capture", "add", "access", f"file://{path}*", "--encoding", "latin-1")
    assert added.code == 0, added.errors
    with running(terminal.data) as node:
        until(lambda: state(terminal, "access") == "streaming")
        path.write_bytes(b"caf\xe9\n")
        until(lambda: list(node.log.read("access", 0)))
        assert [record.value for record in node.log.read("access", 0)] == ["café".encode()]
        terminal.type("capture", "remove", "access")
        until(lambda: not Definitions(terminal.data).names())
