"""A capture of SQLite: what is emitted for tables, for every writer and whatever happens to them."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.capture.sqlite_outbox import outbox as outbox_module
from headwater.capture.sqlite_outbox.source import drop
from headwater.errors import InvalidCapture, SourceGap, SourceRefused, SourceUnavailable
from tests.capture.sqlite_outbox.kit import Captured, table_of

Capture = Callable[..., Captured]
USERS = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, score REAL)"


@pytest.fixture
def users(database: sqlite3.Connection) -> sqlite3.Connection:
    database.execute(USERS)
    database.execute("INSERT INTO users VALUES (1, 'ada', 1.0), (2, 'bob', NULL)")
    return database


def test_rows_that_are_there_come_first_and_then_every_change(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("users").start().caught_up()
    users.execute("INSERT INTO users VALUES (3, 'eve', 0.5)")
    users.execute("UPDATE users SET name = 'Ada' WHERE id = 1")
    users.execute("DELETE FROM users WHERE id = 2")
    captured.caught_up()
    assert captured.emitted("users") == [
        ("r", None, {"id": 1, "name": "ada", "score": 1.0}),
        ("r", None, {"id": 2, "name": "bob", "score": None}),
        ("c", None, {"id": 3, "name": "eve", "score": 0.5}),
        ("u", {"id": 1, "name": "ada", "score": 1.0}, {"id": 1, "name": "Ada", "score": 1.0}),
        ("d", {"id": 2, "name": "bob", "score": None}, None),
    ]
    assert captured.rows("users") == table_of(users, "users")


def test_what_any_other_process_writes_is_emitted(users: sqlite3.Connection, capture: Capture, tmp_path: Path) -> None:
    captured = capture("users").start().caught_up()
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('DELETE FROM users'); c.commit()"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "shop.db")], check=True)
    captured.caught_up()
    assert [operation for operation, _, _ in captured.emitted("users")] == ["r", "r", "d", "d"]


def test_what_was_rolled_back_is_not_emitted(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("users", snapshot=False).start().caught_up()
    users.executescript("""
        BEGIN; INSERT INTO users VALUES (7, 'x', 0); ROLLBACK;
        BEGIN; SAVEPOINT part; DELETE FROM users; ROLLBACK TO part; INSERT INTO users VALUES (8, 'y', 0); COMMIT;
    """)
    captured.caught_up()
    assert captured.emitted("users") == [("c", None, {"id": 8, "name": "y", "score": 0.0})]


def test_a_changed_key_ends_the_old_one(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("users").start().caught_up()
    users.execute("UPDATE users SET id = 9 WHERE id = 1")
    captured.caught_up()
    assert [operation for operation, _, _ in captured.emitted("users")] == ["r", "r", "d", "c"]
    assert captured.rows("users") == table_of(users, "users")


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
def test_rows_that_replace_deletes_are_emitted_once(
    database: sqlite3.Connection, capture: Capture, recursive: str
) -> None:
    database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT UNIQUE COLLATE NOCASE)")
    database.execute(f"PRAGMA recursive_triggers = {recursive}")
    captured = capture("users").start().caught_up()
    database.execute("INSERT INTO users VALUES (1, 'a'), (2, 'b')")
    database.execute("INSERT OR REPLACE INTO users VALUES (1, 'B')")
    database.execute("INSERT OR IGNORE INTO users VALUES (5, 'b')")
    captured.caught_up()
    operations = [(operation, (before or after)["id"]) for operation, before, after in captured.emitted("users")]
    assert operations[:2] == [("c", 1), ("c", 2)]
    assert sorted(operations[2:4]) == [("d", 1), ("d", 2)]
    assert operations[4:] == [("c", 1)]
    assert captured.rows("users") == table_of(database, "users")


@pytest.mark.parametrize("kind", ["", "WITHOUT ROWID"])
def test_a_key_that_differs_in_case_replaces_another(database: sqlite3.Connection, capture: Capture, kind: str) -> None:
    database.execute(f"CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, v INTEGER) {kind}")
    captured = capture("t").start().caught_up()
    database.execute("INSERT INTO t VALUES ('a', 1)")
    database.execute("INSERT OR REPLACE INTO t VALUES ('A', 2)")
    captured.caught_up()
    assert captured.rows("t") == table_of(database, "t") == {'{"id":"A"}': {"id": "A", "v": 2}}


def test_every_value_is_emitted_as_it_is(database: sqlite3.Connection, capture: Capture) -> None:
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    captured = capture("t").start().caught_up()
    values = [2**63 - 1, -(2**63), 0.1, 1e300, float("inf"), 'q"\u2028\x00é', b"\x00\xff", None]
    database.executemany("INSERT INTO t (v) VALUES (?)", [(value,) for value in values])
    captured.caught_up()
    values_emitted = [after["v"] for _, _, after in captured.emitted("t")]
    assert values_emitted == [2**63 - 1, -(2**63), 0.1, 1e300, "Infinity", 'q"\u2028\x00é', "AP8=", None]


def test_a_table_without_a_key_is_a_bag(database: sqlite3.Connection, capture: Capture) -> None:
    database.execute("CREATE TABLE bag (v TEXT)")
    database.execute("INSERT INTO bag VALUES ('a'), ('a')")
    captured = capture("bag").start().caught_up()
    database.execute("DELETE FROM bag WHERE rowid = 1")
    captured.caught_up()
    assert [operation for operation, _, _ in captured.emitted("bag")] == ["r", "r", "d"]
    assert {record.key for record in captured.records("bag")} == {None}


def test_a_copy_resumes_where_a_crash_left_it_while_others_write(
    users: sqlite3.Connection, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "CHUNK_ROWS", 3)
    users.executemany("INSERT INTO users VALUES (?, 'many', 0)", [(number,) for number in range(10, 30)])
    captured = capture("users").start()
    for number in range(4):
        captured.runner.step(0)
        users.execute("UPDATE users SET score = score + 1 WHERE id % 4 = ?", (number,))
        captured.crash()
        captured.start()
    captured.caught_up()
    assert captured.rows("users") == table_of(users, "users")
    assert [operation for operation, _, _ in captured.emitted("users")].count("r") == 22


def test_a_key_of_several_columns_with_nulls_is_copied_whole(
    database: sqlite3.Connection, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "CHUNK_ROWS", 2)
    database.execute("CREATE TABLE t (a TEXT, b TEXT, PRIMARY KEY (a, b))")
    keys = [("x", "1"), ("x", None), (None, "1"), ("x", "2"), ("y", "1"), ("w", "9")]
    database.executemany("INSERT INTO t VALUES (?, ?)", keys)
    captured = capture("t").start().caught_up()
    assert captured.rows("t") == table_of(database, "t", ("a", "b"))


def test_columns_that_are_added_and_renamed_show_in_every_row(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("users").start().caught_up()
    users.execute("ALTER TABLE users ADD COLUMN country TEXT DEFAULT 'uk'")
    users.execute("INSERT INTO users VALUES (3, 'eve', 0, 'de')")
    captured.caught_up()
    users.execute("ALTER TABLE users RENAME COLUMN name TO called")
    users.execute("INSERT INTO users VALUES (4, 'joe', 0, 'fr')")
    captured.caught_up()
    assert _last(captured) == table_of(users, "users")


def _last(captured: Captured) -> dict[str, object]:
    return {(record.key or b"").decode(): after for record, (_, _, after) in
            zip(captured.records("users"), captured.emitted("users"), strict=True)}  # fmt: skip


def test_a_table_that_was_created_again_is_copied_and_what_it_lost_is_ended(
    users: sqlite3.Connection, capture: Capture
) -> None:
    captured = capture("users").start().caught_up()
    users.execute("DROP TABLE users")
    users.execute(USERS)
    users.execute("INSERT INTO users VALUES (2, 'bob', 2), (5, 'new', 5)")
    captured.caught_up()
    live = {record.key: record.value for record in captured.records("users")}
    assert [key for key, value in live.items() if value is not None] == [b'{"id":2}', b'{"id":5}']


def test_tables_that_a_pattern_names_later_join(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("*").start().caught_up()
    users.execute("CREATE TABLE late (id TEXT PRIMARY KEY) WITHOUT ROWID")
    users.execute("INSERT INTO late VALUES ('x')")
    captured.caught_up()
    assert list(captured.rows("late")) == ['{"id":"x"}']
    assert "headwater_shop_1" not in [topic.name for topic in captured.log.topics()]


def test_what_is_confirmed_leaves_the_outbox_but_for_its_last_row(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("users").start().caught_up()
    captured.stop()
    assert users.execute("SELECT count(*) FROM headwater_shop_1").fetchone() == (1,)
    captured.start().caught_up()
    assert len(captured.records("users")) == 2


def test_an_earlier_state_of_the_database_is_a_gap_until_all_is_copied_again(
    users: sqlite3.Connection, capture: Capture, tmp_path: Path
) -> None:
    captured = capture("users").start().caught_up()
    users.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(tmp_path / "shop.db", tmp_path / "backup.db")
    users.execute("INSERT INTO users VALUES (7, 'lost', 0)")
    captured.caught_up()
    captured.stop()
    users.close()
    for ending in ("-wal", "-shm"):
        (tmp_path / f"shop.db{ending}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", tmp_path / "shop.db")
    again = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    again.executemany("INSERT INTO users VALUES (?, 'other', 0)", [(8,), (9,)])
    with pytest.raises(SourceGap, match="not the database that the capture left"):
        captured.start()
    captured.crash()
    captured.notes.write({"renew": {"asked": True}})
    captured.start().caught_up()
    live = {record.key: record.value for record in captured.records("users")}
    assert {key for key, value in live.items() if value} == {b'{"id":%d}' % number for number in (1, 2, 8, 9)}
    again.close()


def test_a_file_that_was_replaced_is_noticed(users: sqlite3.Connection, capture: Capture, tmp_path: Path) -> None:
    captured = capture("users").start().caught_up()
    (tmp_path / "shop.db").rename(tmp_path / "away.db")
    sqlite3.connect(tmp_path / "shop.db").close()
    with pytest.raises(SourceUnavailable, match="replaced"):
        captured.runner.step(0)
    captured.crash()
    with pytest.raises(SourceGap, match="no outbox"):
        captured.start()


def test_removing_leaves_nothing_and_writers_continue(
    users: sqlite3.Connection, capture: Capture, tmp_path: Path
) -> None:
    captured = capture("users").start().caught_up()
    captured.stop()
    drop(tmp_path / "shop.db", "headwater_shop_1")
    users.execute("INSERT INTO users VALUES (7, 'x', 0)")
    assert users.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'headwater%'").fetchone() == (0,)


def test_a_capture_that_was_removed_and_created_again_continues_in_its_topic(
    users: sqlite3.Connection, capture: Capture, tmp_path: Path
) -> None:
    captured = capture("users").start().caught_up()
    captured.stop()
    drop(tmp_path / "shop.db", "headwater_shop_1")
    captured.notes.forget()
    captured.start().caught_up()
    users.execute("DELETE FROM users WHERE id = 1")
    captured.caught_up()
    assert [operation for operation, _, _ in captured.emitted("users")] == ["r", "r", "r", "r", "d"]


def test_a_copy_with_a_condition_reads_only_such_rows(users: sqlite3.Connection, capture: Capture) -> None:
    captured = capture("users").start().caught_up()
    captured.source.copy_again(["main.users"], where="name = 'bob'")
    captured.caught_up()
    assert [after["name"] for _, _, after in captured.emitted("users")] == ["ada", "bob", "bob"]
    with pytest.raises(InvalidCapture, match="is no condition"):
        captured.source.copy_again(["users"], where="nonsense = 1")
    with pytest.raises(InvalidCapture, match="has no table"):
        captured.source.copy_again(["nobody"])


def test_a_database_or_table_that_is_not_there_is_refused(capture: Capture, database: sqlite3.Connection) -> None:
    with pytest.raises(SourceRefused, match="has no table nobody"):
        capture("nobody").start()


# -- events of a user's own table --------------------------------------------------------------------------------------


def test_events_are_relayed_as_they_are_and_deleted_at_leisure(database: sqlite3.Connection, capture: Capture) -> None:
    database.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, order_id TEXT, kind TEXT, payload TEXT)")
    captured = capture("events", snapshot=False, events="order_id", partitions=2).start().caught_up()
    database.execute("BEGIN")
    database.execute("""INSERT INTO events VALUES (1, 'o7', 'placed', '{"total": 5}')""")
    database.execute("DELETE FROM events")
    database.execute("COMMIT")
    captured.caught_up()
    (record,) = captured.records("events")
    assert (record.key, record.value) == (b"o7", b'{"total": 5}')
    assert record.headers[:2] == (("id", b"1"), ("kind", b"placed"))
    captured.crash()
    captured.start().caught_up()
    assert len(captured.records("events")) == 1


def test_events_need_the_columns_that_are_named(users: sqlite3.Connection, capture: Capture) -> None:
    with pytest.raises(InvalidCapture, match="has no column payload"):
        capture("users", snapshot=False, events="id").start()
