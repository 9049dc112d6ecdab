"""Each sink that an app can declare is the one that its rows go to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.flow.commit.outputs import made_sink
from headwater.flow.declare.sinks import SinkDeclaration
from headwater.flow.declare.topology.graph import plan
from headwater.flow.run.app_tester import AppTester
from headwater.flow.sinks.redis_cache import RedisSink
from headwater.flow.sinks.search import SearchSink
from headwater.flow.sinks.webhook import WebhookSink


def sinks_of(app: hw.App, data: Path) -> dict[str, Any]:
    (job,) = plan(app)
    return {one.name: made_sink(app.name, one.output, data) for one in job.outputs}


def shop(sink: SinkDeclaration) -> hw.App:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, title string")
    app.sink(sink, key="id", name="copy")(lambda: orders.latest("id"))
    return app


def test_a_cache_is_made_with_its_prefix_and_time(tmp_path: Path) -> None:
    sink = sinks_of(shop(hw.sinks.Redis("redis://127.0.0.1:1/0", prefix="order:", expire="1 hour")), tmp_path)["copy"]
    assert isinstance(sink, RedisSink)
    assert (sink._prefix, sink._expire_ms, sink.exactly_once) == ("order:", 3_600_000, True)
    sink.close()


def test_a_webhook_is_made_with_its_limits(tmp_path: Path) -> None:
    sink = sinks_of(shop(hw.sinks.Webhook("https://hooks.example/", secret="s3cret", rows_max=7)), tmp_path)["copy"]
    assert isinstance(sink, WebhookSink)
    assert (sink._secret, sink._rows_max, sink._sender.allow_private) == ("s3cret", 7, False)
    assert "s3cret" not in repr(hw.sinks.Webhook("https://hooks.example/", secret="s3cret"))


def test_a_webhook_that_cannot_be_posted_to_is_refused_before_a_row_is_worked_out(tmp_path: Path) -> None:
    with pytest.raises(hw.HeadwaterError, match="URL"):
        sinks_of(shop(hw.sinks.Webhook("hooks.example")), tmp_path)


def test_words_of_a_view_go_to_an_index_beside_the_log(tmp_path: Path) -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, title string")
    app.view(key="id", name="all_orders", search="title")(lambda: orders.latest("id"))
    sinks = sinks_of(app, tmp_path)
    sink = sinks["all_orders.search"]
    assert isinstance(sink, SearchSink)
    assert (sink._folder, sink._columns) == (tmp_path / "search" / "shop" / "all_orders", ("title",))
    for one in sinks.values():
        one.close()


@pytest.mark.on_spark
def test_a_table_that_was_not_kept_for_some_batches_is_refused(
    tester: Callable[[hw.App], AppTester], tmp_path: Path
) -> None:
    """It would go on without the changes that were in them, and nobody would know."""
    table = hw.sinks.Database(f"sqlite:///{tmp_path}/copy.db", "orders")
    for number, app in enumerate([shop(table), without_copy(), shop(table)]):
        job = tester(app)
        job.feed("orders", [{"id": number, "title": f"order {number}"}])
        if number < 2:
            job.run()
    with pytest.raises(hw.HeadwaterError, match="ends at batch 0, and the next one is 2: it has lost what was between"):
        job.run()


def without_copy() -> hw.App:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, title string")
    app.view(key="id", name="others")(lambda: orders.latest("id"))
    return app
