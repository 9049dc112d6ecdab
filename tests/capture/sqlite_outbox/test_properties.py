"""Whatever is done to a table, with every way SQLite has to resolve a conflict: the topic has each change of it."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.capture.sqlite_outbox.outbox import Entry, Outbox
from headwater.capture.sqlite_outbox.values import Value, fragment
from tests.capture.sqlite_outbox.kit import Captured, table_of

TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INTEGER, UNIQUE (b, a))",
    "CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, a TEXT UNIQUE, b INTEGER)",
    "CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, a TEXT COLLATE NOCASE, b INTEGER UNIQUE) WITHOUT ROWID",
)
HOWS = ("", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK")
INSERTS = [f"INSERT {how} INTO t VALUES (?1, ?2, ?3)" for how in HOWS]
UPDATES = [f"UPDATE {how} t SET id = ?1, a = ?2 WHERE b = ?3" for how in HOWS]
SHIFTS = [f"UPDATE {how} t SET a = ?2, b = b + ?3 WHERE id >= ?1" for how in HOWS]
UPSERT = "INSERT INTO t VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET b = b + 1"
DELETE = "DELETE FROM t WHERE id = ?1 OR b = ?3 + length(?2)"
CONTROLS = ("BEGIN", "COMMIT", "ROLLBACK")
CRASH = "CRASH"

Step = tuple[str, tuple[Value, ...]]
statement = st.sampled_from([*INSERTS, *UPDATES, *SHIFTS, UPSERT, DELETE])
values = st.tuples(st.sampled_from(["1", "2", "3", "a", "A"]), st.sampled_from(["x", "X", "y", "1"]), st.integers(0, 3))
steps = st.lists(
    st.one_of(st.tuples(statement, values), st.tuples(st.sampled_from([*CONTROLS, CRASH]), st.just(()))), max_size=30
)


def take(database: sqlite3.Connection, step: Step) -> None:
    """What SQLite refuses (a constraint, a transaction that is not there) is its answer, and no change."""
    try:
        database.execute(*step)
    except sqlite3.Error:
        pass


def replay(entries: Sequence[Entry]) -> list[tuple[Value, ...]]:
    rows: dict[Value, tuple[Value, ...]] = {}
    for entry in entries:
        if entry.operation != "c":
            assert rows.pop(entry.before[0], None) == entry.before, f"{entry.before} was not there"
        if entry.operation != "d":
            assert entry.after[0] not in rows, f"{entry.after} is there twice"
            rows[entry.after[0]] = entry.after
    return list(rows.values())


@settings(max_examples=200, deadline=None)
@given(steps, st.sampled_from(TABLES), st.booleans())
def test_the_outbox_replayed_is_the_table(taken: list[Step], table: str, recursive: bool) -> None:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute(f"PRAGMA recursive_triggers = {recursive}")
    database.execute(table)
    outbox = Outbox(database, "headwater_t_1")
    with outbox.writing():
        outbox.make()
        outbox.follow(["t"], copying=False)
    for step in taken:
        take(database, step)
    rows = database.execute("SELECT * FROM t").fetchall()
    assert sorted(replay(outbox.entries(0, outbox.newest(), 10**6))) == sorted(rows)
    database.close()


@settings(max_examples=10, deadline=None)
@given(steps, st.sampled_from(TABLES))
def test_the_topic_replayed_is_the_table_through_crashes(taken: list[Step], table: str) -> None:
    with TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "shop.db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(table)
        captured = Captured(Path(folder), "t").start()
        for step in taken:
            take(database, step)
            if step[0] == CRASH and not database.in_transaction:
                captured.runner.step(0)
                captured.crash()
                captured.start()
        take(database, ("COMMIT", ()))
        captured.caught_up()
        assert captured.rows("t") == table_of(database, "t")
        captured.stop()
        captured.log.close()
        database.close()


@given(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text())
)
def test_a_fragment_reads_back_as_the_value(value: int | float | str | None) -> None:
    read = json.loads(fragment(value))
    assert (read, type(read)) == (value, type(value))
