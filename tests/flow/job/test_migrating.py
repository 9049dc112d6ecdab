"""An app whose code changes: what its state can say is not read from the log again."""

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import JobRefused
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.shop import SCHEMA, order, orders

Tester = Callable[[hw.App], AppTester]
Made = Callable[[Any], Any]

GONE = 10
"""Records that retention has taken: whatever is right after that was not read from the log."""


def app_of(made: Made, *, schema: str = SCHEMA, name: str = "revenue", key: str = "currency") -> hw.App:
    """One view, made from the stream of orders."""
    app = hw.App("shop", shards=2)
    stream = app.stream("orders", schema, time="at")
    app.view(key=key, name=name)(lambda: made(stream))
    return app


def totals(stream: Any) -> Any:
    return stream.by("currency").agg("sum(amount) as revenue", "count(*) as orders", "avg(amount) as mean")


def changed(tester: Tester, before: hw.App, now: hw.App) -> AppTester:
    """An app that has run, and then runs with other code while the beginning of its log is gone; then goes on."""
    first = tester(before)
    first.feed("orders", orders(80))
    first.run(rows_per_batch=30)
    partition = first.node.log.partition("orders", 0)
    partition.delete_records(GONE)
    later = tester(now)
    later.run()
    later.feed("orders", orders(40, seed=2))
    later.run()
    return later


def as_if_new(tester: Tester, like: hw.App, view: str) -> list[dict[str, Any]]:
    """What the same code makes of the same rows when it has them from the beginning."""
    app = hw.App("oracle", shards=4)
    for source in like.sources.values():
        app.sources[source.name] = source
    app.outputs[view] = like.outputs[view]
    oracle = tester(app)
    (topic,) = {source.topic for source in like.sources.values()}
    assert topic == "orders"
    oracle.node.log.delete_topic("orders")
    oracle.feed("orders", [*orders(80), *orders(40, seed=2)])
    oracle.run()
    return oracle.rows(view)


TAILS: dict[str, Made] = {
    "a column added": lambda stream: totals(stream).with_columns(share="revenue / orders"),
    "another filter": lambda stream: totals(stream).where("orders > 20"),
    "other columns": lambda stream: totals(stream).select("currency", "orders * 2 as twice", "mean"),
    "renamed behind": lambda stream: totals(stream).select("currency", "revenue as turnover", "orders"),
}


@pytest.mark.parametrize("change", TAILS)
def test_steps_behind_an_operator_are_done_anew_from_its_state(tester: Tester, change: str) -> None:
    now = app_of(TAILS[change])
    later = changed(tester, app_of(totals), now)
    (said,) = [line for line in later.reported if line.startswith("revenue: migrate")]
    assert "rewritten from its state" in said
    found = later.rows("revenue")
    assert found == as_if_new(tester, now, "revenue")
    assert len(found) > 0


def test_aggregates_may_be_renamed_dropped_and_put_in_another_order(tester: Tester) -> None:
    now = app_of(lambda stream: stream.by("currency").agg("avg(amount) as average", "sum(amount) as turnover"))
    later = changed(tester, app_of(totals), now)
    assert any("turnover was revenue" in line for line in later.reported)
    assert later.rows("revenue") == as_if_new(tester, now, "revenue")


@pytest.mark.on_spark
def test_an_aggregate_that_the_state_does_not_hold_needs_a_rebuild(tester: Tester) -> None:
    first = tester(app_of(totals))
    first.feed("orders", orders(20))
    first.run()
    later = tester(app_of(lambda stream: stream.by("currency").agg("count(*) as orders", "max(amount) as most")))
    with pytest.raises(JobRefused, match="--rebuild revenue"):
        later.run()
    assert any(line.startswith("revenue: rebuild") for line in later.reported)
    later.run(rebuild=["revenue"])
    assert later.prove("revenue").different == 0


def test_the_latest_rows_can_be_shown_in_another_way(tester: Tester) -> None:
    before = app_of(lambda stream: stream.latest("user_id"), key="user_id")
    now = app_of(lambda stream: stream.latest("user_id").where("amount > 40").select("user_id", "id"), key="user_id")
    later = changed(tester, before, now)
    assert later.rows("revenue") == as_if_new(tester, now, "revenue")


def test_a_proof_holds_after_a_migration_and_readers_are_told_to_begin_again(tester: Tester) -> None:
    first = tester(app_of(totals))
    first.feed("orders", orders(50))
    first.run()
    with first.view("revenue") as view:
        watching = view.watch(snapshot=True, timeout=0.1)
        seen = [next(watching)]
        later = tester(app_of(TAILS["a column added"]))
        later.run()
        later.feed("orders", orders(10, seed=4))
        later.run()
        seen += list(watching)
    assert later.prove("revenue").different == 0
    assert seen[-1].row is not None
    assert "share" in seen[-1].row


def test_a_column_that_is_added_to_a_source_changes_nothing_for_who_does_not_use_it(tester: Tester) -> None:
    first = tester(app_of(totals))
    first.feed("orders", orders(30))
    first.run()
    later = tester(app_of(totals, schema=f"{SCHEMA}, note string"))
    later.feed("orders", [{**order(99), "note": "x"}])
    later.run()
    assert later.reported == []
    assert later.prove("revenue").different == 0


