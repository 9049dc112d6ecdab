"""Joins with events: near each other in time, with a table as it is, and as of the time of the event."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: float) -> str:
    return (BEGIN + timedelta(minutes=minute)).isoformat()


def pages(**join: Any) -> hw.App:
    app = hw.App("pages", shards=2)
    searches = app.stream("searches", "id long, session string, at timestamp", time="at", lateness="5 minutes")
    clicks = app.stream("clicks", "session string, url string, at timestamp", time="at", lateness="5 minutes")
    joined = searches.join(clicks, on="session", within="1 hour", how="left", prefix="click_", name="clicked", **join)
    if "corrections" in join:
        app.view(key=["left_row", "right_row"], name="clicked")(lambda: joined)
        app.topic("emitted")(lambda: joined)
    else:
        app.topic("emitted")(lambda: joined)
        counts = joined.by("session").agg("count(*) as n", "count(click_url) as c")
        app.view(key="session", name="counted")(lambda: counts)
    return app


def search(number: int, session: str | None, minute: float) -> dict[str, Any]:
    return {"id": number, "session": session, "at": at(minute)}


def click(session: str, url: str, minute: float) -> dict[str, Any]:
    return {"session": session, "url": url, "at": at(minute)}


def pairs(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(((row["id"], row["click_url"]) for row in rows), key=str)


def test_events_meet_within_a_time_and_those_that_meet_none_are_told_when_it_is_over(tester: Tester) -> None:
    app = tester(pages())
    app.feed("searches", [search(1, "a", 0), search(2, "b", 1), search(3, None, 2)], at=at(2))
    app.feed(
        "clicks", [click("a", "/x", 10), click("a", "/y", 60), click("a", "/z", 61), click("c", "/w", 3)], at=at(3)
    )
    app.run()
    assert pairs(app.values("emitted")) == [(1, "/x"), (1, "/y"), (3, None)]
    app.feed("searches", [search(4, "d", 67)], at=at(67))
    app.feed("clicks", [click("b", "/b", 66), click("e", "/e", 67)], at=at(67))
    app.run()
    assert pairs(app.values("emitted")) == [(1, "/x"), (1, "/y"), (2, None), (3, None)]
    app.feed("searches", [search(5, "a", 9)], at=at(68))
    app.run()
    (late,) = app.values("pages.clicks-searches.late")
    assert (late["stream"], late["row"]["id"], late["operator"]) == ("searches", 5, "clicked")
    account = app.account("emitted")
    assert (account.rows_in, account.late, account.balanced) == (11, 1, True)
    assert [(row["session"], row["n"], row["c"]) for row in app.rows("counted")] == [
        (None, 1, 0),
        ("a", 2, 2),
        ("b", 1, 0),
    ]
    assert app.prove("counted").different == 0


def test_a_straggler_within_the_corrections_takes_back_what_was_told_of_an_unmatched_event(tester: Tester) -> None:
    app = tester(pages(corrections="2 hours"))
    app.feed("searches", [search(1, "a", 0), search(2, "b", 90)], at=at(90))
    app.feed("clicks", [click("x", "/x", 90)], at=at(90))
    app.run()
    app.feed("searches", [search(3, "c", 91)], at=at(91))
    app.feed("clicks", [click("y", "/y", 91)], at=at(91))
    app.run()
    assert pairs(app.rows("clicked")) == [(1, None)]
    app.feed("clicks", [click("a", "/late", 30)], at=at(92))
    app.run()
    (row,) = app.rows("clicked")
    assert (row["id"], row["click_url"], row["left_row"], row["right_row"]) == (
        1,
        "/late",
        "searches/0@0",
        "clicks/0@2",
    )
    emitted = [(one["op"], (one["after"] or one["before"])["right_row"]) for one in app.values("emitted") if one]
    assert sorted(emitted, key=str) == [("c", "clicks/0@2"), ("c", None), ("d", None)]
    assert app.prove("clicked").different == 0


def shop(**join: Any) -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", "id long, buyer string, at timestamp", time="at")
    people = app.table("people", "name string, town string", key="name")
    joined = orders.join(people, on=orders.buyer == people.name, name="addressed", **join)
    if "on_change" in join:
        app.view(key="id", name="addressed")(lambda: joined)
    else:
        app.topic("addressed", key="id")(lambda: joined)
    return app


def order(number: int, buyer: str | None, minute: float) -> dict[str, Any]:
    return {"id": number, "buyer": buyer, "at": at(minute)}


def test_an_event_has_the_row_of_the_table_as_it_is_then(tester: Tester) -> None:
    app = tester(shop())
    app.feed("people", [{"name": "ann", "town": "Bern"}], key="name", at=at(0))
    app.feed("orders", [order(1, "ann", 0), order(2, "bob", 0), order(3, None, 0)], at=at(0))
    app.run()
    app.feed("people", [{"name": "ann", "town": "Rome"}, {"name": "bob", "town": "Oslo"}], key="name", at=at(1))
    app.feed("orders", [order(4, "ann", 1)], at=at(1))
    app.run()
    assert [(row["id"], row["buyer"], row["town"]) for row in app.values("addressed")] == [
        (1, "ann", "Bern"), (4, "ann", "Rome"),
    ]  # fmt: skip
    missing = app.values("shop.orders-people.late")
    assert [(row["row"]["id"], row["reason"]) for row in missing] == [
        (2, 'the table has no row for buyer = "bob"'), (3, "the table has no row for buyer = null"),
    ]  # fmt: skip
    account = app.account("addressed")
    assert (account.rows_in, account.rows_out, account.late, account.balanced) == (7, 5, 2, True)


def test_events_find_the_rows_of_earlier_batches_if_a_batch_brings_nothing_for_the_table(tester: Tester) -> None:
    app = tester(shop())
    app.feed("people", [{"name": "ann", "town": "Bern"}, {"name": "cem", "town": "Rome"}], key="name", at=at(0))
    app.feed("orders", [order(1, "ann", 0)], at=at(0))
    app.run()
    app.feed("orders", [order(2, "cem", 1), order(3, "bob", 1), order(4, "ann", 2)], at=at(2))
    app.run()
    emitted = [(row["id"], row["town"]) for row in app.values("addressed")]
    assert emitted == [(1, "Bern"), (2, "Rome"), (4, "Bern")]
    account = app.account("addressed")
    assert (account.rows_in, account.rows_out, account.late, account.balanced) == (6, 5, 1, True)


def test_an_event_may_wait_for_its_row(tester: Tester) -> None:
    app = tester(shop(how="left", wait="10 minutes"))
    app.feed("people", [{"name": "ann", "town": "Bern"}], key="name", at=at(0))
    app.feed("orders", [order(1, "bob", 0), order(2, "cem", 1)], at=at(1))
    app.run()
    assert app.values("addressed") == []
    app.feed("people", [{"name": "bob", "town": "Oslo"}], key="name", at=at(2))
    app.feed("orders", [order(3, "ann", 12)], at=at(12))
    app.run()
    emitted = sorted((row["id"], row["town"]) for row in app.values("addressed"))
    assert emitted == [(1, "Oslo"), (2, None), (3, "Bern")]


def test_results_follow_the_table_if_asked_to(tester: Tester) -> None:
    app = tester(shop(how="left", on_change="update", key="id"))
    app.feed("people", [{"name": "ann", "town": "Bern"}], key="name", at=at(0))
    app.feed("orders", [order(1, "ann", 0), order(2, "bob", 0)], at=at(0))
    app.run()
    app.feed("people", [{"name": "ann", "town": "Rome"}, {"name": "bob", "town": "Oslo"}], key="name", at=at(1))
    app.run()
    assert [(row["id"], row["town"]) for row in app.rows("addressed")] == [(1, "Rome"), (2, "Oslo")]
    assert app.prove("addressed").different == 0


def sales(**join: Any) -> hw.App:
    app = hw.App("sales", shards=2)
    orders = app.stream("orders", "id long, currency string, at timestamp", time="at", lateness="1 minute")
    rates = app.table(
        "rates", "currency string, rate double, since timestamp, until timestamp", key="currency",
        versions="30 days", valid_from="since", valid_to="until",
    )  # fmt: skip
    priced = orders.join(
        rates.select("currency", "rate", "since", "until"), on="currency", as_of="at", how="left", **join
    )
    if "corrections" in join:
        app.view(key="left_row", name="priced")(lambda: priced)
    else:
        app.topic("priced", key="id")(lambda: priced)
        app.view(key="id", name="last_priced")(lambda: priced.latest("id"))
    return app


def rate(currency: str, value: float, since: float, until: float | None = None) -> dict[str, Any]:
    return {"currency": currency, "rate": value, "since": at(since), "until": None if until is None else at(until)}


def sale(number: int, currency: str, minute: float) -> dict[str, Any]:
    return {"id": number, "currency": currency, "at": at(minute)}


def prices(rows: list[dict[str, Any]]) -> list[tuple[int, float | None]]:
    return sorted((row["id"], row["rate"]) for row in rows)


def test_an_event_has_the_version_that_held_at_its_time(tester: Tester) -> None:
    app = tester(sales())
    app.feed(
        "rates", [rate("EUR", 1.0, -60), rate("EUR", 1.5, 10), rate("USD", 2.0, -60, until=5)], key="currency", at=at(0)
    )
    app.feed("orders", [sale(1, "EUR", 0), sale(2, "EUR", 11), sale(3, "USD", 4), sale(4, "USD", 6)], at=at(11))
    app.run()
    assert prices(app.values("priced")) == [(1, 1.0), (3, 2.0), (4, None)], "for the second a rate may still come"
    app.feed("rates", [rate("EUR", 9.0, 40)], key="currency", at=at(40))
    app.feed("orders", [sale(5, "EUR", 20), sale(6, "EUR", 40)], at=at(40))
    app.run()
    app.feed("rates", [rate("EUR", 8.0, 41)], key="currency", at=at(41))
    app.feed("orders", [sale(7, "EUR", 39.5)], at=at(41))
    app.run()
    expected = [(1, 1.0), (2, 1.5), (3, 2.0), (4, None), (5, 1.5)]
    assert prices(app.values("priced"))[:5] == expected
    assert app.prove("last_priced").different == 0
    assert app.account("priced").balanced


def test_a_rate_that_is_corrected_in_the_past_corrects_what_was_told(tester: Tester) -> None:
    app = tester(sales(corrections="1 hour"))
    app.feed("rates", [rate("EUR", 1.0, -60)], key="currency", at=at(0))
    app.feed("orders", [sale(1, "EUR", 0), sale(2, "EUR", 20)], at=at(20))
    app.run()
    app.feed("rates", [rate("USD", 3.0, 25)], key="currency", at=at(30))
    app.feed("orders", [sale(3, "EUR", 30)], at=at(30))
    app.run()
    app.feed("rates", [rate("EUR", 7.0, 10)], key="currency", at=at(31))
    app.feed("orders", [sale(4, "EUR", 31)], at=at(31))
    app.run()
    assert (1, 1.0) in prices(app.rows("priced"))
    assert (2, 7.0) in prices(app.rows("priced"))
    assert app.prove("priced").different == 0


def test_joins_may_stand_one_behind_the_other(tester: Tester) -> None:
    declared = hw.App("sales", shards=2)
    orders = declared.stream("orders", "id long, currency string, buyer string, at timestamp", time="at")
    rates = declared.table("rates", "currency string, rate double", key="currency", versions="30 days")
    people = declared.table("people", "name string, town string", key="name")
    priced = orders.join(rates, on="currency", as_of="at", how="left")
    declared.topic("complete", key="id")(lambda: priced.join(people, on=priced.buyer == people.name, how="left"))
    app = tester(declared)
    app.feed("rates", [{"currency": "EUR", "rate": 1.0}], key="currency", at=at(0))
    app.feed("people", [{"name": "ann", "town": "Bern"}], key="name", at=at(0))
    app.feed("orders", [{**sale(1, "EUR", 1), "buyer": "ann"}, {**sale(2, "USD", 2), "buyer": "bob"}], at=at(2))
    app.run()
    app.feed("orders", [{**sale(3, "EUR", 9), "buyer": "ann"}], at=at(9))
    app.run()
    emitted = [(row["id"], row["rate"], row["town"]) for row in app.values("complete")]
    assert emitted == [(1, 1.0, "Bern"), (2, None, None)]
    assert app.account("complete").balanced


def test_a_join_is_built_anew_from_the_log_and_goes_on_from_there(tester: Tester) -> None:
    declared = hw.App("pages", shards=2)
    left = declared.stream("searches", "id long, session string, at timestamp", time="at")
    right = declared.stream("clicks", "session string, url string, at timestamp", time="at")
    joined = left.join(right, on="session", within="1 hour", how="left", prefix="click_", corrections="1 hour")
    declared.view(key=["left_row", "right_row"], name="clicked")(lambda: joined)
    app = tester(declared)
    app.feed("searches", [search(1, "a", 0), search(2, "b", 80)], at=at(80))
    app.feed("clicks", [click("b", "/b", 80), click("c", "/c", 81)], at=at(81))
    app.run()
    before = app.rows("clicked")
    app.run(rebuild=["clicked"])
    assert app.rows("clicked") == before
    app.feed("clicks", [click("b", "/again", 90)], at=at(90))
    app.run()
    assert pairs(app.rows("clicked")) == [(1, None), (2, "/again"), (2, "/b")]
    assert app.prove("clicked").different == 0


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, buyer string, at timestamp", time="at")
    visits = app.stream("visits", "buyer string, at timestamp", time="at")
    people = app.table("people", "buyer string, town string", key="buyer")
    for wrong, why in (
        (lambda: orders.join(visits, on="buyer"), "does not say how near in time"),
        (lambda: orders.join(people, on="buyer", within="1 hour"), "its right is a table"),
        (lambda: orders.join(people, on="buyer", how="full"), "cannot be 'full'"),
        (lambda: orders.join(people, on="buyer", as_of="at"), "keeps no versions"),
        (lambda: orders.join(people, on="buyer", as_of="when"), "is not the time of the stream"),
        (lambda: orders.join(people, on="buyer", on_change="update"), "does not say which row"),
        (lambda: orders.join(visits, on="buyer", between=("1 hour", "0s")), "the first is later"),
        (lambda: orders.join(visits, on=orders.buyer == orders.id, within="1 hour"), "is not of the other"),
        (lambda: orders.joined(visits), "has no method joined"),
    ):
        with pytest.raises(InvalidDeclaration, match=why):
            wrong()
