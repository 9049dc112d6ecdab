"""What the topics have of changes on a MariaDB server."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.mariadb_binlog import assembler, stream
from headwater.capture.notes import Notes
from headwater.errors import SourceGap, SourceRefused, SourceUnavailable
from tests.capture.kit import bag, fold
from tests.capture.mariadb.kit import PATIENCE_SECONDS, Captured, run, table_of
from tests.capture.sqlite_outbox.kit import replayed
from tests.servers.mariadb import Mariadb, running_mariadb
from tests.waiting import patience

Make = Callable[..., Captured]
USERS = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(50))"


def test_rows_are_copied_and_every_change_follows(database: Any, capture: Make) -> None:
    run(database, USERS, "INSERT INTO users VALUES (1, 'ada'), (2, 'bob')")
    captured = capture("users").start().caught_up(database)
    run(database, "INSERT INTO users VALUES (3, 'cyd')", "UPDATE users SET name = 'eve' WHERE id = 1")
    run(database, "DELETE FROM users WHERE id = 2", "UPDATE users SET id = 9 WHERE id = 3")
    captured.caught_up(database)
    ada, bob, cyd = {"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}, {"id": 3, "name": "cyd"}
    assert captured.emitted("users") == [
        ("r", None, ada), ("r", None, bob), ("c", None, cyd), ("u", ada, {"id": 1, "name": "eve"}), ("d", bob, None),
        ("d", cyd, None), ("c", None, {"id": 9, "name": "cyd"}),
    ]  # fmt: skip
    assert [record.key for record in captured.records("users") if record.value is None] == [b'{"id":2}', b'{"id":3}']
    source = captured.values("users")[-1]["source"]
    assert (source["connector"], source["db"], source["table"], source["server_id"], source["snapshot"]) == (
        "mariadb", database.name, "users", 1, "false",
    )  # fmt: skip
    assert source["file"].startswith("mysql-bin.")
    assert source["gtid"].startswith("0-1-")


def test_transactions_are_emitted_in_the_order_of_their_commits(server: Mariadb, database: Any, capture: Make) -> None:
    run(database, USERS)
    captured = capture("users").start().caught_up(database)
    others = server.connect(database=database.name)
    run(others, "BEGIN", "INSERT INTO users VALUES (1, 'first to write')")
    run(database, "BEGIN", "INSERT INTO users VALUES (2, 'first to commit')", "COMMIT")
    run(database, "BEGIN", "INSERT INTO users VALUES (3, 'taken back')", "ROLLBACK")
    run(others, "COMMIT")
    others.close()
    captured.caught_up(database)
    assert [after["id"] for _, _, after in captured.emitted("users")] == [2, 1]


def test_domains_of_gtids_keep_the_order_of_the_log(database: Any, capture: Make) -> None:
    run(database, USERS)
    captured = capture("users").start().caught_up(database)
    for id in range(1, 9):
        run(database, f"SET gtid_domain_id = {id % 3}", f"INSERT INTO users VALUES ({id}, 'x')")
        if id == 4:
            captured.caught_up(database).until(lambda: noted(captured) == captured.source.status().position)
        if id == 6:
            captured.caught_up(database).crash()
    run(database, "SET gtid_domain_id = 0")
    captured.start().caught_up(database)
    assert [after["id"] for _, _, after in captured.emitted("users")] == list(range(1, 9))
    assert str(noted(captured)).count(",") >= 2


def test_a_table_without_transactions_is_not_copied(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE old (id INT PRIMARY KEY) ENGINE = MyISAM", "INSERT INTO old VALUES (1)")
    with pytest.raises(SourceRefused, match="no transactions") as refusal:
        capture("old").start()
    assert "ENGINE = InnoDB" in refusal.value.hint
    captured = capture("o*").start().caught_up(database)
    run(database, "INSERT INTO old VALUES (2)")
    assert captured.caught_up(database).emitted("old") == [("c", None, {"id": 2})]


def test_a_transaction_that_was_cut_in_the_middle_continues_there(
    database: Any, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembler, "HELD_BACK_MAX", 10)
    monkeypatch.setattr(stream, "RECEIVE_BYTES", 16 * 1024)
    run(database, USERS)
    captured = capture("users", partitions=3).start().caught_up(database)
    rows = ", ".join(f"({number}, '{'x' * 50}')" for number in range(20_000))
    run(database, "BEGIN", f"INSERT INTO users VALUES {rows}", "UPDATE users SET name = 'y'", "COMMIT")
    captured.until(lambda: captured.runner.counts.records > 300)
    assert captured.runner.counts.records < 40_000
    captured.crash()
    captured.start().caught_up(database)
    assert captured.runner.counts.skipped > 300
    changes = captured.emitted("users")
    assert (len(changes), len(replayed(captured.records("users")))) == (40_000, 20_000)
    per_partition = [list(captured.log.read("users", partition)) for partition in range(3)]
    assert all(sorted(positions(some)) == positions(some) for some in per_partition)


def positions(records: list[Any]) -> list[tuple[int, int, int]]:
    found = []
    for record in records:
        commit, address, number = dict(record.headers)["position"].split(b"/")
        found.append((int(commit, 16), int(address, 16), int(number)))
    return found


def test_columns_are_followed_also_while_the_capture_is_down(database: Any, capture: Make) -> None:
    run(database, USERS)
    captured = capture("users").start().caught_up(database)
    captured.crash()
    run(
        database,
        "INSERT INTO users VALUES (1, 'ada')",
        "ALTER TABLE users ADD COLUMN age INT UNSIGNED DEFAULT 7 FIRST",
        "INSERT INTO users VALUES (4294967295, 2, 'bob')",
        "ALTER TABLE users CHANGE name full_name VARCHAR(100) CHARACTER SET latin1",
        "INSERT INTO users VALUES (1, 3, 'ö')",
        "ALTER TABLE users DROP COLUMN age, MODIFY id BIGINT",
        "INSERT INTO users VALUES (4, 'dan')",
    )
    captured.start().caught_up(database)
    assert [after for _, _, after in captured.emitted("users")] == [
        {"id": 1, "name": "ada"},
        {"age": 4294967295, "id": 2, "name": "bob"},
        {"age": 1, "id": 3, "full_name": "ö"},
        {"id": 4, "full_name": "dan"},
    ]
    notes = Notes(LogAppender(captured.log), "shop").all()
    assert notes[f"schema/{database.name}.users"]["version"] == 4


@pytest.mark.parametrize(
    "statements",
    [
        ["TRUNCATE TABLE users", "INSERT INTO users VALUES (3, 'cyd')"],
        ["DROP TABLE users", USERS, "INSERT INTO users VALUES (3, 'cyd')"],
        [USERS.replace("TABLE", "OR REPLACE TABLE"), "INSERT INTO users VALUES (3, 'cyd')"],
        [f"INSERT INTO users VALUES {', '.join(f'({id}, 0)' for id in range(10, 60))}",
         "CREATE OR REPLACE TABLE users (id INT PRIMARY KEY, name VARCHAR(50)) SELECT 3 AS id, 'cyd' AS name UNION "
         "SELECT 4, 'dan' UNION SELECT 20, 'eve'"],
        [USERS.replace("TABLE", "TABLE IF NOT EXISTS"), "INSERT INTO users VALUES (3, 'cyd')"],
        ["CREATE TABLE other LIKE users", "INSERT INTO other VALUES (2, 'bob'), (7, 'gus')",
         "RENAME TABLE users TO old, other TO users", "INSERT INTO users VALUES (3, 'cyd')"],
        ["CREATE TABLE other (id INT PRIMARY KEY, name VARCHAR(50)) SELECT 5 AS id, 'eve' AS name",
         "DROP TABLE users", "ALTER TABLE other RENAME TO users"],
        ["ALTER TABLE users PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (2), PARTITION b VALUES LESS THAN "
         "(100))", "ALTER TABLE users DROP PARTITION a", "INSERT INTO users VALUES (3, 'cyd')"],
        ["SET binlog_format = 'STATEMENT'", "UPDATE users SET name = CONCAT(name, '!')",
         "DELETE FROM users WHERE id = 1", "SET binlog_format = 'ROW'"],
        ["ALTER TABLE users DROP PRIMARY KEY, ADD PRIMARY KEY (name)", "INSERT INTO users VALUES (3, 'cyd')"],
        ["ALTER TABLE users ADD COLUMN age INT DEFAULT 3", "SET binlog_row_image = 'MINIMAL'",
         "UPDATE users SET name = 'eve' WHERE id = 1", "DELETE FROM users WHERE id = 2",
         "SET binlog_row_image = 'FULL'"],
        ["ALTER TABLE users RENAME COLUMN id TO uid", "INSERT INTO users VALUES (3, 'cyd')"],
        ["ALTER TABLE users MODIFY id VARCHAR(9)", "INSERT INTO users VALUES ('3', 'cyd')"],
        ["CREATE TABLE `users#old` LIKE users", "DROP TABLE `users#old`"],
        ["RENAME TABLE users TO gone"],
    ],
    ids=["truncated", "dropped", "replaced", "replaced-with-rows", "not-created", "swapped", "moved-in", "partition",
         "statement", "key", "image", "key-renamed", "key-retyped", "another-dropped", "gone"],
)  # fmt: skip
@pytest.mark.parametrize("down", [pytest.param(False, marks=pytest.mark.torture), True], ids=["running", "down"])
def test_the_topic_is_the_table_whatever_was_done_to_it(
    database: Any, capture: Make, statements: list[str], down: bool
) -> None:
    run(database, USERS, "INSERT INTO users VALUES (1, 'ada'), (2, 'bob')")
    captured = capture("users").start().caught_up(database)
    if down:
        captured.crash()
    run(database, *statements)
    if down:
        captured.start()
    captured.caught_up(database).caught_up(database)
    key = ("name",) if "ADD PRIMARY KEY (name)" in statements[0] else ("uid",) if "uid" in statements[0] else ("id",)
    expected = {} if "gone" in statements[0] else table_of(database, "users", key)
    assert fold(captured.records("users")) == expected
    captured.crash()
    captured.start().caught_up(database)
    assert fold(captured.records("users")) == expected


def test_a_table_that_a_pattern_names_later_joins_without_a_copy(database: Any, capture: Make) -> None:
    run(database, USERS)
    captured = capture("*").start().caught_up(database)
    run(database, "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    captured.caught_up(database)
    assert captured.emitted("orders") == [("c", None, {"id": 1})]


def test_sequences_and_views_are_no_tables(database: Any, capture: Make) -> None:
    run(database, USERS, "CREATE SEQUENCE numbers", "CREATE VIEW names AS SELECT name FROM users")
    captured = capture("*").start().caught_up(database)
    run(database, "SELECT NEXTVAL(numbers)", "INSERT INTO users VALUES (1, 'ada')")
    captured.caught_up(database)
    assert [table.name for table in captured.source.tables()] == ["users"]


def test_a_distributed_transaction_is_emitted_when_it_is_committed(
    server: Mariadb, database: Any, capture: Make
) -> None:
    run(database, USERS)
    captured = capture("users").start().caught_up(database)
    for name, id in (("a", 1), ("b", 2)):
        other = server.connect(database=database.name)
        run(other, f"XA START '{name}'", f"INSERT INTO users VALUES ({id}, '{name}')")
        run(other, f"XA END '{name}'", f"XA PREPARE '{name}'")
        other.close()
    run(database, "INSERT INTO users VALUES (3, 'c')")
    captured.until(lambda: len(captured.emitted("users")) == 1)
    captured.source._noted_at_ms = -(10**9)  # what is due to be noted is noted now
    captured.runner.step(0)
    captured.crash()
    run(database, "XA ROLLBACK 'a'", "INSERT INTO users VALUES (4, 'd')", "XA COMMIT 'b'")
    run(database, "XA START 'e'", "INSERT INTO users VALUES (5, 'e')", "XA END 'e'", "XA COMMIT 'e' ONE PHASE")
    captured.start().caught_up(database)
    captured.crash()
    captured.start().caught_up(database)
    assert [after["id"] for _, _, after in captured.emitted("users")] == [3, 4, 2, 5]


def test_a_distributed_transaction_that_was_prepared_before_the_capture_began_is_copied(
    server: Mariadb, database: Any, capture: Make
) -> None:
    run(database, USERS, "INSERT INTO users VALUES (1, 'ada')")
    other = server.connect(database=database.name)
    run(other, "XA START 'old'", "INSERT INTO users VALUES (2, 'bob')", "XA END 'old'", "XA PREPARE 'old'")
    other.close()
    captured = capture("users").start().caught_up(database)
    run(database, "XA COMMIT 'old'")
    captured.caught_up(database).caught_up(database)
    assert fold(captured.records("users")) == table_of(database, "users")
    assert len(table_of(database, "users")) == 2
    changes = len(captured.records("users"))
    captured.crash()
    captured.start().caught_up(database)
    assert len(captured.records("users")) == changes


def test_a_table_without_a_key_is_copied_as_it_was_at_one_moment(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE things (name VARCHAR(9))", "INSERT INTO things VALUES ('a'), ('b'), ('a')")
    captured = capture("things").start()
    run(database, "INSERT INTO things VALUES ('c')")
    captured.caught_up(database)
    run(database, "DELETE FROM things WHERE name = 'b'")
    run(database, "UPDATE things SET name = 'd' WHERE name = 'c'")
    captured.caught_up(database)
    assert sorted(row["name"] for row in bag(captured.records("things"))) == ["a", "a", "d"]
    captured.source.copy_again([])
    captured.crash()
    captured.start().caught_up(database)
    assert sorted(row["name"] for row in bag(captured.records("things"))) == ["a", "a", "d"]


def test_compressed_events_are_read(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY, name TEXT)")
    captured = capture("users").start().caught_up(database)
    try:
        run(database, "SET GLOBAL log_bin_compress = 1, GLOBAL log_bin_compress_min_len = 10")
        run(database, f"INSERT INTO users VALUES (1, '{'x' * 5_000}')", "UPDATE users SET name = REPEAT('y', 9000)")
        run(database, f"ALTER TABLE users ADD COLUMN age INT COMMENT '{'z' * 500}'", "DELETE FROM users")
    finally:
        run(database, "SET GLOBAL log_bin_compress = 0")
    captured.caught_up(database)
    assert [operation for operation, _, _ in captured.emitted("users")] == ["c", "u", "d"]
    assert captured.emitted("users")[2][1] == {"id": 1, "name": "y" * 9_000, "age": None}


def test_events_larger_than_a_packet_are_read(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE files (id INT PRIMARY KEY, body LONGTEXT)")
    captured = capture("files").start().caught_up(database)
    run(database, f"INSERT INTO files VALUES (1, REPEAT('x', {20 * 2**20}))", "INSERT INTO files VALUES (2, 'y')")
    captured.caught_up(database)
    assert [len(after["body"]) for _, _, after in captured.emitted("files")] == [20 * 2**20, 1]


def test_the_position_advances_while_only_others_are_written_to(database: Any, capture: Make) -> None:
    run(database, USERS, "CREATE TABLE busy (id INT PRIMARY KEY)")
    captured = capture("users").start().caught_up(database)
    before = noted(captured)
    run(database, *(f"INSERT INTO busy VALUES ({number})" for number in range(20)))
    captured.until(lambda: noted(captured) != before)
    captured.caught_up(database)
    assert captured.source.status().lag_seconds == 0


def test_a_stream_that_is_ended_by_the_server_continues(database: Any, capture: Make) -> None:
    run(database, USERS)
    captured = capture("users").start().caught_up(database)
    run(database, *(f"KILL {id}" for id in streams(database)), "INSERT INTO users VALUES (1, 'ada')")
    with pytest.raises(SourceUnavailable):
        captured.until(lambda: False)
    captured.crash()
    captured.start().caught_up(database)
    assert len(captured.emitted("users")) == 1


def test_no_record_is_older_than_one_before_it(server: Mariadb, database: Any, capture: Make) -> None:
    """The log has the time a statement began: one that had to wait is older than what it waited for."""
    run(database, USERS, "INSERT INTO users VALUES (1, 'ada')")
    captured = capture("users").start().caught_up(database)
    other = server.connect(database=database.name)
    run(database, "SET timestamp = 2000000000", "UPDATE users SET name = 'late'")
    run(other, "SET timestamp = 1000000000", "UPDATE users SET name = 'early'")
    captured.caught_up(database).crash()
    run(other, "UPDATE users SET name = 'earlier'")
    other.close()
    captured.start().caught_up(database)
    times = [record.timestamp_ms for record in captured.records("users")]
    assert times == sorted(times)
    assert [value["source"]["ts_ms"] // 1000 for value in captured.values("users")[1:]] == [
        2_000_000_000, 1_000_000_000, 1_000_000_000,
    ]  # fmt: skip


# -- gaps --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_server() -> Any:
    with running_mariadb() as server:
        yield server


def test_a_gap_is_said_and_healed_by_a_new_copy(own_server: Mariadb, tmp_path: Path) -> None:
    database = own_server.connect()
    run(database, "CREATE DATABASE shop", "USE shop", USERS, "INSERT INTO users VALUES (1, 'ada'), (2, 'bob')")
    captured = Captured(f"{own_server.url}shop", tmp_path, ["users"]).start().caught_up(database)
    run(database, "INSERT INTO users VALUES (3, 'cyd')")
    caught_up_and_noted(captured, database).crash()

    # Purged, but nothing of it was missed.
    wait_until_unread(database)
    purge(database)
    caught_up_and_noted(captured.start(), database).crash()
    assert len(captured.emitted("users")) == 3

    # Purged, with changes that were not read.
    wait_until_unread(database)
    run(database, "DELETE FROM users WHERE id = 1")
    purge(database)
    run(database, "INSERT INTO users VALUES (4, 'dan')")
    with pytest.raises(SourceGap) as gap:
        captured.start().caught_up(database)
    assert "headwater capture snapshot shop" in gap.value.hint
    captured.crash()
    renew(captured)
    captured.start().caught_up(database)
    assert fold(captured.records("users")) == table_of(database, "users")
    assert len(fold(captured.records("users"))) == 3
    run(database, "INSERT INTO users VALUES (5, 'eve')")
    caught_up_and_noted(captured, database).crash()

    # Reset: the same numbers mean other transactions.
    wait_until_unread(database)
    run(database, "RESET MASTER", *(f"INSERT INTO users VALUES ({id}, 'new')" for id in range(10, 40)))
    with pytest.raises(SourceGap):
        captured.start().caught_up(database)
    captured.crash()
    renew(captured)
    captured.start().caught_up(database)
    assert fold(captured.records("users")) == table_of(database, "users")
    captured.close()
    database.close()


def test_rows_that_were_logged_without_names_are_a_gap(database: Any, capture: Make) -> None:
    run(database, USERS)
    captured = capture("users").start().caught_up(database)
    captured.crash()
    run(database, "SET GLOBAL binlog_row_metadata = 'MINIMAL'", "INSERT INTO users VALUES (1, 'ada')")
    run(database, "SET GLOBAL binlog_row_metadata = 'FULL'")
    with pytest.raises(SourceGap, match="no names"):
        captured.start().caught_up(database)
    captured.crash()
    renew(captured)
    assert len(captured.start().caught_up(database).emitted("users")) == 1


def streams(database: Any) -> list[int]:
    with database.cursor() as cursor:
        cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'")
        return [id for (id,) in cursor.fetchall()]


def wait_until_unread(database: Any) -> None:
    """The server takes a moment to see that a client disconnected, and purges no file that is being read."""
    deadline = patience() + PATIENCE_SECONDS
    while streams(database):
        assert patience() < deadline, "somebody goes on reading the log"
        time.sleep(0.02)


def purge(database: Any) -> None:
    """All files but a new one. The server keeps a file until its engines have said that they do not need it."""
    run(database, "FLUSH BINARY LOGS")
    deadline = patience() + PATIENCE_SECONDS
    while len(files(database)) > 1:
        assert patience() < deadline, "a file of the log is still needed"
        run(database, "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")


def files(database: Any) -> list[str]:
    with database.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return [name for name, _ in cursor.fetchall()]


def caught_up_and_noted(captured: Captured, database: Any) -> Captured:
    """What has been read and was not noted is read again: purged meanwhile, it is a gap."""
    return captured.caught_up(database).until(lambda: noted(captured) == captured.source.status().position)


def noted(captured: Captured) -> object:
    return Notes(LogAppender(captured.log), "shop").all()["log"]["gtid"]


def renew(captured: Captured) -> None:
    """As the supervisor does when somebody asks for a new copy of all."""
    Notes(LogAppender(captured.log), "shop").write({"renew": {"asked": True}})


@pytest.mark.parametrize("variable", ["binlog_row_metadata = 'NO_LOG'", "binlog_row_image = 'MINIMAL'",
                                      "binlog_format = 'MIXED'"])  # fmt: skip
def test_a_server_whose_log_lacks_information_is_refused(database: Any, capture: Make, variable: str) -> None:
    run(database, USERS)
    name, wanted = variable.split()[0], {"binlog_format": "ROW"}.get(variable.split()[0], "FULL")
    try:
        run(database, f"SET GLOBAL {variable}")
        with pytest.raises(SourceRefused) as refusal:
            capture("users").start()
        assert f"SET GLOBAL {name} = '{wanted}'" in refusal.value.hint
    finally:
        run(database, f"SET GLOBAL {name} = '{wanted}'")


def test_events_of_an_outbox_are_relayed_in_commit_order(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE events (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_id TEXT, payload JSON)")
    run(database, "INSERT INTO events (order_id, payload) VALUES ('o0', '{}')")
    captured = capture("events", events="order_id", snapshot=False).start()
    captured.runner.step(0)
    run(database, "BEGIN", "INSERT INTO events (order_id, payload) VALUES ('o1', '{\"n\": 1}')", "DELETE FROM events",
        "COMMIT")  # fmt: skip
    captured.caught_up(database)
    (record,) = captured.records("events")
    assert (record.key, record.value, dict(record.headers)["id"]) == (b"o1", b'{"n": 1}', b"2")


def test_a_capture_continues_at_a_replica_that_takes_over(tmp_path: Path) -> None:
    replicating = {"server-id": "2", "log-slave-updates": "ON"}
    with running_mariadb() as first, running_mariadb(**replicating) as second:
        database, other = first.connect(), second.connect()
        run(
            other, f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {first.port}, MASTER_USER = 'root', "
            "MASTER_USE_GTID = slave_pos", "START SLAVE",
        )  # fmt: skip
        run(database, "CREATE DATABASE shop", "USE shop", USERS, "INSERT INTO users VALUES (1, 'ada'), (2, 'bob')")
        captured = Captured(f"{first.url}shop", tmp_path, ["users"]).start().caught_up(database)
        run(database, "INSERT INTO users VALUES (3, 'cyd')")
        captured.caught_up(database).until(lambda: noted(captured) == captured.source.status().position)
        run(database, "INSERT INTO users VALUES (4, 'dan')")
        captured.caught_up(database).crash()
        run(database, "DELETE FROM users WHERE id = 2")
        with database.cursor() as cursor, other.cursor() as waiting:
            cursor.execute("SELECT @@global.gtid_binlog_pos")
            waiting.execute("SELECT MASTER_GTID_WAIT(%s, 30)", cursor.fetchone())
        first.kill()
        run(other, "STOP SLAVE", "USE shop", "INSERT INTO users VALUES (5, 'eve')")
        captured.settings = replace(captured.settings, url=f"{second.url}shop")
        captured.start().caught_up(other)
        assert [operation for operation, _, _ in captured.emitted("users")] == ["r", "r", "c", "c", "d", "c"]
        assert fold(captured.records("users")) == table_of(other, "users")
        captured.close()
        other.close()


def test_a_server_is_believed_only_with_its_certificate(tmp_path: Path) -> None:
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("there is no openssl to make a certificate with")
    with tempfile.TemporaryDirectory(prefix="headwater-certificate-") as folder:
        key, certificate = Path(folder) / "key.pem", Path(folder) / "certificate.pem"
        command = [
            openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate),
            "-days", "2", "-subj", "/CN=shop", "-addext", "subjectAltName=IP:127.0.0.1",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        for path in (Path(folder), key, certificate):
            path.chmod(0o755)  # the server runs as somebody else
        with running_mariadb(**{"ssl-cert": str(certificate), "ssl-key": str(key)}) as server:
            database = server.connect()
            run(database, "CREATE DATABASE shop", "USE shop", USERS, "INSERT INTO users VALUES (1, 'ada')")
            run(database, "CREATE USER ada IDENTIFIED BY 'p/w' REQUIRE SSL", "GRANT ALL ON *.* TO ada")
            url = f"mysql://ada:p%2Fw@127.0.0.1:{server.port}/shop?ssl-ca={certificate}"
            captured = Captured(url, tmp_path / "right", ["users"]).start().caught_up(database)
            run(database, f"INSERT INTO users VALUES (2, '{'x' * 50}')")
            assert len(captured.caught_up(database).emitted("users")) == 2
            captured.close()
            other = Captured(url.replace("127.0.0.1", "localhost"), tmp_path / "wrong", ["users"])
            with pytest.raises(SourceUnavailable, match="certificate"):
                other.start()
            other.close()
            database.close()
