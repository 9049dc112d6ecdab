"""Views that were renamed or dropped at rest, and the run that follows: no row is lost, none is counted twice."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.cli.main import main
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node

pytestmark = pytest.mark.timeout(300)


def shop(view: str) -> hw.App:
    app = hw.App("shop", shards=1)
    orders = app.stream("orders", "id long, customer string, amount long")
    app.view(key="customer", name=view)(
        lambda: orders.by("customer").agg("sum(amount) as amount", "count(*) as orders")
    )
    app.view(key="id", name="latest")(lambda: orders.latest("id"))
    return app


def orders(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": first + n, "customer": "ab"[n % 2], "amount": 1 + n} for n in range(count)]


@pytest.mark.parametrize(
    "words, after",
    [
        (["rename", "spent", "income"], "income"),
        (["drop", "spent", "--force"], "spent"),
        (["drop", "latest", "--force"], "spent"),
    ],
    ids=["renamed", "dropped", "another dropped"],
)
def test_the_next_run_goes_on_with_the_view_or_builds_it_again(
    spark: SparkSession, tmp_path: Path, words: list[str], after: str
) -> None:
    with running_node(tmp_path) as node:
        tester = AppTester(shop("spent"), node, spark)
        tester.feed("orders", orders(0, 6))
        tester.run()
        assert main(["view", *words, "--data", str(node.data)]) == 0
        again = AppTester(shop(after), node, spark)
        again.feed("orders", orders(6, 4))
        again.run()
        rows = sorted((row["customer"], row["amount"], row["orders"]) for row in again.rows(after))
        assert rows == [("a", 1 + 3 + 5 + 1 + 3, 5), ("b", 2 + 4 + 6 + 2 + 4, 5)]
        assert len(again.rows("latest")) == 10
        assert [again.prove(view).different for view in (after, "latest")] == [0, 0]
        assert main(["view", "get", f"shop.{after}", "a", "--data", str(node.data)]) == 0
