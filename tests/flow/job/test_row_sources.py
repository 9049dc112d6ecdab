"""Joins whose rows are read by tasks or evaluated by Spark: which they are, and that both leave the same."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.nodes import Join
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.resolution import resolve
from headwater.flow.plan.row_sources import row_source
from headwater.flow.prepare.inputs import LogSteps
from headwater.flow.run.app_tester import AppTester
from headwater.record import Record
from headwater.testing import running_node
from tests.flow.engines import Engine
from tests.flow.job.steps import stepped_job
from tests.flow.job.test_chains import state_of

BEGIN_MS = 1_767_225_600_000
LEFT, RIGHT = "id long, k string, a long, at timestamp", "n long, k string, b double, at2 timestamp"

# -- which joins these are ---------------------------------------------------------------------------------------------


class Inputs:
    """Two streams and two tables of an app, for a join to be made of."""

    def __init__(self) -> None:
        self.app = app = hw.App("web", shards=2)
        self.left = app.stream("left", f"{LEFT}, l array<long>", time="at", name="events")
        self.right = app.stream("right", f"{RIGHT}, r array<long>", time="at2", name="others")
        self.versions = app.table("right", RIGHT, key="k", versions="1 hour", valid_from="at2", name="versions")
        self.one = app.table("one", "id long, k string, a long, l array<long>", key="id", name="one")
        self.two = app.table("two", "n long, k string, b double, l array<long>", key="n", name="two")
        self.by_day = app.table("days", "day date, k string", key="day", versions="1 hour", name="days")

    def near(self, **more: Any) -> Any:
        return self.left.join(self.right, on="k", within="1 minute", name="near", **more)

    def tell(self, *emitted: Any) -> hw.App:
        for number, each in enumerate(emitted):
            self.app.topic(f"emitted{number}")(lambda each=each: each)
        return self.app


APPS: dict[str, tuple[Callable[[Inputs], hw.App], list[str]]] = {
    "events near each other": (lambda i: i.tell(i.near()), ["near"]),
    "with corrections": (lambda i: i.tell(i.near(corrections="1 minute")), ["near"]),
    "as of a time": (lambda i: i.tell(i.left.join(i.versions, on="k", as_of="at", name="held")), ["held"]),
    "of two tables": (lambda i: i.tell(i.one.join(i.two, on="k", how="full", prefix="r_", name="both")), ["both"]),
    "a step behind it": (lambda i: i.tell(i.near().where("a > 1")), ["near"]),
    "emitted twice": (lambda i: (lambda near: i.tell(near, near.select("id")))(i.near()), ["near"]),
    "a step before it": (
        lambda i: i.tell(i.left.where("a > 1").join(i.right, on="k", within="1 minute", name="near")), ["near"],
    ),
    "a step before it that only Spark can do": (
        lambda i: i.tell(i.left.where("initcap(k) = 'A'").join(i.right, on="k", within="1 minute", name="near")), [],
    ),
    "a step before it that makes several rows": (
        lambda i: i.tell(i.left.explode("l").join(i.right, on="k", within="1 minute", name="near")), [],
    ),
    "two joins of one stream behind a step": (
        lambda i: (lambda some: i.tell(*(some.join(i.right, on="k", within=f"{n} minutes") for n in (1, 2))))(
            i.left.where("a > 1")
        ), ["emitted0", "emitted1"],
    ),
    "a step before a table": (
        lambda i: i.tell(i.one.where("a > 1").join(i.two, on="k", prefix="r_", name="both")), ["both"],
    ),
    "a stream that another job emits too": (lambda i: i.tell(i.near(), i.left.select("id")), ["near"]),
    "a stream with itself": (
        lambda i: i.tell(i.left.join(i.left, on="k", within="1 minute", prefix="r_", name="self")), ["self"],
    ),
    "two joins of one stream": (
        lambda i: i.tell(i.near(), i.left.join(i.versions, on="k", as_of="at", name="held")), ["held", "near"],
    ),
    "a table as it is": (lambda i: i.tell(i.left.join(i.one, on="k", prefix="r_", name="met")), ["met"]),
    "one behind the other": (
        lambda i: i.tell(i.near().join(i.one, on="k", wait="1 minute", prefix="r_", name="known")), ["known", "near"],
    ),
    "a key of lists": (
        lambda i: i.tell(i.left.join(i.right, on=i.left.l == i.right.r, within="1 minute", prefix="r_", name="near")),
        ["near"],
    ),
    "a table whose key is a day": (
        lambda i: i.tell(i.by_day.join(i.two, on="k", prefix="r_", name="both")), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", APPS)
def test_tasks_read_the_log_for_joins_unless_a_step_before_them_needs_spark(spark: SparkSession, case: str) -> None:
    declare, wanted = APPS[case]
    found = []
    for job in plan(declare(Inputs()), explain):
        source = row_source(job, resolve(spark, job))
        if any(isinstance(steps, LogSteps) for steps in source.inputs.values()):
            found += sorted(name for node, name in job.operators.items() if isinstance(node, Join))
        else:
            assert source.reasons
    assert found == wanted


# -- both ways ---------------------------------------------------------------------------------------------------------


class Put(NamedTuple):
    """A record: its key, its row, and when that happened, in seconds from the beginning; it is written soon after."""

    key: bytes | None
    row: dict[str, Any] | None
    at: int


Rows = dict[str, list[Put]]
Seen = list[tuple[int, str]]
State = dict[str, list[str]]


def interval(seen: Seen, *, how: str, emitted: str = "", **more: Any) -> hw.App:
    app = hw.App("web", shards=2)
    left = app.stream("left", LEFT, time="at", lateness="20 seconds")
    right = app.stream("right", RIGHT, time="at2", lateness="20 seconds")
    return output(app, seen, emitted, left.join(right, on="k", within="15 seconds", how=how, name="join", **more))


def as_of(seen: Seen, *, how: str, emitted: str = "", **more: Any) -> hw.App:
    app = hw.App("web", shards=2)
    left = app.stream("left", LEFT, time="at", lateness="20 seconds")
    right = app.table("right", RIGHT, key="k", versions="10 seconds", valid_from="at2", version_id="version")
    return output(app, seen, emitted, left.join(right, on="k", as_of="at", how=how, name="join", **more))


def interval_of_some(seen: Seen, *, how: str, **more: Any) -> hw.App:
    """Steps on both sides: filters, a column that is joined on, and times that are dropped on the way."""
    app = hw.App("web", shards=2)
    left = app.stream("left", LEFT, time="at", lateness="20 seconds").where("a > 0 or id % 3 = 0")
    left = left.with_columns(big="upper(k)", a="a * 2").select("id", "big", "a")
    right = app.stream("right", RIGHT, time="at2", lateness="20 seconds").select("n", "upper(k) as big", "b + 1 as c")
    joined = left.join(right.where("c > 1"), on="big", within="15 seconds", how=how, name="join", **more)
    return output(app, seen, "", joined)


def as_of_some(seen: Seen, *, how: str) -> hw.App:
    app = hw.App("web", shards=2)
    left = app.stream("left", LEFT, time="at", lateness="20 seconds")
    right = app.table("right", RIGHT, key="k", versions="50 seconds", valid_from="at2")
    return output(app, seen, "", left.where("id <> 3").join(right, on="k", as_of="at", how=how, name="join"))


def tables(seen: Seen, *, how: str, key: str, emitted: str = "") -> hw.App:
    app = hw.App("web", shards=2)
    left = app.table("left", "id long, k string, a long", key="id")
    right = app.table("right", "n long, k string, b double", key=key)
    return output(app, seen, emitted, left.join(right, on="k", how=how, name="join"))


def output(app: hw.App, seen: Seen, emitted: str, joined: Any) -> hw.App:
    def take(rows: pa.Table, batch: int) -> None:
        seen.extend((batch, json.dumps(row, default=str, sort_keys=True)) for row in rows.to_pylist())

    if emitted:
        app.topic(emitted)(lambda: joined)
    else:
        app.sink(hw.sinks.Foreach(take), name="emitted")(lambda: joined)
    return app


def events(random: Random, names: tuple[str, str, str], keys: list[str | None]) -> list[Put]:
    """Few keys, and times that go back and forth; in the end time has gone by for all of them."""
    own, value, when = names
    found = []
    for place in range(24):
        seconds = 4 * place - random.choice([0, 0, 0, 6, 19, 45, 90])
        found.append((random.choice(keys), seconds))
    made = []
    for place, (key, seconds) in enumerate([*found, ("z", 900), ("z", 901)]):
        row = {own: place, "k": key, value: random.randrange(5), when: iso(seconds)}
        made.append(Put(None if key is None else key.encode(), row, seconds))
    return made


def iso(seconds: int) -> str:
    minutes, rest = divmod(seconds + 3600, 60)
    return f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{rest:02}Z"


def stream_rows(random: Random, *, deletes: bool) -> Rows:
    left = events(random, ("id", "a", "at"), ["a", "b", "c", None])
    right = events(random, ("n", "b", "at2"), ["a", "b"] if deletes else ["a", "b", "d", None])
    if deletes:  # some as text, some as an object, one of no key at all
        for place, key in ((5, b"a"), (9, b'{"k":"b"}'), (13, b'"a"'), (20, b"{}")):
            right[place] = Put(key, None, right[place].at)
    return {"left": left, "right": right}


def table_rows(random: Random, *, key: str) -> Rows:
    """Rows that go from one join key to another, to none, and away; all rows of a key lie in one partition."""
    found: Rows = {"left": [], "right": []}
    for topic, own, value in (("left", "id", "a"), ("right", key, "b")):
        for place in range(48):
            k = random.choice(["ac", "bd"][place % 2]) if own == "k" else random.choice(["a", "a", "b", None])
            row = {"id": 2 * random.randrange(3) + place % 2, "k": k, value: random.randrange(3)}
            row["n"] = row["id"]
            record = json.dumps({own: row[own]}) if place % 4 < 2 else str(row[own])
            found[topic].append(Put(record.encode(), None if random.random() < 0.15 else row, place))
    return found


class Left(NamedTuple):
    """What a run leaves behind."""

    emitted: list[Any]
    late: list[Any]
    accounts: list[Any]
    states: list[State]
    """Behind each batch: every row of every store."""


def run(engine: Engine, folder: Path, declare: Callable[[Seen], hw.App], rows: Rows, ways: list[bool]) -> Left:
    """One batch for each of `ways`: do tasks read the log, or does Spark evaluate rows?"""
    seen: Seen = []
    with running_node(folder) as node:
        tester = AppTester(declare(seen), node, engine)
        for topic, own in rows.items():
            node.log.create_topic(topic, partitions=2)
            for place, one in enumerate(own):
                value = None if one.row is None else json.dumps(one.row).encode()
                record = Record(value, key=one.key, timestamp_ms=BEGIN_MS + 1000 * (one.at + 3603))
                node.log.append(topic, [record], partition=place % 2)
        count = len(rows["left"]) // 2
        ends = [{topic: dict.fromkeys(range(2), place) for topic in rows} for place in cuts(count, len(ways))]
        with stepped_job(tester) as job:
            able, states = job.processor.evaluator.inputs, list[State]()
            assert any(isinstance(steps, LogSteps) for steps in able.values())
            for batch, way in enumerate(ways):
                job.processor.evaluator.inputs = able if way else {}
                job.run(PlannedBatch(batch, ends[batch], ends[batch + 1], batch))
                states.append(dict(state_of(folder)))
        topics = {one.name for one in node.log.topics()}
        emitted = sorted(map(str, tester.values("emitted"))) if "emitted" in topics else sorted(seen)
        late = [record for topic in topics if topic.endswith(".late") for record in tester.values(topic)]
        return Left(emitted, sorted(late, key=str), tester.values("web.accounts"), states)


def cuts(count: int, batches: int) -> Iterator[int]:
    """All but the last batch have rows."""
    for batch in range(batches):
        yield count * batch // (batches - 1)
    yield count


JOINS: dict[str, tuple[Callable[[Seen], hw.App], Callable[[Random], Rows]]] = {
    "near, for a function": (partial(interval, how="left"), partial(stream_rows, deletes=False)),
    "near, corrected": (
        partial(interval, how="inner", emitted="emitted", corrections="25 seconds"),
        partial(stream_rows, deletes=False),
    ),
    "near, behind steps": (partial(interval_of_some, how="full"), partial(stream_rows, deletes=False)),
    "held, behind a step": (partial(as_of_some, how="inner"), partial(stream_rows, deletes=True)),
    "held, for a function": (partial(as_of, how="inner"), partial(stream_rows, deletes=True)),
    "held, corrected": (
        partial(as_of, how="left", emitted="emitted", corrections="5 seconds"), partial(stream_rows, deletes=True),
    ),
    "tables, for a function": (partial(tables, how="inner", key="k"), partial(table_rows, key="k")),
    "tables, in a topic": (partial(tables, how="left", key="n", emitted="emitted"), partial(table_rows, key="n")),
}  # fmt: skip
HELD = ("held, for a function", "held, corrected")
"""They name the version that was found, which only Spark can compute."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("join", [pytest.param(one, marks=[pytest.mark.on_spark] * (one in HELD)) for one in JOINS])
def test_either_way_leaves_the_same_behind(spark: SparkSession, engine: Engine, tmp_path: Path, join: str) -> None:
    """Results, accounts, late rows and every row of the state; and each batch may be done in either way."""
    declare, rows_of = JOINS[join]
    rows = rows_of(Random(4))
    by_spark = run(spark, tmp_path / "spark", declare, rows, [False] * 4)
    by_turns = run(engine, tmp_path / "turns", declare, rows, [True, True, False, True])
    assert by_turns.emitted == by_spark.emitted
    assert by_turns.late == by_spark.late
    assert by_turns.accounts == by_spark.accounts
    assert by_turns.states == by_spark.states
    places = [(one["topic"], one["partition"], one["offset"], one["reason"]) for one in by_spark.late]
    assert len(places) == len({*places}), "late rows are emitted once"
    assert ("tables" in join) == (not places)
    assert len(by_spark.emitted) > 5
    assert all(any(state.values()) for state in by_spark.states[:-1])
    if join == "tables, for a function":
        assert {json.loads(row)["_op"] for _, row in by_spark.emitted} == {"c", "u", "d"}
