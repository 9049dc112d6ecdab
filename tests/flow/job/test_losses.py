"""Records that were removed before a job has read them: it stops, or goes on and counts them, as its app says."""

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import FlowError, InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[App], AppTester]


def shop(*, on_loss: str) -> App:
    app = hw.App("shop", shards=1, on_loss=on_loss)
    orders = app.stream("orders", "id long, user string")
    app.view(key="user", name="orders_of")(lambda: orders.by("user").agg("count(*) as orders"))
    app.topic("copies")(lambda: orders.where("id >= 0"))
    return app


def remove_unread(one: AppTester) -> None:
    """Offsets 1 to 39 of a topic of which the job has read offset 0."""
    one.node.log.create_topic("orders", configs={"segment.bytes": "1024", "index.interval.bytes": "300"})
    one.feed("orders", [{"id": 0, "user": "ann"}])
    one.run()
    for number in range(1, 60):
        one.feed("orders", [{"id": number, "user": "bob"}])
    one.node.log.partition("orders", 0).delete_records(40)
    one.node.log.maintain()
    assert min(int(file.stem) for file in (one.node.data / "orders-0").glob("*.log")) > 1, "files are gone too"


def test_an_app_that_accounts_losses_goes_on_and_counts_them(tester: Tester) -> None:
    one = tester(shop(on_loss="account"))
    remove_unread(one)
    assert {account.lost for account in one.run()} == {39}
    assert one.rows("orders_of") == [{"user": "ann", "orders": 1}, {"user": "bob", "orders": 20}]


@pytest.mark.on_spark  # which says of an error that it was a task's
def test_an_app_that_says_nothing_stops_with_the_way_out(tester: Tester) -> None:
    one = tester(shop(on_loss="fail"))
    remove_unread(one)
    with pytest.raises(FlowError, match=r'Rows 1 to 39 were removed.*hw\.App\(\.\.\., on_loss="account"\)'):
        one.run()


def test_another_word_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidDeclaration, match=r'on_loss of app shop is "ignore"\. Say on_loss="fail", or "account"'):
        shop(on_loss="ignore")
