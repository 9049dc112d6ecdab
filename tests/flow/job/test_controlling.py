"""Flows that are paused, go on and start again while they run."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UnknownFlow
from headwater.flow.commit.job_identity import FILE as IDENTITY
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.control import Control, ask, control_of
from headwater.flow.run.running_app import RunningApp, RunSettings
from tests.flow.job.shop import SCHEMA, order
from tests.waiting import Deadline


def shop() -> App:
    app = hw.App("shop", shards=1)
    orders = app.stream("orders", SCHEMA, time="at")
    app.view(key="currency", name="revenue")(lambda: orders.by("currency").agg("count(*) as orders"))
    return app


@contextmanager
def running(tester: AppTester) -> Iterator[RunningApp]:
    settings = RunSettings(tester.node.data, tester.node.kafka_address)
    one = RunningApp(tester.app, tester.session, settings, report=tester.reported.append)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def looks_until(run: RunningApp, done: Callable[[], bool]) -> bool:
    deadline = Deadline(20)
    while not deadline.passed:
        if not run.wait(0.1) and done():
            return True
    return False


def orders_in(tester: AppTester) -> int:
    try:
        return sum(row["orders"] for row in tester.rows("revenue"))
    except Exception:
        return 0


def test_a_paused_flow_stands_still_also_over_a_restart_and_goes_on_without_loss(
    tester: Callable[[App], AppTester],
) -> None:
    one = tester(shop())
    data = one.node.data
    one.feed("orders", [order(1)])
    with running(one) as run:
        assert looks_until(run, lambda: orders_in(one) == 1)
        assert ask(data, "shop.orders", "pause") == ["shop.orders"]
        assert looks_until(run, lambda: not run.loops)
        one.feed("orders", [order(2)])
        for _ in range(5):
            assert not run.wait(0.1), "a flow that is paused has not ended"
        assert orders_in(one) == 1
    with running(one) as run:
        assert not run.wait(0.2)
        assert not run.loops, "it is still paused"
        assert "headwater flow resume shop.orders" in one.reported[-1]
        ask(data, "shop", "resume")
        assert looks_until(run, lambda: orders_in(one) == 2)
        before = run.loops["orders"]
        ask(data, "shop.orders", "restart")
        one.feed("orders", [order(3)])
        assert looks_until(run, lambda: orders_in(one) == 3)
        # The loop from before may have taken the last row, and be just ending.
        assert looks_until(run, lambda: run.loops.get("orders", before) is not before)
    assert one.prove("revenue").different == 0


def test_a_paused_flow_that_is_run_once_takes_all_there_is(tester: Callable[[App], AppTester]) -> None:
    one = tester(shop())
    one.feed("orders", [order(1)])
    one.run()
    ask(one.node.data, "shop.orders", "pause")
    one.feed("orders", [order(2)])
    one.run()
    assert orders_in(one) == 2


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "flows" / "shop" / "orders"
    folder.mkdir(parents=True)
    (folder / IDENTITY).write_text("{}")
    return folder


def test_what_is_asked_is_written_down(tmp_path: Path, job: Path) -> None:
    ask(tmp_path, "shop.orders", "pause")
    assert control_of(job) == Control(paused=True)
    ask(tmp_path, "shop", "restart")
    assert control_of(job) == Control(paused=False, restarts=1)
    ask(tmp_path, "shop", "resume")
    assert control_of(job) == Control(paused=False, restarts=1)


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"paused": True}), json.dumps({"restarts": "x"})])
def test_a_file_that_cannot_be_read_asks_for_nothing(job: Path, content: str) -> None:
    (job / "control.json").write_text(content)
    assert control_of(job) == Control()


def test_a_flow_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, job: Path) -> None:
    with pytest.raises(UnknownFlow, match=r"There are: shop\.orders"):
        ask(tmp_path, "shop.order", "pause")


def test_many_who_ask_at_once_all_count(tmp_path: Path, job: Path) -> None:
    threads = [threading.Thread(target=ask, args=[tmp_path, "shop", "pause"]) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert control_of(job).paused
