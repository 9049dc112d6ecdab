"""An app from the log to its views and topics, and on after a stop."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration, JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.run.app_tester import AppTester
from headwater.log.batch_format import encode_batch, seal
from headwater.record import Record, TopicPartition
from tests.flow.job.shop import SCHEMA, order, orders, revenue_of, shop

Tester = Callable[[hw.App], AppTester]


def revenue_in(tester: AppTester) -> dict[str, Any]:
    return {row["currency"]: (row["orders"], row["revenue"]) for row in tester.rows("revenue")}


def test_views_topics_and_accounts_after_several_batches_and_a_restart(tester: Tester) -> None:
    shop_tester, rows = tester(shop()), orders(300)
    shop_tester.feed("orders", rows[:100], partition=0)
    shop_tester.node.log.add_partitions("orders", 2)
    shop_tester.feed("orders", rows[100:200], partition=1)
    shop_tester.run(rows_per_batch=70)
    assert revenue_in(shop_tester) == revenue_of(rows[:200])

    shop_tester.feed("orders", [*rows[200:], b'{"id": 5', b"nonsense"], partition=1)
    AppTester(shop(), shop_tester.node, shop_tester.session).run()
    assert revenue_in(shop_tester) == revenue_of(rows)
    assert len(shop_tester.values("big-orders")) == sum(row["amount"] > 90 for row in rows)

    account = shop_tester.account("revenue")
    assert account.balanced
    assert (account.rows_in, account.poisoned) == (302, 2)
    assert account.filtered == sum(row["amount"] < 10 for row in rows)
    poisoned = shop_tester.values("shop.orders.poisoned")
    assert [(row["partition"], row["offset"]) for row in poisoned] == [(1, 200), (1, 201)]
    assert all("JSON" in row["reason"] for row in poisoned)
    committed = shop_tester.node.log.group_offsets.fetch("shop.orders")
    assert committed[TopicPartition("orders", 1)].offset == 202
    assert [shop_tester.prove(view).different for view in ("revenue", "last_order")] == [0, 0]


def lying_batch() -> bytearray:
    """Its checksum is right, and it holds one record where it claims three."""
    batch = encode_batch([Record(b"{}", timestamp_ms=1)])
    batch[23:27], batch[57:61] = (2).to_bytes(4, "big"), (3).to_bytes(4, "big")
    seal(batch)
    return batch


def test_a_batch_that_cannot_be_read_is_poisoned_and_its_job_goes_on(tester: Tester) -> None:
    shop_tester, rows = tester(shop()), orders(60)
    shop_tester.feed("orders", rows[:30])
    shop_tester.node.log.partition("orders", 0).append(lying_batch(), durable=False)
    shop_tester.feed("orders", rows[30:])
    shop_tester.run()
    assert revenue_in(shop_tester) == revenue_of(rows)
    account = shop_tester.account("revenue")
    assert account.balanced
    assert (account.rows_in, account.poisoned) == (63, 3)
    (poisoned,) = shop_tester.values("shop.orders.poisoned")
    assert poisoned["offset"] == 30
    assert "offsets 30 to 32" in poisoned["reason"]
    assert shop_tester.prove("revenue").different == 0


def test_a_run_with_nothing_new_does_nothing(tester: Tester) -> None:
    shop_tester = tester(shop())
    shop_tester.feed("orders", orders(20))
    shop_tester.run()
    before = shop_tester.rows("revenue"), len(shop_tester.records("big-orders"))
    assert shop_tester.run() == []
    assert (shop_tester.rows("revenue"), len(shop_tester.records("big-orders"))) == before


def test_a_reader_can_ask_for_at_least_what_it_wrote(tester: Tester) -> None:
    shop_tester = tester(shop())
    shop_tester.feed("orders", [order(1, currency="EUR")])
    position = shop_tester.feed("orders", [order(2, currency="NOK")])
    shop_tester.run()
    with shop_tester.view("revenue") as view:
        assert view.get("NOK", at_least=position) is not None


def test_verify_finds_a_row_that_is_not_what_the_log_says(tester: Tester) -> None:
    import sqlite3

    shop_tester = tester(shop())
    shop_tester.feed("orders", orders(50))
    shop_tester.run()
    file = shop_tester.node.data / "views" / "shop.sqlite"
    with sqlite3.connect(file) as database:
        database.execute("update revenue set orders = orders + 1 where currency = 'EUR'")
    database.close()
    verified = shop_tester.prove("revenue")
    assert verified.different == 1
    (difference,) = verified.shown
    assert difference.key == {"currency": "EUR"}
    assert difference.offsets
    assert all(place.startswith("orders/0@") for place in difference.offsets)


def test_a_table_follows_its_changelog_with_deletions_and_its_changes_are_in_the_envelope(tester: Tester) -> None:
    app = hw.App("people", shards=2)
    users = app.table("users", "id long, name string, country string", key="id")

    @app.view(key="id")
    def germans() -> Any:
        return users.where("country = 'DE'").with_columns(shout="upper(name)")

    @app.topic("user-changes")
    def user_changes() -> Any:
        return users

    people = tester(app)
    log = people.node.log
    log.create_topic("users")

    times = count(1_760_000_000_000, -1000)  # the clock of whoever writes goes back: where a record lies decides

    def put(key: str, value: bytes | None) -> None:
        log.append("users", hw.Record(value, key=key.encode(), timestamp_ms=next(times)))

    put("1", b'{"id": 1, "name": "adam", "country": "DE"}')
    put("1", b'{"id": 1, "name": "ada", "country": "DE"}')
    put("2", b'{"id": 2, "name": "bob", "country": "DE"}')
    put("3", b'{"id": 3, "name": "eve", "country": "SE"}')
    people.run()
    assert [row["shout"] for row in people.rows("germans")] == ["ADA", "BOB"]
    put("1", b'{"id": 1, "name": "ada", "country": "SE"}')
    put("2", None)
    put("3", b'{"id": 3, "name": "eve", "country": "DE"}')
    people.run()
    assert [row["shout"] for row in people.rows("germans")] == ["EVE"]
    assert people.prove("germans").different == 0
    changes = [value for value in people.values("user-changes") if value is not None]
    assert [(one["op"], (one["after"] or one["before"])["id"]) for one in changes[:3]] == [("c", 1), ("c", 2), ("c", 3)]
    deleted = next(one for one in changes if one["op"] == "d")
    assert deleted["before"] == {"id": 2, "name": "bob", "country": "DE"}
    assert deleted["after"] is None
    assert None in people.values("user-changes"), "a tombstone follows the deletion"


@pytest.mark.on_spark
def test_changed_code_is_refused_until_the_view_is_rebuilt(tester: Tester) -> None:
    def app_with(condition: str) -> hw.App:
        app = hw.App("shop", shards=2)
        stream = app.stream("orders", SCHEMA, time="at")

        @app.view(key="currency")
        def revenue() -> Any:
            return stream.where(condition).by("currency").agg("sum(amount) as revenue", "count(*) as orders")

        return app

    rows = orders(80)
    first = tester(app_with("amount >= 50"))
    first.feed("orders", rows)
    first.run()
    changed = tester(app_with("amount >= 10"))
    with pytest.raises(JobRefused, match=r'where condition was "amount >= 50" and is "amount >= 10"'):
        changed.run()
    changed.feed("orders", orders(20, seed=2))
    changed.run(rebuild=["revenue"], rows_per_batch=30)
    assert revenue_in(changed) == revenue_of([*rows, *orders(20, seed=2)])
    assert changed.prove("revenue").different == 0


@pytest.mark.on_spark
def test_a_view_is_not_given_up_for_one_that_the_log_can_no_longer_fill(tester: Tester) -> None:
    shop_tester = tester(shop())
    shop_tester.feed("orders", orders(40))
    shop_tester.run()
    before = shop_tester.rows("revenue")
    shop_tester.node.log.partition("orders", 0).delete_records(10)
    with pytest.raises(JobRefused, match="offsets 0 to 9 of orders/0 are deleted"):
        shop_tester.run(rebuild=["revenue"])
    assert shop_tester.rows("revenue") == before


def test_a_view_that_is_added_later_is_built_from_the_beginning(tester: Tester) -> None:
    small = hw.App("shop", shards=2)
    stream = small.stream("orders", SCHEMA, time="at")

    @small.view(key="user_id")
    def last_order() -> Any:
        return stream.latest("user_id")

    first = tester(small)
    first.feed("orders", orders(60))
    first.run()
    later = tester(shop())
    later.feed("orders", orders(10, seed=3))
    later.run()
    assert revenue_in(later) == revenue_of([*orders(60), *orders(10, seed=3)])
    assert later.prove("revenue").different == later.prove("last_order").different == 0


@pytest.mark.on_spark
def test_a_checkpoint_that_was_copied_lost_or_is_anothers_is_refused(tester: Tester) -> None:
    import shutil

    shop_tester = tester(shop())
    shop_tester.feed("orders", orders(10))
    shop_tester.run()
    folder = shop_tester.node.data / "flows" / "shop" / "orders"
    shutil.copytree(folder, folder.with_name("kept"))
    shutil.rmtree(folder)
    with pytest.raises(JobRefused, match="another checkpoint"):
        shop_tester.run()
    shutil.rmtree(folder)
    folder.with_name("kept").rename(folder)
    shop_tester.run()
    shutil.move(folder, folder.with_name("other"))
    shutil.copytree(folder.with_name("other"), folder)
    identity = JobFolder(folder).read("identity.json")
    assert identity is not None
    JobFolder(folder).write("identity.json", {**identity, "place": identity["place"].replace("/orders", "/elsewhere")})
    with pytest.raises(JobRefused, match="copied or moved"):
        shop_tester.run()


def test_a_mistake_in_a_body_is_one_sentence_with_its_place(tester: Tester) -> None:
    app = hw.App("shop")
    stream = app.stream("orders", SCHEMA, time="at")

    @app.view(key="currency")
    def revenue() -> Any:
        return stream.where("amont > 1").by("currency").agg("sum(amount) as revenue")

    with pytest.raises(
        InvalidDeclaration, match=r"where at test_running.py:\d+: there is no column amont; did you mean amount\?"
    ):
        tester(app).run()


def test_repetitions_within_the_time_are_dropped_and_a_partition_that_is_an_hour_ahead_makes_nothing_late(
    tester: Tester,
) -> None:
    app = hw.App("clicks", shards=2)
    schema = "id string, page string, at timestamp, worth decimal(19,2)"
    clicks = app.stream("clicks", schema, time="at", lateness="10 minutes")

    @app.view(key="page")
    def pages() -> Any:
        return clicks.dedupe("id", within="5 minutes").by("page").agg("count(*) as clicks")

    def click(number: int, *, hour: int, minute: int) -> dict[str, Any]:
        return {"id": f"c{number}", "page": f"p{number % 3}", "at": f"2026-01-01T{hour:02d}:{minute:02d}:00Z"}

    behind = [click(number, hour=8, minute=number) for number in range(40)]
    ahead = [click(100 + number, hour=9, minute=number) for number in range(40)]
    clicks_tester = tester(app)
    clicks_tester.node.log.create_topic("clicks", partitions=2)
    clicks_tester.feed("clicks", [*ahead, *ahead[-3:]], partition=0)
    clicks_tester.run()
    clicks_tester.feed("clicks", [*behind, *behind[-4:]], partition=1)
    clicks_tester.run(rows_per_batch=25)
    assert sum(row["clicks"] for row in clicks_tester.rows("pages")) == 80
    assert clicks_tester.account("pages").duplicates == 7
    assert clicks_tester.account("pages").late == 0
    straggler = {**click(200, hour=8, minute=5), "worth": "12345678901234567.89"}
    clicks_tester.feed("clicks", [straggler], partition=1)
    clicks_tester.run()
    account = clicks_tester.account("pages")
    assert (account.late, account.balanced) == (1, True)
    (late,) = clicks_tester.values("clicks.clicks.late")
    assert late["row"]["id"] == "c200"
    (record,) = clicks_tester.records("clicks.clicks.late")
    assert record.value is not None
    assert b'"worth":12345678901234567.89' in record.value, "to the last digit"
    assert "34 minutes" in late["reason"] or "2,040.000 s behind clicks/1" in late["reason"]


@pytest.mark.on_spark
@pytest.mark.parametrize("column", ["rand()", "uuid()", "current_timestamp()"])
def test_what_would_be_different_when_a_batch_is_run_again_is_refused(tester: Tester, column: str) -> None:
    app = hw.App("shop")
    stream = app.stream("orders", SCHEMA, time="at")

    @app.view(key="id")
    def noted() -> Any:
        return stream.with_columns(noted=column).latest("id")

    with pytest.raises(InvalidDeclaration, match="a batch that is run again would give other rows"):
        tester(app).run()
