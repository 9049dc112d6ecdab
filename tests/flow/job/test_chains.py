"""Joins one behind the other on the same columns, done in one task: nobody can tell but by the time it takes."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

import headwater as hw
from headwater.flow.declare.graph import plan
from headwater.flow.deploy.inventory import jobs_in
from headwater.flow.operate.job_operators import Operators
from headwater.flow.operators.joins import splitting
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.resolution import resolve
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.state.inspecting import show
from headwater.testing import running_node
from tests.flow.job.steps import forget_batch

BEGIN = 1_767_225_600
TOPICS = ("one", "two", "three", "four")


def streams() -> hw.App:
    """Events that are near each other and meet a table they wait for; versions of two tables; tables as they are."""
    app = hw.App("web", shards=2)
    searches = app.stream("one", "k string, a long, at timestamp", time="at", lateness="20 seconds", name="searches")
    clicks = app.stream("two", "k string, b long, at2 timestamp", time="at2", lateness="20 seconds", name="clicks")
    orders = app.stream("three", "k string, c double, at3 timestamp", time="at3", lateness="20 seconds", name="orders")
    people = app.table("four", "k string, d long, since timestamp", key="k", versions="1 hour", valid_from="since")
    held = app.table("three", "k string, c double, at3 timestamp", key="k", versions="2 hours", name="held")
    near: Any = searches.join(clicks, on="k", within="15 seconds", how="left", name="near")
    again: Any = near.join(orders, on="k", between=("-20 seconds", "20 seconds"), how="full", name="again")
    known: Any = again.join(people, on="k", wait="10 seconds", name="known")
    priced: Any = searches.join(people, on="k", as_of="at", name="priced")
    twice: Any = priced.join(held, on="k", as_of="at", how="left", name="twice")
    met: Any = clicks.join(people, on="k", name="met")
    app.topic("told")(lambda: known)
    app.topic("versions")(lambda: twice.join(app.table("two", "k string, b long", key="k"), on="k", name="third"))
    app.topic("latest")(
        lambda: met.join(held, on="k", how="left", name="both").join(
            app.table("one", "k string, a long", key="k"), on="k", wait="10 seconds", how="left", name="all"
        )
    )
    return app


def tables() -> hw.App:
    """Three tables by the same column, which is the key of none or of all."""
    app = hw.App("web", shards=2)
    one = app.table("one", "id long, k string, a long", key="id")
    two = app.table("two", "n long, k string, b long", key="n")
    three = app.table("three", "k string, c double", key="k")
    four = app.table("four", "k string, d long", key="k")
    both = one.join(two, on="k", how="full", name="many").select("n", "k", "id", "b")
    many = both.join(three, on="k", how="left", name="priced")
    app.view(key=["id", "n"], name="all")(lambda: many.join(four, on="k", name="all"))
    met = one.join(two, on="k", name="met").join(four, on="k", how="full", name="open")
    app.topic("changes")(lambda: met.join(three, on="k", how="right", name="rest"))
    return app


Rows = dict[str, list[dict[str, Any]]]


class Chain(NamedTuple):
    """An app, its views, the topics that it writes, and the joins that one task does."""

    app: Callable[[], hw.App]
    views: tuple[str, ...]
    told: tuple[str, ...]
    done_at_once: list[list[str]]


STREAMS = Chain(
    streams,
    (),
    ("told", "versions", "latest"),
    [["near", "again", "known"], ["priced", "twice", "third"], ["met", "both", "all"]],
)
TABLES = Chain(tables, ("all",), ("changes",), [["many", "priced", "all"], ["met", "open", "rest"]])


def rows_of(chain: Chain, random: Random) -> Rows:
    """Some rows of each topic, with few keys, some of them null, and times that go back and forth."""
    if chain is TABLES:
        shapes = {"one": ("id", "a"), "two": ("n", "b"), "three": (None, "c"), "four": (None, "d")}
        return {topic: [_row(random, own, value) for _ in range(14)] for topic, (own, value) in shapes.items()}
    names = {"one": ("a", "at"), "two": ("b", "at2"), "three": ("c", "at3"), "four": ("d", "since")}
    found: Rows = {}
    for topic, (value, when) in names.items():
        times = [BEGIN + 4 * place - random.choice([0, 0, 0, 6, 19, 60]) for place in range(14)]
        times += [BEGIN + 900, BEGIN + 901]  # time has gone by for all others
        keys = [random.choice(["a", "b"] if topic == "four" else ["a", "b", "c", None]) for _ in range(14)] + ["z", "z"]
        found[topic] = [
            {"k": key, value: random.randrange(5), when: _iso(time)} for key, time in zip(keys, times, strict=True)
        ]
    return found


def _row(random: Random, own: str | None, value: str) -> dict[str, Any]:
    key = random.choice(["a", "b", "c"] if own is None else ["a", "b", "c", None])
    return ({} if own is None else {own: random.randrange(6)}) | {"k": key, value: random.randrange(5)}


def _iso(seconds: int) -> str:
    minutes, rest = divmod(seconds - BEGIN + 3600, 60)
    return f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{rest:02}Z"


class Left(NamedTuple):
    """What a run leaves behind."""

    records: list[Any]
    accounts: list[Any]
    state: dict[str, list[str]]
    done_at_once: list[list[list[str]]]
    """In each batch."""
    shuffles: set[int]
    """Of each chain that one task did."""


def run(spark: SparkSession, folder: Path, chain: Chain, rows: Rows, ways: list[bool], *, again: int = 2) -> Left:
    """One batch for each of `ways`: are joins done in one task where they can be? The second comes `again` times."""
    seen: list[list[list[str]]] = []
    shuffles: set[int] = set()
    with running_node(folder) as node:
        tester = AppTester(chain.app(), node, spark)
        for topic, own in rows.items():
            for row in own:
                when = next((value for value in row.values() if str(value).startswith("2026")), "2026-01-01T01:00:00Z")
                tester.feed(topic, [row], key=next(iter(row)), at=when)
        settings = RunSettings(node.data, node.kafka_address)
        running = RunningApp(tester.app, spark, settings)
        (job,) = plan(tester.app, explain)
        running._make_topics([job])
        kept, processor = running.prepare(job, resolve(spark, job))
        operators = processor._operators
        runner = BatchRunner(spark, job, kept, processor, settings.where())
        decide, operate = operators.done_at_once, operators.operate_chain

        def watched(*given: Any) -> DataFrame:
            made = operate(*given)
            shuffles.add(exchanges(made))
            return made

        operators.operate_chain = watched  # type: ignore[method-assign, assignment]
        thirds = [{topic: {0: len(own) * part // 3} for topic, own in rows.items()} for part in range(4)]
        ends = [*thirds, *thirds[-1:] * (len(ways) - 3)]
        try:
            for batch, way in enumerate(ways):
                found = decide if way else (lambda chains: {})
                decided = partial(_decided, found, operators, seen)
                operators.done_at_once = decided  # type: ignore[method-assign]
                for _ in range(again if batch == 1 else 1):
                    forget_batch(kept.path, batch)
                    runner.run(PlannedBatch(batch, ends[batch], ends[batch + 1], batch))
        finally:
            running.stop()
        assert [tester.prove(view).different for view in chain.views] == [0] * len(chain.views)
        records = [
            (topic, record.offset, record.key, record.value, record.timestamp_ms)
            for topic in (*chain.told, *(f"web.{job.name.replace('+', '-')}.late",))
            for record in (tester.records(topic) if topic in {one.name for one in node.log.topics()} else [])
        ]
        return Left(records, tester.values("web.accounts"), dict(state_of(folder)), seen, shuffles)


def _decided(decide: Any, operators: Operators, seen: list[list[list[str]]], chains: list[Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = decide(chains)
    seen.append(sorted([operators.names[link] for link in links] for links in found.values()))
    return found


def state_of(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Every row of every store, whatever runs it lies in."""
    for job in jobs_in(folder):
        for operator in job.operators():
            rows = show(operator.store.files, limit=10_000).to_pylist()
            yield operator.name, sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chain", [STREAMS, TABLES], ids=["streams", "tables"])
