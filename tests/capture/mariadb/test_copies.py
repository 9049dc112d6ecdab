"""Tables are copied while others write to them: every row once, none after a newer version of itself."""

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headwater.capture.mariadb_binlog import tables
from headwater.capture.mariadb_binlog.gtid import parse_position
from headwater.errors import InvalidCapture
from tests.capture.kit import fold
from tests.capture.mariadb.kit import Captured, run, table_of
from tests.capture.sqlite_outbox.kit import replayed
from tests.servers.mariadb import Mariadb

Make = Callable[..., Captured]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 10)


class Writing(threading.Thread):
    """Changes rows until it is stopped."""

    def __init__(self, connection: Any, seed: int) -> None:
        super().__init__()
        self._connection, self._dice = connection, Random(seed)
        self._stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            run(self._connection, "BEGIN")
            for _ in range(self._dice.choice((1, 1, 3, 20))):
                key, self.count = self._dice.randrange(400), self.count + 1
                statement = self._dice.choice((
                    f"REPLACE INTO users VALUES ({key}, {self.count})",
                    f"UPDATE users SET tick = {self.count} WHERE id BETWEEN {key} AND {key} + 3",
                    f"DELETE FROM users WHERE id = {key}",
                    f"UPDATE IGNORE users SET id = {self._dice.randrange(400)}, tick = {self.count} WHERE id = {key}",
                ))  # fmt: skip
                run(self._connection, statement)
            run(self._connection, "ROLLBACK" if self._dice.random() < 0.1 else "COMMIT")

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self._connection.close()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("seed", range(2))
def test_a_copy_under_writes_and_crashes_is_right(server: Mariadb, database: Any, capture: Make, seed: int) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY, tick INT)")
    run(database, f"INSERT INTO users VALUES {', '.join(f'({number}, 0)' for number in range(400))}")
    captured = capture("users", partitions=2).start()
    writing, dice, steps = Writing(server.connect(database=database.name), seed), Random(seed), 0
    writing.start()
    try:
        while steps < 10 or not captured.copied():
            for _ in range(dice.randrange(1, 12)):
                captured.runner.step(0.01)
            steps += 1
            if steps % 5 == 0:
                captured.crash()
                captured.start()
    finally:
        writing.stop()
    captured.caught_up(database)
    rows: dict[str, Any] = {}
    for partition in range(2):
        rows |= replayed(captured.log.read("users", partition))
    assert rows == table_of(database, "users")
    assert writing.count > 20


@pytest.mark.usefixtures("small_chunks")
def test_a_copy_continues_after_a_crash_with_the_chunk_it_was_at(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY, tick INT)")
    run(database, f"INSERT INTO users VALUES {', '.join(f'({number}, 0)' for number in range(200))}")
    captured = capture("users").start()
    captured.until(lambda: len(captured.records("users")) >= 100)
    captured.crash()
    captured.start()
    assert captured.source.status().snapshots[0].rows >= 90
    captured.caught_up(database)
    assert [after["id"] for _, _, after in captured.emitted("users")] == list(range(200))


