"""A process that writes to a MariaDB server until it is killed, also over the server's own death.

python -m tests.crash.capture.mariadb_writer PORT SEED

In the transaction of every change it also writes what it does into the table `truth`, under the one lock that numbers
it: what is committed, and in which order, is thereby known without the log.
"""

import sys
import time
from random import Random
from typing import Any

import pymysql

SCHEMA = (
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE users (id INT PRIMARY KEY, tick INT, body TEXT)",
    "CREATE TABLE bag (tick INT)",
    "CREATE TABLE turn (tick INT PRIMARY KEY)",
    "INSERT INTO turn VALUES (1)",
    "CREATE TABLE truth (tick INT PRIMARY KEY, operation CHAR(1), id INT)",
)
KEYS = 3_000


def connect(port: int) -> Any:
    return pymysql.connect(host="127.0.0.1", port=port, user="root", connect_timeout=5, read_timeout=60)


class Writer:
    def __init__(self, port: int, seed: int) -> None:
        self._port, self._dice = port, Random(seed)

    def run(self) -> None:
        while True:
            try:
                connection = connect(self._port)
                with connection.cursor() as cursor:
                    cursor.execute("USE shop")
                    while True:
                        self._transaction(cursor)
                        time.sleep(self._dice.uniform(0, 0.02))
            except pymysql.err.Error:
                time.sleep(0.1)  # the server was killed, and is coming back

    def _transaction(self, cursor: Any) -> None:
        cursor.execute("BEGIN")
        # The transaction that has this row writes alone until its commit: so ticks are in the order of commits.
        cursor.execute("SELECT tick FROM turn FOR UPDATE")
        (tick,) = cursor.fetchone()
        for _ in range(self._dice.choice((1, 1, 2, 5, 200))):
            tick = self._change(cursor, tick)
        cursor.execute("UPDATE turn SET tick = %s WHERE tick <> %s", (tick, tick))
        cursor.execute("ROLLBACK" if self._dice.random() < 0.1 else "COMMIT")

    def _change(self, cursor: Any, tick: int) -> int:
        key, other, kind = self._dice.randint(1, KEYS), self._dice.randint(1, KEYS), self._dice.random()
        cursor.execute("SELECT 1 FROM users WHERE id = %s", (key,))
        changed: list[tuple[str, int]]
        if not cursor.fetchone():
            changed = [("c", key)]
            cursor.execute("INSERT INTO users VALUES (%s, %s, %s)", (key, tick, "x" * self._dice.randint(0, 2_000)))
        elif kind < 0.6:
            changed = [("u", key)]
            cursor.execute("UPDATE users SET tick = %s WHERE id = %s", (tick, key))
        elif kind < 0.8 or self._there(cursor, other):
            changed = [("d", key)]
            cursor.execute("DELETE FROM users WHERE id = %s", (key,))
        else:
            changed = [("d", key), ("c", other)]
            cursor.execute("UPDATE users SET id = %s, tick = %s WHERE id = %s", (other, tick + 1, key))
        cursor.execute("INSERT INTO bag VALUES (%s)", (tick,))
        for operation, id in changed:
            cursor.execute("INSERT INTO truth VALUES (%s, %s, %s)", (tick, operation, id))
            tick += 1
        return tick

    def _there(self, cursor: Any, key: int) -> bool:
        cursor.execute("SELECT 1 FROM users WHERE id = %s", (key,))
        return cursor.fetchone() is not None


if __name__ == "__main__":
    Writer(int(sys.argv[1]), int(sys.argv[2])).run()
