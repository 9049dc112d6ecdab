"""The database deletes what is confirmed: so nothing is confirmed that could still be needed."""

import struct
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headwater.capture.postgresql.replication import DATA, ReplicationConnection, parse_data
from tests.capture.kit import Captured, run

Connection = psycopg.Connection[Any]
Make = Callable[..., Captured]
FAR = 10**6


def keepalive(end: int) -> bytes:
    return struct.pack(">cQqB", b"k", end, 0, 0)


def test_a_keepalive_inside_a_transaction_confirms_nothing_of_it(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says how far it is while it is still sending: a transaction of which half has come is not safe."""
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().caught_up(database)
    real, held = ReplicationConnection.receive, list[bytes]()

    def receive_half(self: ReplicationConnection, timeout_seconds: float, *, bytes_max: int) -> list[bytes]:
        """All up to the first row that is inserted, and a keepalive after it; the rest stays away."""
        if held:
            return []
        held.extend(real(self, timeout_seconds, bytes_max=bytes_max))
        for index, data in enumerate(held):
            if data[0] == DATA and parse_data(data)[1][:1] == b"I":
                return [*held[: index + 1], keepalive(parse_data(data)[0] + FAR)]
        passed, held[:] = held[:], []
        return passed

    monkeypatch.setattr(ReplicationConnection, "receive", receive_half)
    run(database, "INSERT INTO users SELECT i FROM generate_series(1, 3) i")
    captured.until(lambda: bool(held) and captured.runner.step(0) is False)
    assert len(captured.records("users")) == 1
    captured.crash()
    monkeypatch.setattr(ReplicationConnection, "receive", real)
    captured.start().caught_up(database)
    assert sorted(captured.rows("users")) == ['{"id":1}', '{"id":2}', '{"id":3}']
    assert len(captured.records("users")) == 3


def test_a_change_with_a_gap_comes_again_until_the_gap_is_closed(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large value that neither the change nor the topic has is asked for; a crash before the answer loses nothing."""
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 0)
    run(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text, score int)",
        "ALTER TABLE users ALTER name SET STORAGE EXTERNAL",
        "INSERT INTO users VALUES (1, repeat('x', 5000), 1)",
    )
    captured = capture("users", snapshot=False).start().caught_up(database)
    run(database, "UPDATE users SET score = 2")
    captured.until(lambda: captured.runner.counts.unavailable == 1)
    captured.crash()
    captured.start().until(lambda: next(iter(captured.rows("users").values()))["name"] == "x" * 5000)
    assert next(iter(captured.rows("users").values()))["score"] == 2


def test_what_comes_again_is_not_asked_for(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that the topic has, and that lacks a value which no longer exists, must not delay confirmation."""
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 10**9)
    run(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text, score int)",
        "ALTER TABLE users ALTER name SET STORAGE EXTERNAL",
        "INSERT INTO users VALUES (1, repeat('x', 5000), 1)",
    )
    captured = capture("users").start().caught_up(database)
    run(database, "UPDATE users SET score = 2", "DELETE FROM users", "INSERT INTO users VALUES (2, 'new', 1)")
    captured.caught_up(database).crash()
    captured.start().caught_up(database)
    assert captured.runner.counts.skipped >= 3
    assert captured.runner.counts.unavailable == 0
    assert list(captured.rows("users")) == ['{"id":2}']


def test_a_server_that_has_forgotten_what_was_confirmed_does_not_set_us_back(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, it knows what was confirmed at its last checkpoint, and begins by saying so. If our note followed it
    there, the server would be ahead of the note after the next confirmation, as if another client had read the slot."""
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().caught_up(database)
    before = captured.runner._confirmed
    run(database, "INSERT INTO users VALUES (1)")
    captured.caught_up(database).crash()
    real = ReplicationConnection.receive
    with monkeypatch.context() as patched:
        patched.setattr(ReplicationConnection, "receive", lambda self, timeout_seconds, bytes_max: [keepalive(before)])
        captured.start().runner.step(0)
        captured.crash()
    assert ReplicationConnection.receive is real
    captured.start().caught_up(database)
    assert list(captured.rows("users")) == ['{"id":1}']
