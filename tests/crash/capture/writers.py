"""Clients of a database that is killed now and then: all kinds of transactions, for as long as they are let.

Every change of a row gives it a new `tick`, so that each is unique. What was committed, and in which
order, is for the database to say (oracle.py): a writer whose connection breaks in a COMMIT does not know.
"""

import threading
import time
from random import Random
from typing import Any

import psycopg

SCHEMA = (
    "CREATE SEQUENCE tick",
    "CREATE TABLE users (id int PRIMARY KEY, tick bigint, body text, score numeric)",
    "ALTER TABLE users ALTER body SET STORAGE EXTERNAL",
    "CREATE TABLE notes (id int PRIMARY KEY, tick bigint, body text)",
    "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL",
    "CREATE TABLE bag (tick bigint, body text)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "INSERT INTO users SELECT i, nextval('tick'), repeat('x', i % 5 * 1000), i FROM generate_series(1, 3000) i",
    "INSERT INTO notes SELECT i, nextval('tick'), repeat('y', i % 3 * 2000) FROM generate_series(1, 500) i",
    "INSERT INTO bag SELECT nextval('tick'), 'z' FROM generate_series(1, 500)",
)
KEYS = 4_000
COPIED_ROWS_MAX = 10_000
Connection = psycopg.Connection[Any]


class Writer(threading.Thread):
    """One session; it connects again whenever it loses the database."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._url, self._dice = url, Random(seed)
        self._ending = threading.Event()
        self.committed = 0
        self.failures: list[str] = []

    def stop(self) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        while not self._ending.is_set():
            try:
                with psycopg.connect(self._url, connect_timeout=5) as connection:
                    while not self._ending.is_set():
                        self._transact(connection)
                        self.committed += 1
                        time.sleep(self._dice.uniform(0, 0.04))
            except (psycopg.OperationalError, psycopg.errors.AdminShutdown):
                time.sleep(0.05)
            except psycopg.Error as error:
                self.failures.append(f"a writer's statement failed: {error}")
                return

    def _transact(self, connection: Connection) -> None:
        try:
            for _ in range(self._dice.randint(1, 6)):
                self._change(connection)
                if self._dice.random() < 0.15:
                    self._take_back_a_part(connection)
            if self._dice.random() < 0.1:
                time.sleep(self._dice.uniform(0, 0.3))  # others commit meanwhile
            if self._dice.random() < 0.1:
                connection.rollback()
            connection.commit()
        except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
            connection.rollback()

    def _take_back_a_part(self, connection: Connection) -> None:
        connection.execute("SAVEPOINT part")
        self._change(connection)
        connection.execute("ROLLBACK TO SAVEPOINT part")

    def _change(self, connection: Connection) -> None:
        dice = self._dice
        table, key, other = dice.choice(("users", "users", "notes")), dice.randint(1, KEYS), dice.randint(1, KEYS)
        kind = dice.random()
        if kind < 0.0003:
            self._copy(connection, COPIED_ROWS_MAX)
        elif kind < 0.001:
            self._alter(connection)
        elif kind < 0.0015:
            connection.execute("TRUNCATE users")
        elif kind < 0.004:
            self._copy(connection, 300)
        elif kind < 0.008:
            connection.execute(f"DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE id > {KEYS} LIMIT 1000)")
        elif kind < 0.15:
            connection.execute("INSERT INTO bag VALUES (nextval('tick'), 'new')")
        elif kind < 0.2:
            connection.execute(
                "DELETE FROM bag WHERE tick = (SELECT tick FROM bag ORDER BY tick OFFSET %s LIMIT 1)",
                (dice.randint(0, 50),),
            )
        else:
            connection.execute(self._statement(dice.random(), table, key, other))

    def _statement(self, kind: float, table: str, key: int, other: int) -> str:
        if kind < 0.3:
            body = f"repeat('{self._dice.randint(0, 9)}', {self._dice.choice((5, 3000, 20000))})"
            values = f"({key}, nextval('tick'), {body})"
            return f"INSERT INTO {table} (id, tick, body) VALUES {values} ON CONFLICT DO NOTHING"
        if kind < 0.55:
            return f"UPDATE {table} SET tick = nextval('tick') WHERE id = {key}"
        if kind < 0.65:
            return f"UPDATE {table} SET tick = nextval('tick'), body = repeat('{key % 10}', 4000) WHERE id = {key}"
        if kind < 0.75:
            return f"UPDATE {table} SET tick = nextval('tick') WHERE id BETWEEN {key} AND {key + 40}"
        if kind < 0.9:
            return f"DELETE FROM {table} WHERE id = {key}"
        return f"UPDATE {table} SET id = {other}, tick = nextval('tick') WHERE id = {key}"

    def _copy(self, connection: Connection, rows: int) -> None:
        """Many rows that share an address of the log."""
        first = self._dice.randint(KEYS, 10**9)
        ticks = connection.execute("SELECT nextval('tick') FROM generate_series(1, %s)", (rows,)).fetchall()
        with connection.cursor().copy("COPY notes (id, tick, body) FROM STDIN") as copy:
            for index, (tick,) in enumerate(ticks):
                copy.write_row((first + index, tick, "copied"))

    def _alter(self, connection: Connection) -> None:
        name = f"extra_{self._dice.randint(1, 10**9)}"
        connection.execute(f"ALTER TABLE users ADD COLUMN {name} int")
        connection.execute(f"UPDATE users SET {name} = id, tick = nextval('tick') WHERE id < 20")
        if self._dice.random() < 0.5:
            connection.execute(f"ALTER TABLE users DROP COLUMN {name}")
