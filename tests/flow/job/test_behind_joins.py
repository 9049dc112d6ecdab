"""Windows, first rows and joins behind joins that hold rows back."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SESSIONS = "session string, query string, results array<string>, at timestamp"


def at(minute: float) -> str:
    return (BEGIN + timedelta(minutes=minute)).isoformat()


def minutes(moment: datetime) -> int:
    return (moment - BEGIN) // timedelta(minutes=1)


def search(session: str, minute: float) -> dict[str, Any]:
    return {"session": session, "query": "q", "results": [], "at": at(minute)}


def click(session: str, url: str, minute: float) -> dict[str, Any]:
    return {"session": session, "url": url, "at": at(minute)}


def pages(**emission: Any) -> hw.App:
    app = hw.App("pages", shards=2)
    searches = app.stream("searches", SESSIONS, time="at", lateness="10 minutes")
    clicks = app.stream("clicks", "session string, url string, at timestamp", time="at", lateness="10 minutes")

    @app.view(key=["url", "window"], **emission)
    def click_through() -> Any:
        """As the design has it."""
        return (
            searches.join(clicks, on="session", within="1 hour", how="left")
            .window(hw.tumbling("5 minutes"))
            .by("url")
            .agg(f.count("*").alias("shown"), f.count("clicks.at").alias("clicked"))
        )

    return app


def shown(app: AppTester) -> list[tuple[Any, ...]]:
    rows = [
        (row["url"], minutes(row["window_start"]), row["shown"], row["clicked"]) for row in app.rows("click_through")
    ]
    return sorted(rows, key=str)


def test_windows_behind_an_outer_join_hold_also_who_stayed_alone_and_end_when_nobody_can_come(tester: Tester) -> None:
    app = tester(pages(emit="final"))
    app.feed("searches", [search("a", 1), search("b", 2), search("c", 7)], at=at(7))
    app.feed("clicks", [click("a", "/x", 3), click("a", "/x", 30), click("c", "/y", 8)], at=at(8))
    app.run()
    assert shown(app) == []
    for topic, row in (("searches", search("d", 140)), ("clicks", click("e", "/e", 140))):
        app.feed(topic, [row], at=at(140))
    app.run()
    first = [("/x", 0, 2, 2), ("/y", 5, 1, 1), (None, 0, 1, 0)]
    assert shown(app) == first, "time alone has brought them, with no row behind the last ones"
    assert app.prove("click_through").different == 0
    app.feed("clicks", [click("d", "/late", 20)], at=at(141))
    app.run(rebuild=["click_through"])
    assert shown(app) == first
    account = app.account("click_through")
    assert (account.rows_in, account.late, account.balanced) == (9, 1, True)
    for topic, row in (("searches", search("f", 300)), ("clicks", click("d", "/d", 145))):
        app.feed(topic, [row], at=at(300))
    app.feed("clicks", [click("z", "/z", 300)], at=at(300))
    app.run()
    assert shown(app) == sorted([*first, ("/d", 140, 1, 1)], key=str)
    assert app.prove("click_through").different == 0


def test_joins_as_of_a_time_and_with_a_table_stand_one_behind_the_other_before_windows(tester: Tester) -> None:
    declared = hw.App("shop", shards=2)
    orders = declared.stream(
        "orders", "id string, user_id long, amount long, currency string, at timestamp", time="at", lateness="1 minute"
    )
    users = declared.table("users", "id long, name string, country string", key="id")
    rates = declared.table("rates", "currency string, rate double", key="currency", versions="30 days")
    priced = orders.join(rates, on="currency", as_of="at")
    declared.topic("orders-priced")(lambda: priced.join(users, on=orders.user_id == users.id))
    first = priced.dedupe("id", within="1 hour", name="firsts")
    hourly = first.window(hw.tumbling("10 minutes")).by("currency").agg("sum(amount * rate) as worth", emit="final")
    declared.topic("worth")(lambda: hourly)
    sold = priced.window(hw.tumbling("10 minutes")).by("currency").agg("count(*) as n", emit="final", name="sold")
    declared.view(key=["currency", "window"], name="sold")(lambda: sold)
    app = tester(declared)

    def order(name: str, currency: str, minute: float) -> dict[str, Any]:
        return {"id": name, "user_id": 1, "amount": 10, "currency": currency, "at": at(minute)}

    app.feed("users", [{"id": 1, "name": "ann", "country": "CH"}], key="id", at=at(0))
    app.feed("rates", [{"currency": "EUR", "rate": 2.0}], key="currency", at=at(0))
    app.feed("orders", [order("o1", "EUR", 1), order("o1", "EUR", 2), order("o2", "EUR", 9), order("o3", "ABC", 3)],
             at=at(9))  # fmt: skip
    app.feed("orders", [order("o4", "EUR", 40)], at=at(40))
    app.run()
    emitted = sorted((row["id"], row["rate"], row["name"]) for row in app.values("orders-priced"))
    assert emitted == [("o1", 2.0, "ann"), ("o1", 2.0, "ann"), ("o2", 2.0, "ann")]
    worth = [row["after"]["worth"] for row in app.values("worth")]
    assert worth == [40.0]
    assert [(row["currency"], minutes(row["window_start"]), row["n"]) for row in app.rows("sold")] == [("EUR", 0, 3)]
    account = app.account("sold")
    assert (account.rows_in, account.filtered, account.late, account.balanced) == (6, 1, 0, True), "ABC has no rate"
    assert app.account("worth").duplicates == 1
    app.feed("orders", [order("o5", "EUR", 5)], at=at(41))
    app.run()
    late = [row for row in app.values("shop.orders-rates.late") if row["operator"] == "sold"]
    assert [(row["row"]["id"], row["window"]["end"]) for row in late] == [("o5", at(10).replace("+00:00", "Z"))]
    account = app.account("sold")
    assert (account.rows_in, account.late, account.balanced) == (7, 1, True), "priced, and then too late to be counted"
    assert app.prove("sold").different == 0


def test_a_join_of_joined_rows_counts_each_of_them_however_alike_they_are(tester: Tester) -> None:
    declared = hw.App("pages", shards=2)
    searches = declared.stream("searches", "session string, at timestamp", time="at", lateness="10 minutes")
    clicks = declared.stream("clicks", "session string, at timestamp", time="at", lateness="10 minutes")
    pairs: Any = searches.join(clicks, on="session", within="1 hour").select("session", "at")
    both = pairs.join(searches, on="session", between=("-1 hour", "1 hour"), how="left")
    both = both.select("session", "at", "searches.at as other")
    counts = both.window(hw.hopping("10 minutes", "5 minutes")).by("session").agg("count(*) as n", name="counts")
    declared.view(key=["session", "window"], name="counts")(lambda: counts)
    declared.view(key="session", name="last")(lambda: both.latest("session"))
    app = tester(declared)
    app.feed("searches", [{"session": "a", "at": at(1)}], at=at(1))
    app.feed("clicks", [{"session": "a", "at": at(3)}], at=at(3))
    app.run()
    app.feed("clicks", [{"session": "a", "at": at(3)}], at=at(3))
    app.run()
    app.feed("searches", [{"session": "a", "at": at(6)}], at=at(6))
    app.run()
    found = [(minutes(row["window_start"]), row["n"]) for row in app.rows("counts")]
    assert found == [(-5, 4), (0, 4)], "two clicks, of the same content, with each of two searches"
    assert app.prove("counts").different == 0
    assert app.prove("last").different == 0
    assert app.account("counts").balanced


def test_what_cannot_stand_behind_a_join_is_refused_in_a_sentence() -> None:
    app = hw.App("pages")
    searches = app.stream("searches", "session string, at timestamp", time="at")
    clicks = app.stream("clicks", "session string, clicked timestamp", time="clicked")
    rates = app.table("rates", "session string, rate double", key="session", versions="1 day")
    joined: Any = searches.join(clicks, on="session", within="1 hour")
    corrected: Any = searches.join(clicks, on="session", within="1 hour", corrections="1 hour")
    for wrong, why in (
        (lambda: joined.window(hw.count_window(3)), "which makes several of one"),
        (lambda: corrected.window(hw.tumbling("1 hour")), "no method window .* leave that out"),
        (lambda: joined.join(rates, on="session", as_of="clicked"), "is not the time of the stream.* That is: at"),
    ):
        with pytest.raises(InvalidDeclaration, match=why):
            wrong()


def test_columns_of_one_name_are_told_apart_by_the_name_of_the_right(tester: Tester) -> None:
    declared = hw.App("shop", shards=2)
    orders = declared.stream("orders", "id long, buyer string, name string, at timestamp", time="at")
    people = declared.table("people", "buyer string, name string, town string", key="buyer")
    declared.topic("addressed")(lambda: orders.join(people, on="buyer").select("id", "name", "people.name as own"))
    app = tester(declared)
    app.feed("people", [{"buyer": "b", "name": "Ann", "town": "Bern"}], key="buyer", at=at(0))
    app.feed("orders", [{"id": 1, "buyer": "b", "name": "shoe", "at": at(0)}], at=at(0))
    app.run()
    assert app.values("addressed") == [{"id": 1, "name": "shoe", "own": "Ann"}]
