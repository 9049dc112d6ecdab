"""An app whose changed view is built beside the process that runs it: readers always find a whole view, the old one
until the new one takes its place, and no row is lost or counted twice, wherever the one that takes over crashes."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

import headwater as hw
from headwater.errors import JobRefused
from headwater.flow.commit.batch_processor import Processor
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import App
from headwater.flow.deploy import rebuild as rebuilding
from headwater.flow.deploy.deployment import Deployment
from headwater.flow.run import control, handing_over
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.views.tables import SqlStore
from tests.flow.engines import session_of
from tests.flow.job.shop import SCHEMA, order, orders
from tests.waiting import Deadline

Tester = Callable[[App], AppTester]


def shop(least: int) -> App:
    app = hw.App("shop", shards=2)
    stream = app.stream("orders", SCHEMA, time="at")
    app.view(key="currency", name="large")(
        lambda: stream.where(f"amount >= {least}").by("currency").agg("count(*) as orders", "sum(amount) as revenue")
    )
    app.view(key="currency", name="all")(lambda: stream.by("currency").agg("count(*) as orders"))
    return app


@dataclass
class Run:
    """An app that runs on a thread of its own, until it is stopped, fails, or is handed over."""

    tester: AppTester
    rebuild: frozenset[str] = frozenset()
    rows_per_batch: int = 1_000_000
    thread: threading.Thread | None = None
    raised: list[BaseException] = field(default_factory=list)
    ended: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def app(self) -> Iterator[RunningApp]:
        settings = RunSettings(
            self.tester.node.data, self.tester.node.kafka_address, rows_per_batch=self.rows_per_batch
        )
        session, columns = session_of(self.tester._start or self.tester.session)
        with columns():
            run = RunningApp(
                self.tester.app, session, settings, report=self.tester.reported.append, rebuild=self.rebuild
            )
            try:
                yield run
            finally:
                run.stop()

    def begin(self, *, takes_over: bool = False) -> None:
        self.thread = threading.Thread(target=self._work, args=(takes_over,))
        self.thread.start()

    def _work(self, takes_over: bool) -> None:
        try:
            with self.app() as run:
                if takes_over:
                    run.take_over()
                run.start()
                while not self._stop.is_set() and not self.ended:
                    self.ended = run.wait(0.05)
        except BaseException as error:
            self.raised.append(error)

    def stop(self) -> None:
        self._stop.set()
        self.join()

    def join(self) -> None:
        assert self.thread is not None
        self.thread.join()

    @property
    def over(self) -> bool:
        return self.thread is None or not self.thread.is_alive()


def whole(rows: Sequence[dict[str, Any]], least: int) -> dict[str, int]:
    """What `large` has to hold of orders."""
    found: dict[str, int] = {}
    for row in rows:
        if float(row["amount"]) >= least:
            found[row["currency"]] = found.get(row["currency"], 0) + 1
    return found


def held(tester: AppTester, view: str = "large") -> dict[str, int]:
    with suppress(Exception):  # before its first batch there is no view
        return {row["currency"]: row["orders"] for row in tester.rows(view)}
    return {}


def read(tester: AppTester) -> int:
    """How many rows the finished batches of the app's job have read."""
    last = JobFolder(tester.node.data / "flows" / "shop" / "orders").last_finished()
    return sum(offset for parts in last.end.values() for offset in parts.values()) if last else 0


def waits_until(done: Callable[[], bool], *runs: Run) -> None:
    deadline = Deadline(60)
    while not done():
        for run in runs:
            assert not run.raised, run.raised
        assert not deadline.passed
        threading.Event().wait(0.02)


@pytest.fixture
def fed() -> list[dict[str, Any]]:
    return orders(90)


