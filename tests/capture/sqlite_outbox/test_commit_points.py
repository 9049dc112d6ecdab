"""Commit points lie between transactions of SQLite, although its outbox does not say which change is of which."""

import sqlite3
from pathlib import Path
from random import Random

import pytest

from headwater.capture.sqlite_outbox import source
from tests.capture.bank import Totals, commit_points, ends
from tests.capture.sqlite_outbox.kit import Captured

TOPICS = ("accounts", "savings")


class Stopped(Exception):
    pass


@pytest.fixture
def bank(tmp_path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    for table in TOPICS:
        database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, balance INTEGER)")
        database.executemany(f"INSERT INTO {table} VALUES (?, 0)", [(number,) for number in range(100)])
    return database


def move(bank: sqlite3.Connection, rows: int, seed: int) -> None:
    """One transaction over both tables, of so many rows in each."""
    chosen = Random(seed).sample(range(100), rows)
    bank.execute("BEGIN IMMEDIATE")
    bank.executemany("UPDATE accounts SET balance = balance - 5 WHERE id = ?", [(id,) for id in chosen])
    bank.executemany("UPDATE savings SET balance = balance + 5 WHERE id = ?", [(id,) for id in reversed(chosen)])
    bank.execute("COMMIT")


def test_at_every_commit_point_all_money_is_there_although_reads_of_the_outbox_cut_transactions(
    bank: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BATCH_ROWS", 7)
    captured = Captured(tmp_path, *TOPICS, partitions=4).start().caught_up()
    for seed in range(20):
        move(bank, (1, 25)[seed % 2], seed)
        captured.runner.step(0)
    captured.caught_up()
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS)
    assert len(points) > 3
    captured.stop()
    captured.log.close()


@pytest.mark.parametrize("point", ["before append", "after append", "after sync", "before commit point"])
def test_after_a_crash_between_records_and_their_commit_point_it_follows(
    point: str, bank: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BATCH_ROWS", 30)
    captured = Captured(tmp_path, *TOPICS, partitions=4).start().caught_up()
    written = commit_points(captured.log)

    def strike(name: str) -> None:
        if name == point:
            raise Stopped

    move(bank, 25, 1)
    captured.runner._point = strike
    with pytest.raises(Stopped):
        captured.caught_up()
    captured.crash()
    assert commit_points(captured.log) == written
    captured.start().caught_up()
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS) != written[-1]
    captured.stop()
    captured.log.close()


def test_a_removed_capture_has_no_commit_points_and_the_next_one_reuses_its_partition(
    bank: sqlite3.Connection, tmp_path: Path
) -> None:
    captured = Captured(tmp_path, *TOPICS).start().caught_up()
    captured.stop()
    captured.runner._commits.remove()
    assert commit_points(captured.log) == [{}]
    captured.notes.forget()
    captured.start().caught_up()
    move(bank, 2, 1)
    captured.caught_up()
    assert captured.log.topic("__headwater_commit_points").partitions == 1
    assert commit_points(captured.log)[-1] == ends(captured.log, *TOPICS)
    captured.stop()
    captured.log.close()
