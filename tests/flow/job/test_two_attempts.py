"""Two attempts of every task at the same time, as speculative execution has them, and tasks that fail when all their
work is done: each row is in every output once, and what the other attempt left is removed.

Spark does not speculate on one machine: its scheduler is off in local mode, and never runs two attempts of a task on
one host. So each task is run twice at once in its place: with the same input, through the real classes, on threads that
start together. One of the two answers for the task; Spark, or the session without it, never hears of the other.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.commit import stage_task
from headwater.flow.exchange.blocks import Task
from headwater.flow.local.frames import LocalFrame
from headwater.flow.run.app_tester import AppTester
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.job_state import VERSIONS_KEPT
from headwater.flow.state.store import read_manifest, versions_of
from headwater.testing import running_node

USERS, ROWS = 7, 60

Tester = Callable[[hw.App], AppTester]


@dataclass(frozen=True)
class TwoAttempts:
    """Runs a task twice at the same time; the later result counts for odd partitions."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = list(batches)
        together, results = threading.Barrier(2), list[list[pa.RecordBatch]]()
        failures: list[BaseException] = []

        def attempt() -> None:
            together.wait()
            try:
                results.append(list(self.task(iter(given))))
            except BaseException as error:
                failures.append(error)

        # Each with the context of the task: it says which partition this is.
        threads = [threading.Thread(target=copy_context().run, args=[attempt]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        yield from results[len(given) % 2]


@dataclass(frozen=True)
class FirstAttemptFails:
    """Raises at the first attempt of a task, when it has done everything."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = list(self.task(batches))
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails after its work")
        yield from results


# Workers of Spark do not have the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def shop(folder: Path) -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", "id long, user string, amount long, at timestamp", time="at", lateness="2 days")
    users = app.table("users", "user string, town string", key="user")

    @app.view(key="user")
    def spent() -> Any:
        return orders.by("user").agg("count(*) as orders", "sum(amount) as amount")

    @app.view(key="window")
    def hourly() -> Any:
        return orders.window(hw.tumbling("1 hour")).count()

    @app.topic("copied", key="id")
    def copied() -> Any:
        return orders.select("id", "user")

    @app.topic("towns", key="id")
    def towns() -> Any:
        return orders.join(users, on="user", how="left").select("id", "town")

    app.sink(hw.sinks.Parquet(str(folder)), name="files")(lambda: orders.select("id", "amount"))
    return app


def order(number: int) -> dict[str, Any]:
    return {
        "id": number, "user": f"u{number % USERS}", "amount": number,
        "at": f"2026-01-01T{number % 24:02d}:00:00Z",
    }  # fmt: skip


def feed(tester: AppTester, first: int) -> None:
    for partition in (0, 1):
        rows: list[Any] = [order(number) for number in range(first + partition, first + ROWS, 2)]
        tester.feed("orders", [*rows, b"broken"], partition=partition)


def run_all(tester: AppTester) -> None:
    tester.node.log.create_topic("orders", partitions=2)
    tester.feed_rows("users", [{"user": f"u{number}", "town": f"t{number}"} for number in range(USERS)])
    for first in (0, ROWS):
        feed(tester, first)
        tester.run()


def run_on(tester: AppTester) -> None:
    """The next batch removes what was staged and not published; state that no version names goes with the versions that
    are older than it."""
    for batch in range(2, 3 + VERSIONS_KEPT):
        feed(tester, batch * ROWS)
        tester.run()


def check(tester: AppTester, folder: Path) -> None:
    numbers = range(2 * ROWS)
    ids = Counter(numbers)
    assert Counter(row["id"] for row in tester.values("copied")) == ids
    assert Counter(row["id"] for row in tester.values("towns")) == ids
    assert all(row["town"] == f"t{row['id'] % USERS}" for row in tester.values("towns"))
    files = ds.dataset(folder, format="parquet", ignore_prefixes=["_"]).to_table()
    assert Counter(files["id"].to_pylist()) == ids
    wanted = Counter(number % USERS for number in numbers)
    assert {row["user"]: row["orders"] for row in tester.rows("spent")} == {
        f"u{n}": count for n, count in wanted.items()
    }
    assert sum(row["count"] for row in tester.rows("hourly")) == 2 * ROWS
    assert len(tester.values("shop.orders.poisoned")) == 4, "two in each batch, each of them once"
    account = tester.account("copied")
    assert (account.rows_in, account.poisoned, account.balanced) == (2 * ROWS + 4, 4, True)


def leftovers(tester: AppTester, folder: Path) -> list[str]:
    """Files that nothing refers to: state of other attempts, what was staged, what was read."""
    flows = tester.node.data / "flows" / "shop"
    staged = list((folder / "_headwater").rglob("*.staged"))
    staged += [path for path in flows.rglob("*") if path.suffix in (".rows", ".records", ".new")]
    staged += [path for path in flows.rglob("stage/*.json") if path.name not in ("wish.json", "plan.json")]
    return sorted(str(path.relative_to(tester.node.data.parent)) for path in staged) + unknown_runs(flows)


def unknown_runs(flows: Path) -> list[str]:
    unknown = []
    for runs in flows.rglob("runs"):
        files = DiskFiles.at(str(runs.parent))
        known = {name for version in versions_of(files) for name in read_manifest(files, version).run_names()}
        unknown += [str(path) for path in runs.iterdir() if f"runs/{path.name}" not in known]
    return unknown


@pytest.fixture(autouse=True)
def no_task_has_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_task, "FEW_ROWS", 0)


def doubled(monkeypatch: pytest.MonkeyPatch, frame: type, wrapped: Callable[[Task], Task]) -> None:
    plain: Callable[..., Any] = frame.mapInArrow  # type: ignore[attr-defined]

    def mapped(self: Any, task: Task, *others: Any, **named: Any) -> Any:
        return plain(self, wrapped(task), *others, **named)

    monkeypatch.setattr(frame, "mapInArrow", mapped)


def test_two_attempts_of_every_task_give_each_row_once_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> SparkSession:
        raise AssertionError("Spark was started")

    doubled(monkeypatch, LocalFrame, TwoAttempts)
    with running_node(tmp_path / "data") as node:
        tester = AppTester(shop(tmp_path / "files"), node, refuse)
        run_all(tester)
        check(tester, tmp_path / "files")
        monkeypatch.undo()
        run_on(tester)
        assert leftovers(tester, tmp_path / "files") == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("wrapped", [TwoAttempts, FirstAttemptFails])
def test_so_do_tasks_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: Callable[[Task], Task]
) -> None:
    doubled(monkeypatch, type(spark.range(1)), wrapped)
    with running_node(tmp_path / "data") as node:
        tester = AppTester(shop(tmp_path / "files"), node, spark)
        run_all(tester)
        check(tester, tmp_path / "files")
        monkeypatch.undo()
        run_on(tester)
        assert leftovers(tester, tmp_path / "files") == []
