"""A real PostgreSQL, a real log: what changed at the one is in the other, once and in order."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headwater.errors import InvalidCapture, SourceGap, SourceRefused
from tests.capture.kit import Captured, bag, run

Connection = psycopg.Connection[Any]
Make = Callable[..., Captured]


def operations(captured: Captured, topic: str) -> list[str]:
    return [value["op"] for value in captured.values(topic)]


def test_rows_that_are_there_come_first_and_then_every_change(database: Connection, capture: Make) -> None:
    run(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        "INSERT INTO users VALUES (1, 'ada'), (2, 'bob')",
    )
    captured = capture("users").start().copied()
    run(
        database,
        "INSERT INTO users VALUES (3, 'cyd')",
        "UPDATE users SET name = 'ben' WHERE id = 2",
        "DELETE FROM users WHERE id = 1",
    )
    captured.caught_up(database)
    assert operations(captured, "users") == ["r", "r", "c", "u", "d"]
    assert captured.rows("users") == {'{"id":2}': {"id": 2, "name": "ben"}, '{"id":3}': {"id": 3, "name": "cyd"}}


def test_a_delete_is_followed_by_a_tombstone_and_has_the_key_it_knows(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY, name text)")
    captured = capture("users").start().copied()
    run(database, "INSERT INTO users VALUES (1, 'ada')", "DELETE FROM users")
    captured.caught_up(database)
    deleted, tombstone = captured.records("users")[-2:]
    assert json.loads(deleted.value or b"")["before"] == {"id": 1}
    assert (tombstone.key, tombstone.value) == (b'{"id":1}', None)


def test_with_full_identity_the_old_row_is_emitted_as_a_whole(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY, name text)", "ALTER TABLE users REPLICA IDENTITY FULL")
    captured = capture("users").start().copied()
    run(database, "INSERT INTO users VALUES (1, 'ada')", "UPDATE users SET name = 'eve'", "DELETE FROM users")
    captured.caught_up(database)
    assert [value["before"] for value in captured.values("users")] == [
        None,
        {"id": 1, "name": "ada"},
        {"id": 1, "name": "eve"},
    ]


def test_a_changed_key_is_a_delete_a_tombstone_and_a_create(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY, name text)", "INSERT INTO users VALUES (1, 'ada')")
    captured = capture("users").start().copied()
    run(database, "UPDATE users SET id = 7")
    captured.caught_up(database)
    deleted, tombstone, created = captured.records("users")[1:]
    assert [record.key for record in (deleted, tombstone, created)] == [b'{"id":1}', b'{"id":1}', b'{"id":7}']
    assert json.loads(created.value or b"")["op"] == "c"
    assert dict(deleted.headers)["__debezium.newkey"] == b'{"id":7}'
    assert dict(created.headers)["__debezium.oldkey"] == b'{"id":1}'
    assert captured.rows("users") == {'{"id":7}': {"id": 7, "name": "ada"}}


def test_a_change_has_its_source(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    with database.transaction():
        xid = database.execute("SELECT pg_current_xact_id()::text").fetchone()
        run(database, "INSERT INTO users VALUES (1)", "INSERT INTO users VALUES (2)")
    captured.caught_up(database)
    first, second = (value["source"] for value in captured.values("users"))
    assert (first["connector"], first["name"], first["schema"], first["table"]) == (
        "postgresql", "shop", "public", "users",
    )  # fmt: skip
    assert str(first["txId"]) == (xid or ("",))[0]
    assert first["lsn"] < second["lsn"]
    assert first["ts_ms"] == second["ts_ms"] == first["ts_us"] // 1000
    assert json.loads(first["sequence"])[0] == json.loads(second["sequence"])[0]


def test_rolled_back_work_never_arrives(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    with database.transaction(force_rollback=True):
        run(database, "INSERT INTO users VALUES (1)")
    with database.transaction():
        run(database, "INSERT INTO users VALUES (2)")
        with database.transaction(force_rollback=True):
            run(database, "INSERT INTO users VALUES (3)")
        run(database, "INSERT INTO users VALUES (4)")
    captured.caught_up(database)
    assert list(captured.rows("users")) == ['{"id":2}', '{"id":4}']


def test_transactions_arrive_in_the_order_of_their_commits(url: str, database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    with psycopg.connect(url) as early, psycopg.connect(url) as late:
        run(early, "INSERT INTO users VALUES (1)")
        run(late, "INSERT INTO users VALUES (2)")
        run(early, "INSERT INTO users VALUES (3)")
        late.commit()
        early.commit()
    captured.caught_up(database)
    assert [value["after"]["id"] for value in captured.values("users")] == [2, 1, 3]


def test_an_unchanged_large_value_is_filled_from_the_topic(database: Connection, capture: Make) -> None:
    run(
        database,
        "CREATE TABLE notes (id int PRIMARY KEY, body text, likes int)",
        "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO notes VALUES (1, repeat('a', 10000), 0)",
    )
    captured = capture("notes").start().copied()
    run(
        database,
        "INSERT INTO notes VALUES (2, repeat('b', 10000), 0)",
        "UPDATE notes SET likes = 1",
        "UPDATE notes SET id = 3 WHERE id = 2",
        "UPDATE notes SET body = repeat('c', 10000) WHERE id = 1",
        "UPDATE notes SET likes = 2",
    )
    captured.caught_up(database)
    assert captured.runner.counts.unavailable == 0
    assert captured.rows("notes") == {
        '{"id":1}': {"id": 1, "body": "c" * 10000, "likes": 2},
        '{"id":3}': {"id": 3, "body": "b" * 10000, "likes": 2},
    }


def test_after_a_restart_large_values_are_found_again_even_without_the_index(
    database: Connection, capture: Make
) -> None:
    run(
        database,
        "CREATE TABLE notes (id int PRIMARY KEY, body text, likes int)",
        "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO notes VALUES (1, repeat('a', 10000), 0)",
    )
    captured = capture("notes").start().copied()
    captured.stop()
    for path in (captured.folder / "capture").iterdir():
        path.unlink()
    captured.start()
    run(database, "UPDATE notes SET likes = 1")
    captured.caught_up(database)
    assert captured.rows("notes") == {'{"id":1}': {"id": 1, "body": "a" * 10000, "likes": 1}}


def test_a_large_value_that_the_topic_does_not_have_is_asked_for(database: Connection, capture: Make) -> None:
    run(
        database,
        "CREATE TABLE notes (id int PRIMARY KEY, body text, likes int)",
        "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO notes VALUES (1, repeat('a', 10000), 0)",
    )
    captured = capture("notes", snapshot=False).start()
    run(database, "UPDATE notes SET likes = 1")
    captured.caught_up(database)
    captured.until(lambda: len(captured.records("notes")) == 2)
    changed, read = captured.values("notes")
    assert (changed["op"], changed["after"]["body"]) == ("u", "__debezium_unavailable_value")
    assert (read["op"], read["after"]) == ("r", {"id": 1, "body": "a" * 10000, "likes": 1})
    assert captured.runner.counts.unavailable == 1


def test_a_truncated_table_is_a_delete_of_every_row(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)", "INSERT INTO users VALUES (1), (2)")
    captured = capture("users", partitions=3).start().copied()
    run(database, "DELETE FROM users WHERE id = 1", "INSERT INTO users VALUES (3)", "TRUNCATE users")
    run(database, "INSERT INTO users VALUES (4)")
    captured.caught_up(database)
    assert list(captured.rows("users")) == ['{"id":4}']
    assert sorted(operations(captured, "users")) == sorted(["r", "r", "d", "c", "d", "d", "c"])


def test_columns_that_come_go_and_change_are_followed(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY, name text, old int)")
    captured = capture("users").start().copied()
    run(
        database,
        "INSERT INTO users VALUES (1, 'ada', 5)",
        "ALTER TABLE users ADD COLUMN at date",
        "INSERT INTO users VALUES (2, 'bob', 6, '2026-01-31')",
        "ALTER TABLE users DROP COLUMN old",
        "INSERT INTO users VALUES (3, 'cyd', NULL)",
        "ALTER TABLE users RENAME name TO label",
        "ALTER TABLE users ALTER id TYPE bigint",
        "INSERT INTO users VALUES (4000000000, 'dan', NULL)",
    )
    captured.caught_up(database)
    assert [value["after"] for value in captured.values("users")] == [
        {"id": 1, "name": "ada", "old": 5},
        {"id": 2, "name": "bob", "old": 6, "at": "2026-01-31"},
        {"id": 3, "name": "cyd", "at": None},
        {"id": 4000000000, "label": "dan", "at": None},
    ]
    notes = captured.runner._notes.all()
    assert [name for name, _ in notes["schema/public.users"]["columns"]] == ["id", "label", "at"]  # type: ignore[attr-defined]
    assert notes["schema/public.users"]["version"] == len(
        [what for what in notes if what.startswith("schema/public.users/")]
    )


def test_several_tables_share_one_slot_and_new_ones_join_by_their_pattern(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.WATCH_INTERVAL_MS", 0)
    run(database, "CREATE SCHEMA shop", "CREATE TABLE shop.a (id int PRIMARY KEY)", "INSERT INTO shop.a VALUES (1)")
    captured = capture("shop.*").start().copied()
    run(database, "CREATE TABLE shop.b (id int PRIMARY KEY)", "INSERT INTO shop.b VALUES (1)")
    captured.caught_up(database)
    run(database, "INSERT INTO shop.a VALUES (2)", "INSERT INTO shop.b VALUES (2)")
    captured.caught_up(database)
    assert list(captured.rows("a")) == list(captured.rows("b")) == ['{"id":1}', '{"id":2}']
    slots = database.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").fetchone()
    assert slots == (1,)


def test_a_table_that_joins_waits_for_transactions_that_wrote_before_it_was_published(
    url: str, database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.WATCH_INTERVAL_MS", 0)
    run(database, "CREATE SCHEMA shop", "CREATE TABLE shop.a (id int PRIMARY KEY)")
    captured = capture("shop.*").start().copied()
    run(database, "CREATE TABLE shop.b (id int PRIMARY KEY)")
    with psycopg.connect(url) as slow:
        run(slow, "INSERT INTO shop.b VALUES (1)")
        for _ in range(20):
            captured.runner.step(0.01)
        assert not next(one for one in captured.source.status().snapshots if one.table == "shop.b").done
    captured.caught_up(database)
    assert list(captured.rows("b")) == ['{"id":1}']


def test_a_partitioned_table_is_one_topic(database: Connection, capture: Make) -> None:
    run(
        database,
        "CREATE TABLE sales (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE sales_2025 PARTITION OF sales FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
        "CREATE TABLE sales_2026 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        "INSERT INTO sales VALUES (1, '2025-05-05'), (2, '2026-05-05')",
    )
    captured = capture("public.*").start().copied()
    run(database, "INSERT INTO sales VALUES (3, '2025-06-06')", "UPDATE sales SET day = '2026-07-07' WHERE id = 1")
    captured.caught_up(database)
    assert sorted(row["day"] for row in captured.rows("sales").values()) == ["2025-06-06", "2026-05-05", "2026-07-07"]
    assert [topic.name for topic in captured.log.topics() if topic.name.startswith("sales")] == ["sales"]


def test_a_table_without_a_key_is_copied_as_of_one_position_of_the_stream(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE bag (a int, b text)", "ALTER TABLE bag REPLICA IDENTITY FULL")
    run(database, "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    captured = capture("bag").start()
    run(database, "INSERT INTO bag VALUES (3, 'y')")
    captured.copied()
    run(database, "DELETE FROM bag WHERE a = 2")
    captured.caught_up(database)
    records = captured.records("bag")
    assert sorted(row["a"] for row in bag(records)) == [1, 1, 3]
    assert json.loads(records[-1].value or b"")["before"] == {"a": 2, "b": None}
    assert {record.key for record in captured.records("bag")} == {None}


def test_a_table_whose_updates_would_fail_is_refused_with_the_statement(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE bag (a int)")
    with pytest.raises(SourceRefused, match=r"ALTER TABLE public\.bag REPLICA IDENTITY FULL"):
        capture("bag").start()


def test_a_table_that_only_a_pattern_names_and_that_cannot_be_captured_is_left_out(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.WATCH_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("public.*").start().caught_up(database)
    run(database, "CREATE TABLE bag (a int)", "INSERT INTO bag VALUES (1)", "INSERT INTO users VALUES (1)")
    captured.caught_up(database)
    assert list(captured.rows("users")) == ['{"id":1}']
    assert "left out: public.bag" in captured.source.status().warning
    run(database, "UPDATE bag SET a = 2", "ALTER TABLE bag REPLICA IDENTITY FULL")
    captured.caught_up(database)
    assert [row["a"] for row in bag(captured.records("bag"))] == [2]


def test_a_table_that_is_not_there_is_refused(database: Connection, capture: Make) -> None:
    with pytest.raises(SourceRefused, match=r"there is no table public\.nowhere"):
        capture("nowhere").start()


def test_two_tables_cannot_share_a_topic(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    with pytest.raises(InvalidCapture, match="several tables to one topic"):
        _with_topic(capture, "one").start()


def _with_topic(capture: Make, topic: str) -> Captured:
    captured = capture("a", "b")
    captured.change(topic=topic)
    return captured


def test_nothing_is_confirmed_before_it_is_durable(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    before = _confirmed(database)
    run(database, "INSERT INTO users VALUES (1)")
    captured.until(lambda: captured.runner.counts.changes > 0)
    captured.runner._confirm()
    captured.until(lambda: _confirmed(database) > before)
    noted = captured.runner._notes.get("confirmed") or {}
    assert _confirmed(database) <= int(str(noted["address"]))


def test_a_quiet_table_does_not_hold_the_wal_of_a_busy_one(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.STATUS_INTERVAL_MS", 0)
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 0)
    run(database, "CREATE TABLE quiet (id int PRIMARY KEY)", "CREATE TABLE busy (id serial, body text)")
    captured = capture("quiet").start().copied()
    start = _now(database)
    run(database, "INSERT INTO busy (body) SELECT repeat(md5(i::text), 20) FROM generate_series(1, 20000) i")
    written = _now(database) - start
    assert written > 10 * 2**20
    captured.until(lambda: _confirmed(database) > start + written // 2)
    run(database, "CHECKPOINT")
    captured.until(lambda: _retained(database) < written // 2)


def test_a_heartbeat_moves_the_slot_of_a_database_where_nothing_happens(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users", heartbeat=timedelta(milliseconds=20)).start().caught_up(database)
    before = _now(database)
    captured.until(lambda: _confirmed(database) > before)
    assert captured.records("users") == []


def test_a_slot_that_is_deleted_is_a_gap_and_not_a_fresh_start(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    captured.stop()
    run(database, "SELECT pg_drop_replication_slot('headwater_shop_1')")
    with pytest.raises(SourceGap, match=r"slot headwater_shop_1 was deleted.*headwater capture snapshot"):
        captured.start()


def test_a_slot_that_another_client_has_read_is_a_gap(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    captured.stop()
    run(
        database,
        "INSERT INTO users VALUES (1)",
        "SELECT pg_replication_slot_advance('headwater_shop_1', pg_current_wal_lsn())",
    )
    with pytest.raises(SourceGap, match="was confirmed to"):
        captured.start()


def test_a_database_that_has_lost_what_the_log_has_is_a_gap(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    captured.stop()
    captured.runner._notes.write({"confirmed": {"address": _now(database) + 2**20}})
    with pytest.raises(SourceGap, match="it has lost some"):
        captured.start()


def test_a_publication_that_is_deleted_is_a_gap(database: Connection, capture: Make) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().copied()
    captured.stop()
    run(database, "DROP PUBLICATION headwater_shop_1")
    with pytest.raises(SourceGap, match="publication headwater_shop_1 was deleted"):
        captured.start()


@pytest.mark.parametrize("stopped", [True, False])
@pytest.mark.parametrize(
    "unheard",
    [
        ["ALTER PUBLICATION headwater_shop_1 DROP TABLE users", "DELETE FROM users WHERE id = 1",
         "INSERT INTO users VALUES (3)"],
        ["ALTER PUBLICATION headwater_shop_1 DROP TABLE users", "DELETE FROM users WHERE id = 1",
         "INSERT INTO users VALUES (3)", "ALTER PUBLICATION headwater_shop_1 ADD TABLE users"],
        ["DROP TABLE users", "CREATE TABLE users (id int PRIMARY KEY)", "INSERT INTO users VALUES (2), (3)"],
    ],
    ids=["taken-out", "put-back-by-hand", "created-again"],
)  # fmt: skip
def test_what_happened_to_a_table_unheard_is_made_good_by_a_copy(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch, unheard: list[str], stopped: bool
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.WATCH_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)", "INSERT INTO users VALUES (1), (2)")
    captured = capture("users").start().caught_up(database)
    if stopped:
        captured.stop()
    run(database, *unheard)
    if stopped:
        captured.start()
    captured.runner.step(0)
    run(database, "INSERT INTO users VALUES (4)")
    captured.caught_up(database)
    assert sorted(row["id"] for row in captured.rows("users").values()) == [2, 3, 4]


def test_lag_is_reported_in_bytes_and_seconds(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.slot_monitor.LOOK_INTERVAL_MS", 0)
    monkeypatch.setattr("headwater.capture.runner.CONFIRM_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)")
    captured = capture("users").start().caught_up(database)
    run(database, "INSERT INTO users SELECT generate_series(1, 1000)")
    captured.source._watch_slot.look(captured.source._status, captured.source._confirmed)
    time.sleep(0.3)
    captured.source._watch_slot.look(captured.source._status, captured.source._confirmed)
    assert (captured.source.status().lag_bytes or 0) > 10_000
    assert (captured.source.status().lag_seconds or 0) >= 0.3
    captured.caught_up(database)
    captured.until(lambda: captured.source.status().lag_seconds == 0)


def test_after_a_gap_a_new_copy_brings_what_was_missed_and_ends_what_was_deleted(
    database: Connection, capture: Make
) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY, name text)")
    run(database, "INSERT INTO users VALUES (1, 'ada'), (2, 'bob'), (3, 'cyd')")
    captured = capture("users").start().copied()
    captured.stop()
    run(database, "SELECT pg_drop_replication_slot('headwater_shop_1')")
    run(database, "DELETE FROM users WHERE id = 1", "UPDATE users SET name = 'ben' WHERE id = 2")
    run(database, "INSERT INTO users VALUES (4, 'dan')")
    captured.runner._notes.write({"renew": {"asked": True}})
    captured.start().copied()
    run(database, "INSERT INTO users VALUES (5, 'eve')")
    captured.caught_up(database)
    assert {row["id"]: row["name"] for row in captured.rows("users").values()} == {
        2: "ben", 3: "cyd", 4: "dan", 5: "eve",
    }  # fmt: skip


def test_at_its_limit_the_slot_is_dropped_loudly(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.WATCH_INTERVAL_MS", 0)
    run(database, "CREATE TABLE users (id int PRIMARY KEY)", "CREATE TABLE busy (id serial, body text)")
    captured = capture("users").start().copied()
    captured.stop()
    run(database, "INSERT INTO busy (body) SELECT repeat(md5(i::text), 20) FROM generate_series(1, 5000) i")
    captured.change(retained_bytes_max=2**20)
    captured.start()
    with pytest.raises(SourceGap, match="replication slot was dropped"):
        captured.until(lambda: False)
    assert database.execute("SELECT 1 FROM pg_replication_slots WHERE database = current_database()").fetchone() is None


def test_half_way_to_the_limit_there_is_a_warning(
    database: Connection, capture: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, "CREATE TABLE users (id int PRIMARY KEY)", "CREATE TABLE busy (id serial, body text)")
    captured = capture("users").start().copied()
    captured.stop()
    run(database, "INSERT INTO busy (body) SELECT repeat(md5(i::text), 20) FROM generate_series(1, 5000) i")
    captured.change(retained_bytes_max=5 * 2**20)
    captured.start()
    captured.runner.step(0)
    assert "bytes of WAL" in captured.source.status().warning


def _confirmed(database: Connection) -> int:
    return _one(
        database,
        "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE database = current_database()",
    )


def _now(database: Connection) -> int:
    return _one(database, "SELECT (pg_current_wal_lsn() - '0/0')::bigint")


def _retained(database: Connection) -> int:
    return _one(
        database,
        "SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots"
        " WHERE database = current_database()",
    )


def _one(database: Connection, query: str) -> int:
    row = database.execute(query).fetchone()
    assert row is not None
    return int(row[0])
