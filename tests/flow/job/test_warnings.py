"""What works, and probably not as it was meant, is emitted."""

from collections.abc import Callable

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.health import read_health

Tester = Callable[[App], AppTester]


def shop(topic: str, schema: str = "id long, title string") -> App:
    app = hw.App("shop", shards=1)
    orders = app.stream(topic, schema)
    app.topic("large-orders")(lambda: orders)
    copies = app.stream("large-orders", "id long")
    app.view(key="id", name="copies")(lambda: copies.latest("id"))
    return app


def test_a_misspelt_topic_that_is_made_on_the_fly_is_told_with_the_name_that_was_meant(tester: Tester) -> None:
    one = tester(shop("ordres"))
    one.feed("orders", [{"id": 1}])
    one.run()
    (warning,) = [line for line in one.reported if line.startswith("warning")]
    assert "topic ordres did not exist and was made, empty." in warning
    assert warning.endswith("did you mean orders?")
    assert "large-orders" not in warning, "what the app writes itself is meant"
    assert one.run() == []
    assert len([line for line in one.reported if line.startswith("warning")]) == 1


def test_a_topic_of_which_every_record_is_poisoned_is_told_with_the_first_reason(tester: Tester) -> None:
    one = tester(shop("orders", "id long, title int"))
    one.feed("orders", [{"id": 1, "title": "lamp"}, {"id": 2, "title": "chair"}])
    one.run()
    (warning,) = [line for line in one.reported if line.startswith("warning")]
    assert "no record of orders could be used so far: all are poisoned" in warning
    assert "title" in warning.rpartition("The first:")[2]
    health = read_health(one.node.data / "flows" / "shop" / "orders")
    assert health is not None
    assert [warned.kind for warned in health.warnings] == ["poisoned"]
    one.feed("orders", [{"id": 3, "title": 7}, {"id": 4, "title": "table"}])
    one.run()
    assert len([line for line in one.reported if line.startswith("warning")]) == 1, (
        "one record that can be used is enough"
    )
