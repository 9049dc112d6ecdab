"""Results that depend on which rows came in one batch are proved: for any cut into batches, any batch that comes again.

What an operator did with the rows of a batch is asked of Spark, over the whole log and the batches that the accounts
have. A bug in the operator is a difference.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import FlowError
from headwater.flow.deploy.inventory import jobs_in
from headwater.flow.operate import works
from headwater.flow.operators import dedupe
from headwater.flow.operators.joins import latest
from headwater.flow.operators.joins.tables import touched_rows
from headwater.flow.proof.proofs import Unproved, prove_each
from headwater.flow.rows import evaluation
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import Engine
from tests.flow.job.steps import forget_batch

Tester = Callable[[hw.App], AppTester]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS, TOWNS = "events", "towns"


def as_they_came(*only: str) -> hw.App:
    """All of these views, or some."""
    app = hw.App("came", shards=2)
    events: Any = app.stream(EVENTS, "id long, k string, v long, at timestamp", time="at", lateness="20 seconds")
    towns: Any = app.table(TOWNS, "k string, town string, w long", key="k")
    met = events.join(towns, on="k", how="left", name="met_join")
    sums = events.by("k").agg("sum(v) as s", name="sums")
    big = towns.where("w > 2").select("k", "town", "w * 2 as double")
    groups = towns.by("town").agg("count(*) as n", "max(w) as most", name="groups")
    beside = sums.join(towns, on="k", how="left", name="beside")
    per_op = ("count(*) as n", "sum(after.s) as now", "sum(before.s) as was")
    views: dict[str, Any] = {
        "first": events.dedupe("k", within="15 seconds", name="firsts").by("k").agg("count(*) as n", "sum(id) as s"),
        "met": met.latest("id"),
        "met_first": met.dedupe("town", within="1 minute", name="towns_first").by("town").agg("min(id) as id"),
        "some": events.join(towns, on=(events.k == towns.k) & (events.v <= towns.w), name="some_join").latest("id"),
        "waited": events.join(towns, on="k", wait="10 seconds", how="left", name="waited_join").latest("id"),
        "found": events.join(towns, on="k", wait="30 seconds", name="found_join").by("town").agg("count(*) as n"),
        "big": events.join(big, on="k", how="left", name="big_join").latest("id"),
        "towns_changed": towns.changes().by("op", "k").agg("count(*) as n", "sum(before.w) as was"),
        "sums_changed": sums.changes().by("op").agg(*per_op),
        "groups_changed": groups.changes().by("op").agg("count(*) as n", "sum(after.n) as now", "sum(before.n) as was"),
        "beside_changed": beside.changes().by("op").agg(*per_op, "count(before.town) as towns"),
    }  # fmt: skip
    keys: dict[str, str | list[str]] = {
        "first": "k",
        "met_first": "town",
        "found": "town",
        "towns_changed": ["op", "k"],
    }
    for name in only or views:
        key = keys.get(name, "op" if name.endswith("_changed") else "id")
        app.view(key=key, name=name)(lambda name=name: views[name])
    return app


def seconds(number: float) -> str:
    return (BEGIN + timedelta(seconds=number)).isoformat()


def event(id: int, k: str | None, at: float, v: int = 1) -> dict[str, Any]:
    return {"id": id, "k": k, "v": v, "at": seconds(at)}


class Feeder:
    """Rows at random, some of them late, and a table that changes meanwhile."""

    def __init__(self, tester: AppTester, random: Random) -> None:
        self.tester, self.random, self.number, self.newest = tester, random, 0, 0.0

    def feed(self, count: int) -> None:
        random = self.random
        for _ in range(count):
            self.number, self.newest = self.number + 1, self.newest + random.choice([0, 1, 4, 9])
            late = random.choice([0, 0, 0, 3, 15, 60])
            row = event(self.number % 11, random.choice(["a", "b", "c", None]), self.newest - late, random.randrange(5))
            self.tester.feed(EVENTS, [row], at=seconds(self.newest), partition=random.randrange(2))
            key, deleted = random.choice("abcd"), random.random() < 0.3
            town = {"k": key, "town": random.choice(["x", "y"]), "w": random.randrange(6)}
            self.tester.feed_rows(TOWNS, [] if deleted else [town], deleted=[key] if deleted else [])

    def run(self) -> None:
        """A batch, which some jobs run once more: a crash came before they had noted it."""
        self.tester.run()
        for job in jobs_in(self.tester.node.data):
            if self.random.random() < 0.5 and (last := job.folder.last_finished()):
                forget_batch(job.path, last.batch)


def wrong(tester: AppTester) -> dict[str, Any]:
    data, address = tester.node.data, tester.node.kafka_address
    found = prove_each(tester.app, [], tester.session, data, address, direct=True)
    return {one.view: one for one in found if isinstance(one, Unproved) or one.different}


def check(engine: Engine, seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder, running_node(Path(folder)) as node:
        tester = AppTester(as_they_came(), node, engine)
        node.log.create_topic(EVENTS, partitions=2)
        feeder = Feeder(tester, random)
        for _ in range(6):
            feeder.feed(random.randrange(9))
            feeder.run()
        assert wrong(tester) == {}, "also where the last batch is noted as planned only"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_any_cut_and_repetition_is_proved(engine: Engine) -> None:
    check(engine, 1)


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 22))
def test_the_same_for_many(engine: Engine, seed: int) -> None:
    check(engine, seed)


def two_batches(tester: AppTester) -> None:
    tester.feed_rows(TOWNS, [{"k": "a", "town": "x", "w": 1}])
    tester.feed(EVENTS, [event(1, "a", 0), event(2, "b", 1)])
    tester.run()
    tester.feed_rows(TOWNS, [{"k": "a", "town": "y", "w": 2}, {"k": "b", "town": "y", "w": 3}])
    tester.feed(EVENTS, [event(3, "a", 2), event(4, "b", 3)])
    tester.run()


def lets_a_duplicate_through(monkeypatch: pytest.MonkeyPatch) -> None:
    step = dedupe.dedupe_step

    def planted(state: Any, rows: pa.RecordBatch, *others: Any, **named: Any) -> dedupe.Passed:
        passed = step(state, rows, *others, **named)
        return passed._replace(rows=passed.rows | True)

    monkeypatch.setattr(works, "dedupe_step", planted)


def joins_with_the_table_of_the_batch_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = latest.LatestJoin._pairs

    def planted(self: latest.LatestJoin, events: Any, touched: Any, table: Any) -> Any:
        return pairs(self, events, touched_rows(self.table, None), table)

    monkeypatch.setattr(latest.LatestJoin, "_pairs", planted)


def loses_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    as_facts = evaluation.as_facts

    def planted(changes: DataFrame, *others: Any) -> DataFrame:
        return as_facts(changes.where(f.col("_op") != "u"), *others)

    monkeypatch.setattr(evaluation, "as_facts", planted)


@pytest.mark.parametrize(
    ("view", "plant"),
    [
        ("first", lets_a_duplicate_through),
        ("met", joins_with_the_table_of_the_batch_before),
        ("towns_changed", loses_a_change),
    ],
)
def test_a_bug_is_found(
    tester: Tester, monkeypatch: pytest.MonkeyPatch, view: str, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    right = tester(as_they_came(view))
    right.node.log.create_topic(EVENTS)
    with monkeypatch.context() as planted:
        plant(planted)
        two_batches(right)
    assert right.prove(view).different > 0


def test_a_join_with_the_table_of_the_next_batch_is_found(tester: Tester) -> None:
    """As if the second batch had been the first: the same rows, and other batches in the accounts."""
    app = tester(as_they_came("met"))
    app.feed_rows(TOWNS, [{"k": "a", "town": "x", "w": 1}])
    app.feed(EVENTS, [event(1, "a", 0)])
    app.feed_rows(TOWNS, [{"k": "a", "town": "y", "w": 2}])
    app.run()
    assert app.prove("met").different == 0
    assert [row["town"] for row in app.rows("met")] == ["y"], "as of the end of the batch"


def test_a_view_that_was_rebuilt_is_proved_by_the_batches_of_the_rebuild(tester: Tester) -> None:
    app = tester(as_they_came("met", "first"))
    two_batches(app)
    assert {row["id"]: row["town"] for row in app.rows("met")} == {1: "x", 2: None, 3: "y", 4: "y"}
    app.run(rebuild=["met"])
    assert {row["town"] for row in app.rows("met")} == {"y"}, "it was read in one batch"
    app.feed(EVENTS, [event(5, "c", 30), event(6, "a", 31)])
    app.run()
    assert wrong(app) == {}


def test_a_difference_that_compaction_makes_is_no_difference(tester: Tester) -> None:
    app = tester(as_they_came("met"))
    compacted = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}
    app.node.log.create_topic(TOWNS, configs=compacted)
    two_batches(app)
    for number in range(40):
        app.feed_rows(TOWNS, [{"k": "z", "town": "w" * 50, "w": number}])
    app.run()
    assert app.prove("met").different == 0
    app.node.log.maintain()
    with pytest.raises(FlowError, match=r"compaction has removed records of towns/0 that were there"):
        app.prove("met")


def test_what_the_accounts_have_lost_is_said(tester: Tester) -> None:
    app = tester(as_they_came("first"))
    two_batches(app)
    app.node.log.partition("came.accounts", 0).delete_records(1)
    with pytest.raises(FlowError, match=r"which rows batches before 1 of job .* took, and when, is no longer known"):
        app.prove("first")
    app.run(rebuild=["first"])
    assert app.prove("first").different == 0
