"""A process that writes to a SQLite database until it is killed.

python -m tests.crash.capture.sqlite_writer PATH SEED

In the transaction of every change it also writes what it does into the table `truth`: what is committed, and in which
order, is thereby known without a trigger.
"""

import sqlite3
import sys
import time
from random import Random

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE users (id INTEGER PRIMARY KEY, tick INTEGER, email TEXT UNIQUE, body TEXT);
CREATE TABLE truth (tick INTEGER PRIMARY KEY AUTOINCREMENT, operation TEXT, id INTEGER);
"""
KEYS = 3_000


def first_rows(database: sqlite3.Connection, count: int) -> None:
    database.executescript(SCHEMA)
    rows = [(number, f"{number}@first") for number in range(1, count + 1)]
    database.executemany("INSERT INTO users VALUES (?, 0, ?, 'first')", rows)


def note(database: sqlite3.Connection, operation: str, id: int) -> int:
    tick = database.execute("INSERT INTO truth (operation, id) VALUES (?, ?)", (operation, id)).lastrowid
    assert tick is not None
    return tick


def change(database: sqlite3.Connection, dice: Random) -> None:
    key, other = dice.randint(1, KEYS), dice.randint(1, KEYS)
    there = database.execute("SELECT 1 FROM users WHERE id = ?", (key,)).fetchone()
    kind = dice.random()
    if not there:
        tick = note(database, "c", key)
        database.execute("INSERT INTO users VALUES (?, ?, ?, ?)", (key, tick, f"{tick}@new", "x" * dice.randint(0, 99)))
    elif kind < 0.5:
        tick = note(database, "u", key)
        database.execute("UPDATE users SET tick = ? WHERE id = ?", (tick, key))
    elif kind < 0.7:
        note(database, "d", key)
        database.execute("DELETE FROM users WHERE id = ?", (key,))
    elif kind < 0.85:
        # It takes the address of another row, which thereby goes without a word.
        (email,) = database.execute("SELECT email FROM users WHERE id = ?", (key,)).fetchone()
        note(database, "d", key)
        taken = KEYS + dice.randint(1, 10**9)
        tick = note(database, "c", taken)
        database.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?, 'taken')", (taken, tick, email))
    elif not database.execute("SELECT 1 FROM users WHERE id = ?", (other,)).fetchone():
        note(database, "d", key)
        tick = note(database, "c", other)
        database.execute("UPDATE users SET id = ?, tick = ? WHERE id = ?", (other, tick, key))


def main(path: str, seed: str) -> None:
    dice = Random(int(seed))
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    while True:
        database.execute("BEGIN IMMEDIATE")
        for _ in range(dice.choice((1, 1, 2, 5, 200))):
            change(database, dice)
        database.execute("ROLLBACK" if dice.random() < 0.1 else "COMMIT")
        time.sleep(dice.uniform(0, 0.02))


if __name__ == "__main__":
    main(*sys.argv[1:])
