"""The history of a table as a job keeps it: one row for each version, against what Spark says of the whole log."""

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]


def registry() -> hw.App:
    app = hw.App("registry", shards=2)
    people = app.table("people", "name string, town string", key="name", version_id="record")
    prices = app.table("prices", "item string, price double, since timestamp, until timestamp", key="item",
                       valid_from="since", valid_to="until", versions="30 days")  # fmt: skip
    visits = app.stream("visits", "name string, page string, at timestamp", time="at")
    app.view(key=["name", "valid_from"], name="towns")(lambda: people.history())
    app.view(key=["item", "since"], name="past_prices")(
        lambda: prices.with_columns(double="price * 2").history(valid_from="since", valid_to="until")
    )
    app.view(key=["name", "valid_from"], name="pages")(lambda: visits.latest("name").history())
    return app


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}+00:00"


def rows(app: AppTester, view: str, *names: str) -> list[tuple[Any, ...]]:
    def shown(value: Any) -> Any:
        return value.second if hasattr(value, "second") else value

    return [tuple(shown(row[name]) for name in names) for row in app.rows(view)]


@pytest.mark.on_spark
def test_every_version_of_a_row_is_a_row_with_when_it_begins_and_ends(tester: Tester) -> None:
    app = tester(registry())
    app.feed("people", [{"name": "ann", "town": "Bern"}, {"name": "bob", "town": "Rome"}], key="name", at=at(1))
    app.feed("people", [{"name": "ann", "town": "Oslo"}], key="name", at=at(5))
    app.feed("prices", [{"item": "tea", "price": 1.5, "since": at(2), "until": at(9)}], key="item", at=at(1))
    app.feed("visits", [{"name": "ann", "page": "/", "at": at(3)}], at=at(3))
    app.run()
    app.node.log.append("people", [hw.Record(None, key=b"bob", timestamp_ms=1_767_225_608_000)])
    app.feed("prices", [{"item": "tea", "price": 2.0, "since": at(4), "until": None}], key="item", at=at(6))
    app.feed("visits", [{"name": "ann", "page": "/late", "at": at(2)}], at=at(4))
    app.run()
    assert rows(app, "towns", "name", "town", "valid_from", "valid_to", "record") == [
        ("ann", "Bern", 1, 5, "people/0@0"),
        ("ann", "Oslo", 5, None, "people/0@2"),
        ("bob", "Rome", 1, 8, "people/0@1"),
    ]
    assert rows(app, "past_prices", "item", "since", "until", "double") == [("tea", 2, 4, 3.0), ("tea", 4, None, 4.0)]
    assert rows(app, "pages", "page", "valid_from", "valid_to") == [("/late", 2, 3), ("/", 3, None)]
    views = ("towns", "past_prices", "pages")
    assert [app.prove(view).different for view in views] == [0, 0, 0]
    assert all(app.account(view).balanced for view in views)


@pytest.mark.on_spark
def test_a_join_as_of_a_time_tells_which_version_it_has_found(tester: Tester) -> None:
    declared = hw.App("sales", shards=2)
    orders = declared.stream("orders", "id long, item string, at timestamp", time="at")
    prices = declared.table("prices", "item string, price double", key="item", versions="1 day", version_id="version")
    declared.view(key="id", name="priced")(lambda: orders.join(prices, on="item", as_of="at", how="left").latest("id"))
    app = tester(declared)
    app.feed("prices", [{"item": "tea", "price": 1.5}], key="item", at=at(1))
    app.feed("prices", [{"item": "tea", "price": 2.0}], key="item", at=at(5))
    app.feed("prices", [{"item": "tea", "price": 9.0}], key="item", at=at(50))
    sold = [(1, "tea", 3), (2, "tea", 6), (3, "cake", 6), (4, "end", 50)]
    app.feed("orders", [{"id": id, "item": item, "at": at(second)} for id, item, second in sold], at=at(50))
    app.run()
    assert rows(app, "priced", "id", "price", "version") == [
        (1, 1.5, "prices/0@0"), (2, 2.0, "prices/0@1"), (3, None, None),
    ]  # fmt: skip
    assert app.prove("priced").different == 0


def test_a_history_without_times_is_refused_in_a_sentence() -> None:
    app = hw.App("registry")
    people = app.table("people", "name string, town string", key="name")
    visits = app.stream("visits", "name string, at timestamp", time="at")
    for wrong, why in (
        (lambda: visits.by("name").count().history(), "whose changes have no time of their own"),
        (lambda: people.where("town <> 'Bern'").history(), "whose changes have no time of their own"),
        (lambda: people.changes().latest("name").history(), "whose changes have no time of their own"),
        (lambda: people.history(valid_from="x", valid_to="x"), "has one name for both columns: x"),
        (lambda: app.table("other", "name string", key="name", version_id="Name"), "column Name of table other"),
    ):
        with pytest.raises(InvalidDeclaration, match=why):
            wrong()
