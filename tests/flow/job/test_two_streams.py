"""A topic that an app reads in two ways: as two streams, with schemas, times and broken rows of their own."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import headwater as hw
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.shop import SCHEMA, order, orders

Tester = Callable[[hw.App], AppTester]


def two_ways() -> hw.App:
    app = hw.App("shop", shards=2)
    amounts = app.stream("orders", "currency string, amount decimal(12,2), at timestamp", time="at")
    texts = app.stream("orders", "value string", format="text", name="lines")
    app.view(key="currency", name="revenue")(lambda: amounts.by("currency").agg("sum(amount) as revenue"))
    app.view(key="bytes", name="sizes")(
        lambda: texts.select("length(value) as bytes").by("bytes").agg("count(*) as lines")
    )
    app.topic("all", key="what")(
        lambda: amounts.select("currency as what").union(texts.select("substr(value, 1, 5) as what"))
    )
    return app


@pytest.mark.on_spark
def test_both_see_every_record_and_have_accounts_of_their_own(tester: Tester) -> None:
    shop, rows = tester(two_ways()), orders(40)
    shop.feed("orders", [*rows, b"nonsense", b'{"amount": "much"}'])
    shop.run(rows_per_batch=15)
    sums: dict[str, Decimal] = {}
    for row in rows:
        sums[row["currency"]] = sums.get(row["currency"], Decimal(0)) + row["amount"]
    assert {row["currency"]: row["revenue"] for row in shop.rows("revenue")} == sums
    assert sum(row["lines"] for row in shop.rows("sizes")) == 42
    revenue, sizes, both = (shop.account(name) for name in ("revenue", "sizes", "all"))
    assert (revenue.rows_in, revenue.poisoned, revenue.balanced) == (42, 2, True)
    assert (sizes.rows_in, sizes.poisoned, sizes.balanced) == (42, 0, True)
    assert (both.rows_in, both.poisoned, both.rows_out, both.balanced) == (84, 2, 82, True)
    assert sorted(row["offset"] for row in shop.values("shop.orders.poisoned")) == [40, 41]
    assert [shop.prove(view).different for view in ("revenue", "sizes")] == [0, 0]
    assert shop.node.log.topic("orders").partitions == 1


@pytest.mark.on_spark
def test_the_topic_is_read_once_for_both(tester: Tester) -> None:
    shop = tester(two_ways())
    shop.feed("orders", orders(10))
    shop.run()
    job = shop.node.data / "flows" / "shop" / "orders"
    assert [folder.name for folder in job.parent.iterdir() if folder.is_dir()] == ["orders"], "there is one job"
    record = JobFolder(job).finished(0)
    assert record is not None
    assert record.end == {"orders": {0: 10}}
    assert not list((job / "stage").glob("orders*")), "what was read is tidied up for both"


def test_each_has_a_clock_of_its_own(tester: Tester) -> None:
    """The times of one lie years ahead of those of the other, and make nothing late there."""
    app = hw.App("shop", shards=2)
    made = app.stream("orders", "id string, at timestamp", time="at", lateness="5m")
    sent = app.stream("orders", "id string, sent timestamp", time="sent", lateness="5m", name="sending")
    for name, stream in (("made_once", made), ("sent_once", sent)):
        app.topic(name, key="id")(lambda stream=stream: stream.dedupe("id", within="10m").select("id"))

    def row(number: int, minute: int) -> dict[str, Any]:
        return {"id": f"o{number}", "at": f"2020-01-01T00:{minute:02d}:00Z", "sent": f"2026-01-01T00:{minute:02d}:00Z"}

    shop = tester(app)
    for minute in (0, 2, 4, 1):
        shop.feed("orders", [row(minute, minute), row(minute, minute)])
        shop.run()
    for name in ("made_once", "sent_once"):
        assert sorted(value["id"] for value in shop.values(name)) == ["o0", "o1", "o2", "o4"]
        assert (shop.account(name).late, shop.account(name).duplicates) == (0, 4)


def test_a_second_way_of_reading_can_be_added_to_a_job_that_runs(tester: Tester) -> None:
    def app(*, both: bool) -> hw.App:
        app = hw.App("shop", shards=2)
        stream = app.stream("orders", SCHEMA, time="at")
        app.view(key="user_id", name="last")(lambda: stream.latest("user_id"))
        if both:
            raw = app.stream("orders", "value string", format="text", name="again")
            app.view(key="lines", name="count")(
                lambda: raw.select("'all' as lines").by("lines").agg("count(*) as number")
            )
        return app

    first = tester(app(both=False))
    first.feed("orders", orders(30))
    first.run()
    later = tester(app(both=True))
    later.feed("orders", [order(99)])
    later.run()
    assert later.rows("count") == [{"lines": "all", "number": 31}]
    assert [later.prove(view).different for view in ("last", "count")] == [0, 0]
    again = tester(app(both=False))
    again.feed("orders", [order(100)])
    again.run()
    assert again.prove("last").different == 0
