"""Commit points lie between groups of MariaDB's log, also of those that are too large to wait for their end."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.capture.mariadb_binlog import assembler
from tests.capture.bank import Totals, commit_points, ends
from tests.capture.mariadb.kit import Captured, run

TOPICS = ("accounts", "savings")


class Stopped(Exception):
    pass


@pytest.fixture
def bank(database: Any) -> Any:
    for table in TOPICS:
        run(
            database,
            f"CREATE TABLE {table} (id INT PRIMARY KEY, balance BIGINT)",
            f"INSERT INTO {table} SELECT seq, 0 FROM seq_1_to_100",
        )
    return database


def move(bank: Any, rows: int) -> None:
    """One transaction over both tables, of so many rows in each."""
    run(
        bank, "BEGIN",
        f"UPDATE accounts SET balance = balance - 5 WHERE id <= {rows}",
        f"UPDATE savings SET balance = balance + 5 WHERE id > {100 - rows}",
        "COMMIT",
    )  # fmt: skip


@pytest.mark.parametrize("held_back", [20, 20_000])
def test_at_every_commit_point_all_money_is_there(
    held_back: int, bank: Any, capture: Callable[..., Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembler, "HELD_BACK_MAX", held_back)
    captured = capture(*TOPICS, partitions=4).start().caught_up(bank)
    for number in range(12):
        move(bank, (1, 25, 90)[number % 3])
        captured.runner.step(0)
    captured.caught_up(bank)
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS)
    assert len(points) > 3


@pytest.mark.parametrize("point", ["before append", "after sync", "before commit point"])
def test_after_a_crash_between_records_and_their_commit_point_it_follows(
    point: str, bank: Any, capture: Callable[..., Captured]
) -> None:
    captured = capture(*TOPICS, partitions=4).start().caught_up(bank)
    written = commit_points(captured.log)

    def strike(name: str) -> None:
        if name == point:
            raise Stopped

    move(bank, 25)
    captured.runner._point = strike
    with pytest.raises(Stopped):
        captured.caught_up(bank)
    captured.crash()
    assert commit_points(captured.log) == written
    captured.start().caught_up(bank)
    points = commit_points(captured.log)
    assert Totals(captured.log, *TOPICS).at_each(points) == {0}
    assert points[-1] == ends(captured.log, *TOPICS) != written[-1]
