"""Commit points lie between transactions of PostgreSQL: over tables, over partitions, through bursts and crashes."""

from collections.abc import Callable
from random import Random
from typing import Any

import psycopg
import pytest

from headwater.capture.postgresql import source
from headwater.capture.postgresql.rows import loading
from tests.capture.bank import Totals, commit_points, ends
from tests.capture.kit import Captured, run

Connection = psycopg.Connection[Any]
TOPICS = ("accounts", "savings")
TABLES = ("public.accounts", "public.savings")


class Stopped(Exception):
    pass


@pytest.fixture
def bank(database: Connection) -> Connection:
    for table in TOPICS:
        run(
            database,
            f"CREATE TABLE {table} (id int PRIMARY KEY, balance bigint)",
            f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, 100) n",
        )
    return database


def between_tables(bank: Connection, count: int, seed: int) -> None:
    """Transactions of two rows, one in each table."""
    dice = Random(seed)
    for _ in range(count):
        with bank.transaction():
            bank.execute("UPDATE accounts SET balance = balance - 5 WHERE id = %s", (dice.randint(1, 100),))
            bank.execute("UPDATE savings SET balance = balance + 5 WHERE id = %s", (dice.randint(1, 100),))


def between_rows(bank: Connection, count: int, seed: int) -> None:
    """Transactions of fifty rows of one table."""
    dice = Random(seed)
    for _ in range(count):
        chosen = dice.sample(range(1, 101), 50)
        with bank.transaction():
            bank.execute("UPDATE accounts SET balance = balance - 1 WHERE id = ANY(%s)", (chosen[:25],))
            bank.execute("UPDATE accounts SET balance = balance + 1 WHERE id = ANY(%s)", (chosen[25:],))


def test_at_every_commit_point_all_money_is_there(bank: Connection, capture: Callable[..., Captured]) -> None:
    captured = capture(*TABLES, partitions=4).start().caught_up(bank)
    for seed in range(6):
        between_tables(bank, 20, seed)
        between_rows(bank, 4, seed)
        captured.runner.step(0.05)
    captured.caught_up(bank)
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS)
    assert points[0] == dict.fromkeys(ends(captured.log, *TOPICS), 0)
    assert len(points) > 6


def test_polls_that_end_within_transactions_still_reach_commit_points_and_one_append_writes_one(
    bank: Connection, capture: Callable[..., Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RECEIVE_BYTES", 10_000)
    monkeypatch.setattr(source, "RUNS_FROM_MESSAGES", 32)
    loading.load()
    captured = capture(*TABLES, partitions=4).start().caught_up(bank)
    before, appends = captured.runner._commits.count, list[str]()
    captured.runner._point = appends.append
    between_rows(bank, 150, 1)
    captured.caught_up(bank)
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert 1 < captured.runner._commits.count - before <= appends.count("after sync") + 1


def test_a_transaction_that_is_larger_than_an_append_has_no_commit_point_within(
    bank: Connection, capture: Callable[..., Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RECEIVE_BYTES", 3_000)  # fewer changes than are worth another poll
    captured = capture(*TABLES, partitions=2).start().caught_up(bank)
    appends = list[str]()
    captured.runner._point = appends.append
    with bank.transaction():
        for number in range(40):
            bank.execute("UPDATE accounts SET balance = balance + 1 WHERE id <> %s", (number,))
    with bank.transaction():
        bank.execute("UPDATE accounts SET balance = 0")
    captured.caught_up(bank)
    points = commit_points(captured.log)
    assert appends.count("after sync") > 2
    assert Totals(captured.log, *TOPICS).at_each(points) <= {0, 40 * 100 - 39}


@pytest.mark.parametrize("point", ["before append", "after append", "after sync", "before commit point"])
def test_after_a_crash_between_records_and_their_commit_point_it_follows(
    point: str, bank: Connection, capture: Callable[..., Captured]
) -> None:
    captured = capture(*TABLES, partitions=4).start().caught_up(bank)
    written = len(commit_points(captured.log))
    left = [3]

    def strike(name: str) -> None:
        left[0] -= name == point
        if not left[0] or (name == point and not point.startswith("before append")):
            raise Stopped

    captured.runner._point = strike
    between_rows(bank, 3, 1)
    between_tables(bank, 3, 1)
    with pytest.raises(Stopped):
        captured.caught_up(bank)
    assert len(commit_points(captured.log)) == written
    captured.crash()
    captured.start().caught_up(bank)
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS)
    assert len(points) > written


def test_a_capture_that_comes_back_to_a_half_written_transaction_waits_for_the_rest(
    bank: Connection, capture: Callable[..., Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RECEIVE_BYTES", 10_000)
    captured = capture(*TABLES, partitions=4).start().caught_up(bank)
    left = [7]

    def strike(name: str) -> None:
        left[0] -= name == "before append"
        if not left[0]:
            raise Stopped

    captured.runner._point = strike
    with bank.transaction():
        for number in range(60):
            bank.execute("UPDATE accounts SET balance = balance + %s WHERE id <= 50", (1 + number % 2,))
            bank.execute("UPDATE accounts SET balance = balance - %s WHERE id > 50", (1 + number % 2,))
    with pytest.raises(Stopped):
        captured.caught_up(bank)
    half = ends(captured.log, *TOPICS)
    assert half != commit_points(captured.log)[-1], "some of it is there"
    captured.crash()
    captured.start().caught_up(bank)
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS)


def test_topics_from_before_there_were_commit_points_have_them_from_their_end_on(
    bank: Connection, capture: Callable[..., Captured]
) -> None:
    captured = capture(*TABLES, partitions=4).start().caught_up(bank)
    between_tables(bank, 5, 1)
    captured.caught_up(bank).stop()
    before = ends(captured.log, *TOPICS)
    captured.log.delete_topic("__headwater_commit_points")
    captured.start().caught_up(bank)
    assert commit_points(captured.log) == [before]
    between_tables(bank, 5, 2)
    captured.caught_up(bank)
    assert commit_points(captured.log)[-1] == ends(captured.log, *TOPICS)