@pytest.mark.on_spark
def test_a_table_to_which_a_column_is_added_is_built_anew(tester: Tester) -> None:
    """What older records say of the column is only in the log; a view that would show null for it would be wrong."""

    def app(schema: str) -> hw.App:
        app = hw.App("people", shards=2)
        users = app.table("users", schema, key="id")
        app.view(key="id", name="names")(lambda: users.select("id", "name"))
        return app

    first = tester(app("id long, name string"))
    first.feed("users", [{"id": 1, "name": "ada", "country": "GB"}])
    first.run()
    later = tester(app("id long, name string, country string"))
    with pytest.raises(JobRefused, match=r"country, which its state does not hold"):
        later.run()
    later.run(rebuild=["names"])
    assert later.prove("names").different == 0


def stream_app(made: Made, schema: str = SCHEMA) -> hw.App:
    app = hw.App("shop", shards=2)
    stream = app.stream("orders", schema, time="at")
    app.topic("copies", key="id")(lambda: made(stream))
    return app


@pytest.mark.on_spark
def test_columns_added_to_rows_of_a_stream_are_in_those_that_follow(tester: Tester) -> None:
    first = tester(stream_app(lambda stream: stream.where("amount >= 10").select("id", "amount")))
    first.feed("orders", [order(1), order(2)])
    first.run()
    later = tester(
        stream_app(
            lambda stream: stream.with_columns(day="date(at)").where("amount >= 10").select("id", "amount", "day")
        )
    )
    later.feed("orders", [order(3), order(4, amount="5.00")])
    later.run()
    (said,) = [line for line in later.reported if line.startswith("copies: migrate")]
    assert "day is in rows from now on; those written before do not have it" in said
    assert [sorted(row) for row in later.values("copies")] == [["amount", "id"]] * 2 + [["amount", "day", "id"]]


def test_a_source_that_grows_gives_its_new_columns_to_rows_that_follow(tester: Tester) -> None:
    first = tester(stream_app(lambda stream: stream))
    first.feed("orders", [order(1)])
    first.run()
    later = tester(stream_app(lambda stream: stream, f"{SCHEMA}, note string"))
    later.feed("orders", [{**order(2), "note": "new"}])
    later.run()
    assert [row.get("note") for row in later.values("copies")] == [None, "new"]
    assert any("note is in rows from now on" in line for line in later.reported)


@pytest.mark.on_spark
@pytest.mark.parametrize(
    "now",
    [
        lambda stream: stream.where("amount >= 20").select("id", "amount", "currency"),
        lambda stream: stream.where("amount >= 10").select("id", "amount * 2 as amount", "currency"),
        lambda stream: stream.with_columns(amount="amount * 2").where("amount >= 10").select("id", "amount"),
    ],
    ids=["another filter", "another meaning", "a column replaced"],
)
def test_rows_of_a_stream_that_mean_something_else_are_not_mixed_unasked(tester: Tester, now: Made) -> None:
    first = tester(stream_app(lambda stream: stream.where("amount >= 10").select("id", "amount")))
    first.feed("orders", [order(1)])
    first.run()
    with pytest.raises(JobRefused, match="--rebuild copies"):
        tester(stream_app(now)).run()


def test_a_view_under_another_name_takes_the_state_of_the_old_one_along(tester: Tester) -> None:
    now = app_of(totals, name="turnover")
    later = changed(tester, app_of(totals), now)
    assert any(line.startswith("turnover: new") and "from the state of revenue" in line for line in later.reported)
    assert later.rows("turnover") == as_if_new(tester, now, "turnover")


def test_an_output_that_shared_the_state_of_one_that_is_gone_goes_on(tester: Tester) -> None:
    def app(*views: str) -> hw.App:
        app = hw.App("shop", shards=2)
        stream = app.stream("orders", SCHEMA, time="at")
        kept = totals(stream)
        if "revenue" in views:
            app.view(key="currency", name="revenue")(lambda: kept)
        app.view(key="currency", name="busy")(lambda: kept.where("orders > 3"))
        return app

    later = changed(tester, app("revenue", "busy"), now := app("busy"))
    assert later.rows("busy") == as_if_new(tester, now, "busy")


def test_what_each_output_becomes_is_told_in_one_line(tester: Tester) -> None:
    def app(*, changed: bool) -> hw.App:
        app = hw.App("shop", shards=2)
        stream = app.stream("orders", SCHEMA, time="at")
        app.view(key="user_id", name="last")(lambda: stream.latest("user_id"))
        app.view(key="currency", name="revenue")(lambda: TAILS["a column added"](stream) if changed else totals(stream))
        if changed:
            app.view(key="user_id", name="users")(lambda: stream.by("user_id").agg("count(*) as orders"))
        else:
            app.topic("copies")(lambda: stream.select("id"))
        return app

    first = tester(app(changed=False))
    first.feed("orders", orders(10))
    first.run()
    assert first.reported == []
    later = tester(app(changed=True))
    later.run()
    assert [line.split(":")[:2] for line in later.reported[:4]] == [
        ["last", " keep"],
        ["revenue", " migrate"],
        ["users", " new"],
        ["copies", " removed"],
    ]
