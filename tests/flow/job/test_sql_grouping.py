"""SQL text with GROUP BY keeps the same state as by(...).agg(...), from batch to batch."""

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.deploy.inventory import chosen
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.shop import SCHEMA, orders, revenue_of

pytestmark = pytest.mark.on_spark

Tester = Callable[[hw.App], AppTester]

QUERY = """
    select currency, count(*) as orders, sum(amount) as revenue  -- of all that count
    from orders where amount >= 10 group by currency
"""


def app_of(text: str, key: str = "currency") -> hw.App:
    app = hw.App("shop", shards=2)
    app.stream("orders", SCHEMA, time="at")
    app.view(key=key, name="revenue")(lambda: app.sql(text))
    return app


def test_groups_go_on_over_batches_and_runs_and_can_be_proved(tester: Tester) -> None:
    first, rows = tester(app_of(QUERY)), orders(90)
    first.feed("orders", rows[:60])
    first.run(rows_per_batch=25)
    first.feed("orders", rows[60:])
    first.run()
    found = {row["currency"]: (row["orders"], row["revenue"]) for row in first.rows("revenue")}
    assert found == revenue_of(rows)
    assert first.prove("revenue").different == 0
    account = first.account("revenue")
    assert (account.rows_in, account.filtered) == (90, sum(row["amount"] < 10 for row in rows))


def test_it_may_group_by_what_it_computes_and_rows_may_be_chosen_behind_it(tester: Tester) -> None:
    app = hw.App("shop", shards=2)
    app.stream("orders", SCHEMA, time="at")

    @app.view(key=["hour", "currency"])
    def busy() -> Any:
        text = "select hour(at) as hour, currency, max_by(id, amount) best, count(*) n from orders group by 1, currency"
        return app.sql(text).where("n > 2")

    shop_tester, rows = tester(app), orders(120)
    shop_tester.feed("orders", rows)
    shop_tester.run(rows_per_batch=50)
    found = shop_tester.rows("busy")
    assert {row["hour"] for row in found} == {0, 1}
    assert sum(row["n"] for row in found) == len(rows)
    assert shop_tester.prove("busy").different == 0


def test_groups_are_chosen_by_names_of_select_and_computed_of_aggregates(tester: Tester) -> None:
    app = hw.App("shop", shards=2)
    app.stream("orders", SCHEMA, time="at")

    @app.view(key="currency")
    def means() -> Any:
        text = "select currency, sum(amount) / count(*) as mean, count(*) n from orders group by currency having n > 25"
        return app.sql(text)

    @app.view(key=[])
    def total() -> Any:
        return app.sql("select count(*) n from orders")

    shop_tester, rows = tester(app), orders(120)
    shop_tester.feed("orders", rows)
    shop_tester.run(rows_per_batch=50)
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(row["currency"], []).append(row["amount"])
    found = {row["currency"]: row["n"] for row in shop_tester.rows("means")}
    assert found == {currency: len(amounts) for currency, amounts in groups.items() if len(amounts) > 25}
    assert [row["n"] for row in shop_tester.rows("total")] == [120]
    assert [shop_tester.prove(name).different for name in ("means", "total")] == [0, 0]


def test_it_keeps_the_same_state_as_by_and_agg(tester: Tester) -> None:
    other = hw.App("other", shards=2)
    stream = other.stream("orders", SCHEMA, time="at")
    other.view(key="currency", name="revenue")(
        lambda: stream.where("amount >= 10").by("currency").agg("count(*) as orders", "sum(amount) as revenue")
    )
    first, second = tester(app_of(QUERY)), tester(other)
    first.feed("orders", orders(40))
    first.run()
    second.run()
    kept = [operator.newest() for operator in chosen(first.node.data, "")[1]]
    assert [one and (one.fingerprint, one.columns, one.keys) for one in kept[:1]] == [
        one and (one.fingerprint, one.columns, one.keys) for one in kept[1:]
    ]
    assert second.rows("revenue") == first.rows("revenue")


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("select currency, mode(id) n from orders group by currency", "mode cannot be kept"),
        ("select currency, amount, count(*) n from orders group by currency", "amount is neither grouped by nor agg"),
        (
            "select o.currency, count(*) n from orders o join orders p group by currency",
            "currency may be that of o and p",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(tester: Tester, text: str, sentence: str) -> None:
    app = app_of(text)
    with pytest.raises(InvalidDeclaration, match=sentence) as refused:
        tester(app).run()
    assert "test_sql_grouping.py" in str(refused.value)
