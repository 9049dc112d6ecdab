"""State that ends: keys that have had no row for a time are removed, counted, and start again (`keep=`)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import engine
from tests.flow.job.steps import Step, run_steps

Tester = Callable[[hw.App], AppTester]
ORDERS = "user string, amount long, at timestamp"


def order(user: str, amount: int, at: str) -> dict[str, object]:
    return {"user": user, "amount": amount, "at": at}


def spending() -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", ORDERS, time="at")

    spent = orders.by("user").agg("count(*) as orders", "sum(amount) as spent", keep="16 days", name="spending")
    newest = orders.latest("user", keep="16 days", name="newest-order")
    app.view(key="user", name="spent")(lambda: spent)
    app.view(key="user", name="newest")(lambda: newest)
    app.view(key="orders", name="users")(lambda: spent.by("orders").agg("count(*) as users", name="users"))
    return app


def test_a_key_that_has_had_no_row_for_the_time_is_removed_and_starts_again(tester: Tester) -> None:
    shop = tester(spending())
    shop.feed("orders", [order("ann", 5, "2026-03-01T00:00:00Z"), order("bob", 7, "2026-03-10T00:00:00Z")])
    shop.run()
    assert shop.rows("spent") == [{"user": "ann", "orders": 1, "spent": 5}, {"user": "bob", "orders": 1, "spent": 7}]
    assert [row["amount"] for row in shop.rows("newest")] == [5, 7]
    assert shop.rows("users") == [{"orders": 1, "users": 2}]
    shop.feed("orders", [order("bob", 2, "2026-03-20T00:00:00Z")])
    shop.run()
    assert shop.rows("spent") == [{"user": "bob", "orders": 2, "spent": 9}], "it is 19 days after ann's last order"
    assert [row["amount"] for row in shop.rows("newest")] == [2]
    assert shop.rows("users") == [{"orders": 2, "users": 1}]
    shop.feed("orders", [order("ann", 1, "2026-03-21T00:00:00Z")])
    shop.run()
    assert shop.rows("spent")[0] == {"user": "ann", "orders": 1, "spent": 1}
    assert [shop.account(name).expired for name in ("spent", "newest", "users")] == [1, 1, 1]


@pytest.mark.parametrize(
    "declare, sentence",
    [
        (lambda app, orders: orders.agg("count(*) as n").by("n").agg("count(*) as m", keep="1 day"), "is of a table"),
        (lambda app, orders: orders.latest("user").changes().by("op").agg("count(*) as n", keep="1 day"), "changes()"),
        (lambda app, orders: app.stream("b", ORDERS).by("user").agg("count(*) as n", keep="1 day"), "event time"),
        (lambda app, orders: orders.by("user").agg("count(*) as n", keep="0 days"), "keep"),
        (lambda app, orders: orders.by("user").agg("count(*) as n", keep="a while"), "is not a duration"),
    ],
)
def test_what_no_event_time_ends_is_refused(declare: Callable[[hw.App, object], object], sentence: str) -> None:
    app = hw.App("shop")
    with pytest.raises(InvalidDeclaration, match=sentence.replace("(", "\\(").replace(")", "\\)")):
        declare(app, app.stream("orders", ORDERS, time="at"))


DAY = 86_400
drawn = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-9, 9), st.integers(0, 9 * DAY), st.integers(0, 2 * DAY)), max_size=9
)
cuts = st.lists(st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 2)), max_size=4)


def in_disorder(partition: list[tuple[str, int, int, int]]) -> list[dict[str, object]]:
    """Each is so far ahead of the newest before it, or so far behind it."""
    newest, found = datetime(2026, 3, 1, tzinfo=UTC), []
    for user, amount, ahead, behind in [("a", 1, 0, 0), *partition]:
        newest += timedelta(seconds=ahead)
        found.append(order(user, amount, (newest - timedelta(seconds=behind)).isoformat()))
    return found


@pytest.mark.slow
@settings(max_examples=2, phases=[Phase.explicit, Phase.generate])  # a smaller example would take minutes
@given(contents=st.tuples(drawn, drawn), wanted=cuts)
def test_any_disorder_cut_and_repetition_is_what_one_batch_query_gives(
    contents: tuple[list[Any], list[Any]], wanted: list[tuple[tuple[int, int], int]]
) -> None:
    with TemporaryDirectory() as folder, running_node(Path(folder)) as node:
        shop = AppTester(spending(), node, engine())
        node.log.create_topic("orders", partitions=2)
        partitions = [in_disorder(rows) for rows in contents]
        for number, rows in enumerate(partitions):
            shop.feed("orders", rows, partition=number, at="2026-03-01T00:00:00Z")
        left = [len(rows) - 1 for rows in partitions]
        steps = [Step((1, 1), 1)]
        for sizes, again in wanted:
            taken = tuple(min(size, rest) for size, rest in zip(sizes, left, strict=True))
            left = [rest - size for rest, size in zip(left, taken, strict=True)]
            steps.append(Step(taken, again))
        run_steps(shop, [*steps, Step(tuple(left), 1), Step((0, 0), 2)])
        assert [shop.prove(name).different for name in ("spent", "newest", "users")] == [0, 0, 0]
        assert all(shop.account(name).balanced for name in ("spent", "newest", "users"))


def test_a_join_with_a_table_whose_keys_end_no_longer_finds_them(tester: Tester) -> None:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", ORDERS, time="at")
    known = orders.latest("user", keep="16 days", name="newest")
    clicks = app.stream("clicks", "user string, url string", idle=None)
    app.topic("clicked")(lambda: clicks.join(known, on="user", how="left"))
    shop = tester(app)
    shop.feed("orders", [order("ann", 5, "2026-03-01T00:00:00Z")])
    shop.feed("clicks", [{"user": "ann", "url": "/"}])
    shop.run()
    shop.feed("orders", [order("bob", 7, "2026-03-30T00:00:00Z")])
    shop.run()
    shop.feed("clicks", [{"user": "ann", "url": "/a"}])
    shop.run()
    assert [row["amount"] for row in shop.values("clicked")] == [5, None]


def test_a_row_that_is_late_is_reported_and_no_key_starts_again(tester: Tester) -> None:
    shop = tester(spending())
    shop.feed("orders", [order("ann", 5, "2026-03-20T00:00:00Z")])
    shop.run()
    shop.feed("orders", [order("ann", 1, "2026-03-19T06:00:00Z"), order("bob", 1, "2026-03-18T06:00:00Z")])
    shop.run()
    assert shop.rows("spent") == [{"user": "ann", "orders": 2, "spent": 6}], "a day of 16 is allowed"
    account = shop.account("spent")
    assert (account.balanced, account.late) == (True, 1)
    late = [row for row in shop.values("shop.orders.late") if row["operator"] == "spending"]
    assert [(row["offset"], row["reason"]) for row in late] == [
        (2, "its time lies 151,200.000 s behind the watermark"),
    ]  # fmt: skip