KEYS = {
    "two": ("a INT, b VARCHAR(9)", "PRIMARY KEY (b, a)", "({0} % 7, CONCAT('k', {0} DIV 7))"),
    "text": ("a VARCHAR(9) CHARACTER SET latin1, b INT", "PRIMARY KEY (a)", "(CONCAT('Ä', {0}, ' x'), {0})"),
    "binary": ("a BINARY(4), b INT", "PRIMARY KEY (a)", "(UNHEX(LPAD(HEX({0} * 100), 8, '0')), {0})"),
    "decimal": ("a DECIMAL(9, 2), b INT", "PRIMARY KEY (a)", "({0} / 4 - 3, {0})"),
    "enum": ("a ENUM('z', 'a', 'm', 'Z2'), b INT", "PRIMARY KEY (a, b)", "(({0} % 4) + 1, {0})"),
    "time": ("a DATETIME(3), b INT", "PRIMARY KEY (a)", "('2026-01-01' + INTERVAL {0} * 250000 MICROSECOND, {0})"),
    "float": ("a FLOAT, b INT", "PRIMARY KEY (a)", "({0} / 10, {0})"),
    "bit": ("a BIT(12), b INT", "PRIMARY KEY (a)", "({0} * 17, {0})"),
    "unsigned": ("a BIGINT UNSIGNED, b INT", "PRIMARY KEY (a)", "(18446744073709551615 - {0} * 99, {0})"),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", KEYS)
def test_every_row_is_read_once_whatever_the_key_is(database: Any, capture: Make, kind: str) -> None:
    columns, key, values = KEYS[kind]
    rows = ", ".join(values.format(number) for number in range(35))
    run(database, f"CREATE TABLE users ({columns}, {key})", f"INSERT INTO users VALUES {rows}")
    captured = capture("users").start().caught_up(database)
    assert len({record.key for record in captured.records("users")}) == len(captured.records("users")) == 35
    # The log writes keys as queries do: or the table would be copied again.
    run(database, "DELETE FROM users WHERE b = 30 OR a = 3")
    captured.caught_up(database).caught_up(database)
    assert {operation for operation, _, _ in captured.emitted("users")[35:]} == {"d"}


def test_a_part_of_a_table_is_copied_again_on_demand(database: Any, capture: Make) -> None:
    run(
        database, "CREATE TABLE users (id INT PRIMARY KEY, tick INT)", "INSERT INTO users VALUES (1, 1), (2, 2), (3, 3)"
    )
    captured = capture("users").start().caught_up(database)
    captured.source.copy_again([f"{database.name}.users"], where="tick > 1 OR tick IS NULL")
    captured.caught_up(database)
    assert [(operation, after["id"]) for operation, _, after in captured.emitted("users")[3:]] == [("r", 2), ("r", 3)]


@pytest.mark.usefixtures("small_chunks")
def test_a_part_that_is_asked_for_does_not_end_a_copy_that_is_under_way(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY, tick INT)")
    run(database, f"INSERT INTO users VALUES {', '.join(f'({number}, 0)' for number in range(60))}")
    captured = capture("users").start()
    captured.until(lambda: len(captured.records("users")) >= 20)
    captured.source.copy_again([f"{database.name}.users"], where="id < 2")
    captured.runner.step(0)
    captured.crash()
    captured.start().caught_up(database)
    assert [after["id"] for _, _, after in captured.emitted("users")] == [*range(60), 0, 1]


def test_a_part_of_a_table_without_a_key_cannot_be_copied(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE things (name VARCHAR(9))", "INSERT INTO things VALUES ('a'), ('b')")
    captured = capture("things").start().caught_up(database)
    with pytest.raises(InvalidCapture, match="no primary key"):
        captured.source.copy_again([f"{database.name}.things"], where="name = 'a'")


@pytest.mark.usefixtures("small_chunks")
def test_a_row_that_a_copy_has_passed_is_read_once_more_if_its_change_was_not_whole(
    database: Any, capture: Make
) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY, tick INT, note INT DEFAULT 5)")
    run(database, f"INSERT INTO users (id, tick) VALUES {', '.join(f'({number}, 0)' for number in range(60))}")
    captured = capture("users").start()
    captured.until(lambda: len(captured.records("users")) >= 20)
    run(database, "SET binlog_row_image = 'MINIMAL'", "UPDATE users SET tick = 7 WHERE id = 3",
        "SET binlog_row_image = 'FULL'")  # fmt: skip
    captured.until(lambda: captured.runner.counts.unavailable > 0)
    captured.crash()
    captured.start().caught_up(database).caught_up(database)
    assert fold(captured.records("users")) == table_of(database, "users")


def test_a_capture_begins_where_queries_see_all_that_was_committed(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE users (id INT PRIMARY KEY, tick INT)", "INSERT INTO users VALUES (1, 1)")
    with database.cursor() as cursor:
        cursor.execute("SELECT @@global.gtid_binlog_pos")
        (position,) = cursor.fetchone()
    captured = capture("users").start()
    assert captured.source._database is not None
    assert parse_position(captured.source._database.seen_position()) == parse_position(position)
    captured.stop()