def test_the_old_view_goes_on_until_the_changed_one_takes_its_place(
    tester: Tester, fed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, changed = tester(shop(50)), tester(shop(10))
    old.feed("orders", fed)
    before = Run(old)
    before.begin()
    waits_until(lambda: read(old) == len(fed), before)
    assert held(old) == whole(fed, 50)

    later, built = orders(30, seed=2), list[str]()
    ask = control.ask

    def asks(*arguments: Any) -> list[str]:
        # It is built: the old one still runs, and what comes now is in the old view at once.
        built.append(str(held(old) == whole(fed, 50)))
        old.feed("orders", later)
        waits_until(lambda: read(old) == len(fed) + len(later), before)
        built.append(str(held(old) == whole([*fed, *later], 50)))
        return ask(*arguments)

    monkeypatch.setattr(control, "ask", asks)
    after = Run(changed, frozenset({"large"}), rows_per_batch=20)
    after.begin(takes_over=True)
    try:
        waits_until(lambda: held(changed) == whole([*fed, *later], 10), after, before)
        before.join()
        assert built == ["True", "True"]
        assert before.ended, "it was handed over"
        assert any("is handed over" in said for said in old.reported)
        replayed = [said for said in changed.reported if "records replayed" in said]
        assert "large: 20 of 90 records replayed" in replayed
        assert replayed[-1] == "large: 120 of 120 records replayed", "what came meanwhile is built in the pause"
        assert "large: 20 of 120 records replayed" not in replayed, "what was built ahead is not built again"
        more = [order(1000 + number) for number in range(5)]
        changed.feed("orders", more)
        waits_until(lambda: held(changed) == whole([*fed, *later, *more], 10), after)
    finally:
        after.stop()
    assert not after.raised
    assert changed.prove("large").different == 0
    assert changed.prove("all").different == 0


CRASHES = {
    "while it builds": (Processor, "_publish", 2),
    "before it notes a batch as finished": (Processor, "_clean", 1),
    "when it asks for the jobs": (control, "ask", 1),
    "before it begins in their place": (Deployment, "settle", 1),
    "before the change is noted": (rebuilding, "note_caught_up", 1),
    "before the swap": (SqlStore, "swap", 1),
}


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moment", CRASHES)
def test_one_that_crashes_leaves_the_old_app_whole_and_the_next_one_finishes(
    tester: Tester, fed: list[dict[str, Any]], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, changed = tester(shop(50)), tester(shop(10))
    old.feed("orders", fed)
    before = Run(old)
    before.begin()
    waits_until(lambda: read(old) == len(fed), before)
    assert held(old) == whole(fed, 50)

    where, name, nth = CRASHES[moment]
    inner, calls = getattr(where, name), list[int]()
    first = Run(changed, frozenset({"large"}), rows_per_batch=20)

    def crashes(*arguments: Any, **named: Any) -> Any:
        if threading.current_thread() is first.thread:
            calls.append(1)
            if len(calls) == nth:
                raise Crash(moment)
        return inner(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, crashes)
        first.begin(takes_over=True)
        first.join()
    assert [type(one) for one in first.raised] == [Crash], first.raised
    assert held(old) == whole(fed, 50), "readers find the old view"

    later = orders(30, seed=2)
    old.feed("orders", later)
    if not before.over:  # it was not asked for its jobs yet, and goes on
        waits_until(lambda: held(old) == whole([*fed, *later], 50), before)
    second = Run(changed, frozenset({"large"}), rows_per_batch=20)
    second.begin(takes_over=True)
    try:
        waits_until(lambda: held(changed) == whole([*fed, *later], 10), second)
        before.join()
        assert not before.raised
    finally:
        second.stop()
    assert changed.prove("large").different == 0
    assert changed.prove("all").different == 0


def test_a_change_that_was_not_asked_for_is_refused_while_the_old_app_goes_on(
    tester: Tester, fed: list[dict[str, Any]]
) -> None:
    old = tester(shop(50))
    old.feed("orders", fed)
    before = Run(old)
    before.begin()
    try:
        waits_until(lambda: read(old) == len(fed), before)
        with Run(tester(shop(10))).app() as run, pytest.raises(JobRefused, match="--rebuild large"):
            run.take_over()
        assert not before.over
    finally:
        before.stop()
    assert not before.raised


def test_two_that_would_build_at_once_are_refused(tester: Tester, fed: list[dict[str, Any]]) -> None:
    old = tester(shop(50))
    old.feed("orders", fed)
    before = Run(old)
    before.begin()
    try:
        waits_until(lambda: read(old) == len(fed), before)
        [folder] = handing_over.taken(old.node.data, "shop")
        with (
            rebuilding.built_by_one(folder),
            Run(tester(shop(10)), frozenset({"large"})).app() as run,
            pytest.raises(JobRefused, match="are being rebuilt by process"),
        ):
            run.take_over()
    finally:
        before.stop()


def test_where_no_process_runs_the_app_nothing_is_asked_of_anybody(tester: Tester, fed: list[dict[str, Any]]) -> None:
    one = tester(shop(50))
    one.feed("orders", fed)
    with Run(one).app() as run:
        run.take_over()
        run.start()
        waits_until(lambda: run.wait(0.02) or held(one) == whole(fed, 50))
    assert one.prove("large").different == 0
