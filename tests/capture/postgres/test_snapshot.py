"""Tables are copied while others write to them: in chunks, without locks, without a row lost, old or twice."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headwater.capture.change import CapturedTable, Change, SourcePosition
from headwater.capture.landing import header_of
from headwater.capture.postgresql.database import Visible
from headwater.capture.postgresql.snapshot import TableSnapshot, Window
from headwater.capture.postgresql.tables import TableFacts
from headwater.errors import InvalidCapture
from tests.capture.kit import Captured, run

Connection = psycopg.Connection[Any]
Make = Callable[..., Captured]

TABLE = CapturedTable("public", "users", "users", ("id", "name"), (0,))
FACTS = TableFacts(1, "public", "users", "d", ("id",), (), ())


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.snapshot.CHUNK_ROWS", 10)


def window() -> Window:
    return Window(TableSnapshot("public.users", "s"), FACTS, Visible(100, 110, frozenset({105})), "m", [], last=True)


def change(before: list[bytes | None] | None, after: list[bytes | None] | None) -> Change:
    return Change(TABLE, "u", SourcePosition(1, 1, 0), b"", before, after)


def test_a_key_that_the_query_has_not_seen_change_is_left_out() -> None:
    open_window = window()
    open_window.note(change(None, [b"7", b'"x"']), 105)
    assert open_window.superseded((b"7",))
    assert not open_window.superseded((b"8",))


def test_a_change_that_the_query_has_seen_leaves_the_row_in() -> None:
    open_window = window()
    open_window.note(change(None, [b"7", b'"x"']), 104)
    assert not open_window.superseded((b"7",))


def test_both_keys_of_a_changed_key_are_left_out() -> None:
    open_window = window()
    open_window.note(change([b"7", None], [b"8", b'"x"']), 200)
    assert open_window.superseded((b"7",))
    assert open_window.superseded((b"8",))


def test_a_truncation_leaves_no_row_in() -> None:
    open_window = window()
    open_window.note(change(None, None), 200)
    assert open_window.superseded((b"7",))


def test_how_far_a_copy_is_survives_being_noted() -> None:
    snapshot = TableSnapshot("public.users", "s", ("7", "x"), 10, 20, "id > 5", renews=2**70, entry=5)
    assert TableSnapshot.from_note(snapshot.to_note()) == snapshot


def writer(url: str, seed: int, ending: threading.Event) -> None:
    """Inserts, updates, deletes, changes keys and rolls back, on few enough keys that they meet."""
    dice = random.Random(seed)
    with psycopg.connect(url) as connection:
        while not ending.is_set():
            for _ in range(dice.randint(1, 5)):
                key, other = dice.randint(1, 400), dice.randint(1, 400)
                statement = dice.choice([
                    f"INSERT INTO users VALUES ({key}, 'new', {dice.random()}) ON CONFLICT DO NOTHING",
                    f"UPDATE users SET score = {dice.random()} WHERE id = {key}",
                    f"UPDATE users SET name = repeat('{dice.randint(0, 9)}', 5000) WHERE id = {key}",
                    f"DELETE FROM users WHERE id = {key}",
                    f"UPDATE users SET id = {other} WHERE id = {key} AND NOT EXISTS "
                    f"(SELECT 1 FROM users WHERE id = {other})",
                ])  # fmt: skip
                try:
                    connection.execute(statement)
                except psycopg.Error:
                    connection.rollback()
            if dice.random() < 0.1:
                connection.rollback()
            connection.commit()


def table_of(database: Connection) -> dict[int, tuple[str, str]]:
    return {id: (name, str(score)) for id, name, score in database.execute("SELECT * FROM users").fetchall()}


def topic_of(captured: Captured) -> dict[int, tuple[str, str]]:
    return {row["id"]: (row["name"], row["score"]) for row in captured.rows("users").values()}


USERS = (
    "CREATE TABLE users (id int PRIMARY KEY, name text, score numeric)",
    "ALTER TABLE users ALTER name SET STORAGE EXTERNAL",
    "INSERT INTO users SELECT i, repeat('x', 3000), i FROM generate_series(1, 300) i",
)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_while_others_write_equals_the_table(
    url: str, database: Connection, capture: Make, small_chunks: None, seed: int, partitions: int
) -> None:
    run(database, *USERS)
    ending = threading.Event()
    writers = [threading.Thread(target=writer, args=(url, seed * 10 + number, ending)) for number in range(3)]
    for thread in writers:
        thread.start()
    try:
        captured = capture("users", partitions=partitions).start().copied()
    finally:
        ending.set()
        for thread in writers:
            thread.join()
    captured.caught_up(database)
    assert topic_of(captured) == table_of(database)


def test_a_copy_that_was_cut_off_continues_and_reads_no_row_twice(
    database: Connection, capture: Make, small_chunks: None
) -> None:
    run(database, *USERS)
    captured = capture("users", partitions=3).start()
    for crash in range(6):
        captured.until(lambda: captured.runner.counts.records >= 37)
        captured.crash()
        run(database, f"UPDATE users SET score = score + {crash} WHERE id % 7 = {crash}")
        captured.start()
    captured.caught_up(database)
    # A row with a value left out is read once more, to close the gap: that is no part of the copy.
    copied = [
        record for record in captured.records("users") if (header_of(record, "snapshot") or b"mend")[:4] != b"mend"
    ]
    assert set(Counter(record.key for record in copied).values()) == {1}
    assert topic_of(captured) == table_of(database)


def test_rows_of_a_half_written_chunk_are_not_written_again(
    database: Connection, capture: Make, small_chunks: None
) -> None:
    run(database, *USERS)
    captured = capture("users", partitions=3).start()
    captured.until(lambda: captured.runner.counts.records >= 50)
    # The records of a chunk reached the log, the note about it did not: as when the node dies between the two.
    captured.runner._notes.write = lambda notes: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        captured.until(lambda: False)
    captured.crash()
    captured.start().caught_up(database)
    reads = Counter(value["after"]["id"] for value in captured.values("users") if value["op"] == "r")
    assert sorted(reads) == list(range(1, 301))
    assert set(reads.values()) == {1}


def test_a_large_value_left_out_before_its_row_was_read_is_emitted_by_the_copy(
    database: Connection, capture: Make, small_chunks: None
) -> None:
    run(database, *USERS)
    captured = capture("users").start()
    run(database, "UPDATE users SET score = -1 WHERE id = 299")
    captured.caught_up(database)
    assert topic_of(captured)[299] == ("x" * 3000, "-1")
    assert topic_of(captured) == table_of(database)


def test_a_change_inside_the_window_with_a_value_left_out_is_completed(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, *USERS)
    captured = capture("users")
    emit = "headwater.capture.postgresql.database.Database.emit"
    from headwater.capture.postgresql.database import Database

    real = Database.emit

    def emit_late(self: Database, prefix: str, content: str) -> None:
        if "snapshot" in prefix:
            run(database, "UPDATE users SET score = -1 WHERE id = 150")  # after the query, before its mark
        real(self, prefix, content)

    monkeypatch.setattr(emit, emit_late)
    captured.start().caught_up(database)
    assert topic_of(captured) == table_of(database)
    assert topic_of(captured)[150] == ("x" * 3000, "-1")


def test_a_table_or_a_condition_is_copied_again_on_demand(
    database: Connection, capture: Make, small_chunks: None
) -> None:
    run(database, *USERS)
    captured = capture("users").start().copied()
    captured.source.copy_again(["public.users"], where="id BETWEEN 100 AND 120")
    captured.caught_up(database)
    reads = Counter(value["after"]["id"] for value in captured.values("users") if value["op"] == "r")
    assert {id for id, count in reads.items() if count == 2} == set(range(100, 121))
    captured.source.copy_again([])
    captured.caught_up(database)
    assert len([value for value in captured.values("users") if value["op"] == "r"]) == 621


def test_a_condition_that_is_asked_for_does_not_end_a_copy_that_is_under_way(
    database: Connection, capture: Make, small_chunks: None
) -> None:
    run(database, *USERS)
    captured = capture("users").start()
    captured.until(lambda: len(captured.records("users")) >= 20)
    captured.source.copy_again(["public.users"], where="id < 3")
    captured.runner.step(0)
    captured.crash()
    captured.start().caught_up(database)
    reads = Counter(value["after"]["id"] for value in captured.values("users") if value["op"] == "r")
    assert reads.keys() == table_of(database).keys()
    assert {id for id, count in reads.items() if count == 2} == {1, 2}


def test_a_part_of_a_table_without_a_key_cannot_be_copied(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE things (name text)", "ALTER TABLE things REPLICA IDENTITY FULL")
    captured = capture("things").start().copied()
    with pytest.raises(InvalidCapture, match="no primary key"):
        captured.source.copy_again(["public.things"], where="name = 'a'")


def test_keys_of_several_columns_and_odd_names_are_copied_in_order(
    database: Connection, capture: Make, small_chunks: None
) -> None:
    run(
        database,
        'CREATE TABLE "Odd ""Table" ("Key One" text COLLATE "C", b uuid, "c%s" int, PRIMARY KEY ("Key One", b))',
        "INSERT INTO \"Odd \"\"Table\" SELECT 'k''' || i % 7, gen_random_uuid(), i FROM generate_series(1, 95) i",
    )
    captured = capture('public.Odd "Table').start().caught_up(database)
    rows = captured.rows("Odd__Table")
    assert sorted(row["c%s"] for row in rows.values()) == list(range(1, 96))


def test_an_interrupted_copy_of_a_table_without_a_key_starts_over(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.capture.kit import bag

    monkeypatch.setattr("headwater.capture.postgresql.source.COPY_ROWS", 10)
    run(database, "CREATE TABLE bag (a int)", "ALTER TABLE bag REPLICA IDENTITY FULL")
    run(database, "INSERT INTO bag SELECT i FROM generate_series(1, 100) i")
    captured = capture("bag").start()
    captured.until(lambda: captured.runner.counts.records > 30)
    captured.crash()
    run(database, "DELETE FROM bag WHERE a = 5", "INSERT INTO bag VALUES (101)")
    captured.start().caught_up(database)
    assert sorted(row["a"] for row in bag(captured.records("bag"))) == [1, 2, 3, 4, *range(6, 102)]