def test_joins_in_one_task_leave_what_joins_in_several_leave(spark: SparkSession, tmp_path: Path, chain: Chain) -> None:
    """Records byte by byte, accounts, and every row of the state; each batch may be done in either way, and twice."""
    rows = rows_of(chain, Random(3))
    several = run(spark, tmp_path / "several", chain, rows, [False] * 4, again=1)
    mixed = run(spark, tmp_path / "mixed", chain, rows, [True, True, False, True])
    assert several.done_at_once == [[]] * 4
    assert mixed.done_at_once[0] == sorted(chain.done_at_once)
    assert mixed.done_at_once[3] == []
    # Rows of tables are put together by the key of the result, too.
    assert mixed.shuffles == ({1} if chain is STREAMS else {2})
    assert mixed.records == several.records
    assert mixed.accounts == several.accounts
    assert mixed.state == several.state
    assert len(several.records) > 15


def exchanges(frame: DataFrame) -> int:
    """What Spark is going to shuffle."""
    pending, found = [frame._jdf.queryExecution().executedPlan()], 0
    while pending:
        one = pending.pop()
        found += "Exchange" in one.nodeName()
        pending += [one.children().apply(place) for place in range(one.children().size())]
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_join_with_a_key_that_is_split_is_done_by_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "HOT_ROWS", 3)
    left = run(spark, tmp_path, TABLES, rows_of(TABLES, Random(3)), [True, True, True])
    assert left.done_at_once[0] == [["many", "priced", "all"], ["met", "open", "rest"]]
    assert left.done_at_once[-1] == [["open", "rest"]]
