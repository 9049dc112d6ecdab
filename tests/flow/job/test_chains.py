"""Joins after joins on the same columns: what they leave is proved, and a batch that comes again leaves the same."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import headwater as hw
from headwater.flow.deploy.inventory import jobs_in
from headwater.flow.operators.joins import splitting
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.prepare.inputs import LogSteps, ResultSteps
from headwater.flow.run.app_tester import AppTester
from headwater.flow.state.inspecting import show
from headwater.testing import running_node
from tests.flow import engines
from tests.flow.engines import Engine
from tests.flow.job.steps import stepped_job

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
    app.topic("emitted")(lambda: known)
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
    """An app, its views, and the topics that it writes."""

    app: Callable[[], hw.App]
    views: tuple[str, ...]
    emitted: tuple[str, ...]


STREAMS = Chain(streams, (), ("emitted", "versions", "latest"))
TABLES = Chain(tables, ("all",), ("changes",))


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


def run(
    engine: Engine, folder: Path, chain: Chain, rows: Rows, batches: int, *, again: int = 2, by_spark: bool = False
) -> Left:
    """The second batch comes `again` times; `by_spark`: no input is made by tasks themselves."""
    with running_node(folder) as node:
        tester = AppTester(chain.app(), node, engine)
        for topic, own in rows.items():
            for row in own:
                when = next((value for value in row.values() if str(value).startswith("2026")), "2026-01-01T01:00:00Z")
                tester.feed(topic, [row], key=next(iter(row)), at=when)
        thirds = [{topic: {0: len(own) * part // 3} for topic, own in rows.items()} for part in range(4)]
        ends = [*thirds, *thirds[-1:] * (batches - 3)]
        with stepped_job(tester) as stepped:
            assert {*map(type, stepped.processor.evaluator.inputs.values())} == {LogSteps, ResultSteps}
            stepped.processor.evaluator.inputs = {} if by_spark else stepped.processor.evaluator.inputs
            for batch in range(batches):
                planned = PlannedBatch(batch, ends[batch], ends[batch + 1], batch)
                stepped.run(planned, times=again if batch == 1 else 1)
        assert [tester.prove(view).different for view in chain.views] == [0] * len(chain.views)
        records = [
            (topic, record.offset, record.key, record.value, record.timestamp_ms)
            for topic in (*chain.emitted, *(f"web.{stepped.job.name.replace('+', '-')}.late",))
            for record in (tester.records(topic) if topic in {one.name for one in node.log.topics()} else [])
        ]
        return Left(records, tester.values("web.accounts"), dict(state_of(folder)))


def state_of(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Every row of every store, whatever runs it lies in."""
    for job in jobs_in(folder):
        for operator in job.operators():
            rows = show(operator.store.files, limit=10_000).to_pylist()
            yield operator.name, sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chain, on_spark", [(STREAMS, False), (TABLES, True)], ids=["streams", "tables"])
def test_joins_after_joins_leave_the_same_wherever_rows_come_from(
    engine: Engine, tmp_path: Path, chain: Chain, on_spark: bool
) -> None:
    """Records byte by byte, accounts, and every row of the state; and a batch may come twice. What Spark would evaluate
    is evaluated by Spark, or in its place by this process."""
    rows = rows_of(chain, Random(3))
    by_spark = run(engines.engine(on_spark=on_spark), tmp_path / "spark", chain, rows, 4, again=1, by_spark=True)
    by_tasks = run(engine, tmp_path / "tasks", chain, rows, 4)
    assert by_tasks.records == by_spark.records
    assert by_tasks.accounts == by_spark.accounts
    assert by_tasks.state == by_spark.state
    assert len(by_spark.records) > 15


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_keys_that_are_split_leave_the_same(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(TABLES, Random(3))
    whole = run(engine, tmp_path / "whole", TABLES, rows, 3)
    monkeypatch.setattr(splitting, "HOT_ROWS", 3)
    split = run(engine, tmp_path / "split", TABLES, rows, 3)
    assert split.accounts == whole.accounts
    assert split.state == whole.state
    assert sorted((one[2:] for one in split.records), key=str) == sorted((one[2:] for one in whole.records), key=str)
