"""Joins of every kind are what a batch query gives: for any order, any cut into batches, any batch that comes again.

One job reads two topics in all ways at once. After every batch the table that the changes make is the view; at the end
Spark's own joins are asked. The same log cut in the same way gives the same records again, byte by byte.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

import headwater as hw
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import Engine
from tests.flow.job.steps import stepped_job

SEEDS = [1]
"""Each takes many batches in Spark; the kernels are tried with far more (tests/flow/operators/joins)."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
VIEWS = {"near": ("left_row", "right_row"), "held": ("left_row",), "rows": ("id", "n")}
TOPICS = ("emitted-near", "emitted-held", "emitted-rows", "once", "enriched")


def every_way() -> hw.App:
    app = hw.App("every", shards=2)
    left, right = "id long, k string, v long, at timestamp", "n long, k string, w long, since timestamp"
    events = app.stream("left", left, time="at", lateness="20 seconds", name="events")
    others = app.stream("right", right, time="since", lateness="20 seconds", name="others")
    versions = app.table("right", right, key="k", versions="1 hour", valid_from="since", name="versions")
    table, other = app.table("left", left, key="id", name="table"), app.table("right", right, key="n", name="other")
    near = events.join(
        others, on=(events.k == others.k) & (events.v <= others.w), between=("-10 seconds", "15 seconds"), how="full",
        corrections="30 seconds", name="near",
    )  # fmt: skip
    held = events.join(versions, on="k", as_of="at", how="left", corrections="30 seconds", name="held")
    rows = table.join(other, on="k", how="full", name="rows")
    for name, joined in (("near", near), ("held", held), ("rows", rows)):
        app.view(key=VIEWS[name], name=name)(lambda joined=joined: joined)
        app.topic(f"emitted-{name}")(lambda joined=joined: joined)
    app.topic("once")(lambda: events.join(others, on="k", within="15 seconds", how="left", name="once"))
    app.topic("enriched")(lambda: events.join(other, on="k", wait="10 seconds", name="enriched"))
    return app


class Drawn(NamedTuple):
    """A row of one side: so many seconds ahead of the newest before it, or behind it."""

    number: int
    key: str | None
    value: int
    ahead: int
    behind: int


def drawn_rows(random: Random) -> list[Drawn]:
    return [
        Drawn(random.randrange(4), random.choice(["a", "b", None]), random.randrange(4), random.randrange(21),
              random.choice([0, 0, 5, 18, 45]))
        for _ in range(random.randint(6, 10))
    ]  # fmt: skip


def rows_of(side: int, drawn: list[Drawn]) -> list[dict[str, Any]]:
    newest, rows = 0, []
    for row in drawn:
        newest += row.ahead
        when = (BEGIN + timedelta(seconds=newest - row.behind)).isoformat()
        names = ("id", "k", "v", "at") if side == 0 else ("n", "k", "w", "since")
        rows.append(dict(zip(names, (row.number, row.key, row.value, when), strict=True)))
    return rows


def run(tester: AppTester, lengths: tuple[int, int], wanted: list[tuple[int, int, int]]) -> None:
    start = [0, 0]
    with stepped_job(tester) as job:
        for batch, (*more, again) in enumerate([(1, 1, 1), *wanted, (*lengths, 1), (0, 0, 1)]):
            end = [min(first + count, length) for first, count, length in zip(start, more, lengths, strict=True)]
            first, last = [{"left": {0: place[0]}, "right": {0: place[1]}} for place in (start, end)]
            job.run(PlannedBatch(batch, first, last, time_ms=batch), times=again)
            start = end
            assert [folded(tester, name) for name in VIEWS] == [view(tester, name) for name in VIEWS]


def view(tester: AppTester, name: str) -> dict[Any, Any]:
    return {key_of(name, row): plain(row) for row in tester.rows(name)}


def folded(tester: AppTester, name: str) -> dict[Any, Any]:
    """The table that the changes make, each of which must fit what was there."""
    table: dict[Any, Any] = {}
    for change in tester.values(f"emitted-{name}"):
        if change is None:
            continue
        before, after = change["before"], change["after"]
        key = key_of(name, before or after)
        assert table.pop(key, None) == (before and plain(before)), change
        if after:
            table[key] = plain(after)
    return table


def key_of(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column] for column in VIEWS[name])


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column] for column in ("id", "k", "v", "w"))


def emitted(tester: AppTester) -> list[Any]:
    return [
        (topic, record.offset, record.key, record.value, record.timestamp_ms)
        for topic in (*TOPICS, "every.left-right.late")
        for record in tester.records(topic)
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_cut_and_repetition_gives_what_one_batch_query_gives_and_the_same_records_again(
    engine: Engine, seed: int
) -> None:
    random = Random(seed)
    drawn = drawn_rows(random), drawn_rows(random)
    wanted = [(random.randrange(6), random.randrange(6), 2)]
    records = []
    for repeats in (wanted, [(left, right, 1) for left, right, _ in wanted]):
        with TemporaryDirectory() as folder, running_node(Path(folder)) as node:
            tester = AppTester(every_way(), node, engine)
            for side, topic in enumerate(("left", "right")):
                newest, arrivals = 0, Random(seed + side)
                for row, one in zip(rows_of(side, drawn[side]), drawn[side], strict=True):
                    newest += one.ahead
                    # When a record of the right was written has nothing to do with since when its version holds.
                    written = newest if side == 0 else arrivals.randrange(5000)
                    arrives = (BEGIN + timedelta(seconds=written)).isoformat()
                    tester.feed(topic, [row], key="id" if side == 0 else "k", at=arrives)
            run(tester, (len(drawn[0]), len(drawn[1])), repeats)
            records.append(emitted(tester))
            if repeats is wanted:
                proofs = {name: tester.prove(name) for name in VIEWS}
                assert [proofs[name].different for name in ("near", "rows")] == [0, 0]
                assert proofs["held"].different == 0 or proofs["held"].late > 0
                assert all(tester.account(name).balanced for name in (*VIEWS, *TOPICS))
    assert records[0] == records[1]
