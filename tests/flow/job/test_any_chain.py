"""What stands behind joins is what a batch query gives: for any order, any cut into batches, any repetition of one.

One job cuts what joins of every kind make into windows, and joins it again. After every batch the views are what the
changes that were emitted add up to; then plain queries over the log are asked, and plain Python.
"""

from collections import Counter
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

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
VIEWS = {"ended": ("k", "window_start"), "held": ("k", "window_start"), "twice": ("id", "window_start")}
EMITTED = ("ended", "twice")
BEHIND_INTERVALS = ("ended", "twice", "twice.1")
"""Operators that nothing can be too late for: what is, was too late for the join before them."""
LATENESS, HIGH, SIZE = 20, 15, 20


def chain() -> hw.App:
    app = hw.App("chain", shards=2)
    left, right = "id long, k string, v long, at timestamp", "n long, k string, w long, since timestamp"
    events = app.stream("left", left, time="at", lateness=f"{LATENESS} seconds", name="events")
    others = app.stream("right", right, time="since", lateness=f"{LATENESS} seconds", name="others")
    versions = app.table("right", right, key="k", versions="1 hour", valid_from="since", name="versions")
    near: Any = events.join(others, on="k", within=f"{HIGH} seconds", how="left", name="near")
    held: Any = events.join(versions, on="k", as_of="at", how="left", name="priced")
    again = near.select("id", "k", "n").join(held.select("id", "v"), on="id", between=("-5 s", "5 s"), how="full")
    tables = {
        "ended": near.window(hw.tumbling(f"{SIZE} seconds")).by("k").agg(
            "count(*) as n", "count(w) as c", "sum(v) as s", emit="final", name="ended"
        ),
        "held": held.window(hw.hopping("20 seconds", "10 seconds")).by("k").agg(
            "count(*) as n", "sum(w) as c", "max(v) as s", corrections="30 seconds", name="held"
        ),
        "twice": again.window(hw.tumbling("30 seconds")).by("id").agg(
            "count(*) as n", "sum(n) as c", "min(v) as s", name="twice"
        ),
    }  # fmt: skip
    for name, table in tables.items():
        app.view(key=["id" if name == "twice" else "k", "window"], name=name)(lambda table=table: table)
        if name in EMITTED:
            app.topic(f"emitted-{name}")(lambda table=table: table)
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
        for _ in range(random.randint(8, 12))
    ]  # fmt: skip


class Fed(NamedTuple):
    row: dict[str, Any]
    arrives: str


def rows_of(side: int, drawn: list[Drawn]) -> list[Fed]:
    newest, rows = 0, []
    names = ("id", "k", "v", "at") if side == 0 else ("n", "k", "w", "since")
    # The last is so far ahead that time has gone by for all others.
    for row in [*drawn, Drawn(9, "z", 0, 600, 0), Drawn(9, "z", 0, 1, 0)]:
        newest += row.ahead
        when, arrives = ((BEGIN + timedelta(seconds=newest - behind)).isoformat() for behind in (row.behind, 0))
        rows.append(Fed(dict(zip(names, (row.number, row.key, row.value, when), strict=True)), arrives))
    return rows


def run(tester: AppTester, lengths: tuple[int, int], cuts: list[tuple[int, int, int]], *, proved: bool) -> None:
    """Each of `cuts` is how many rows more of both sides, and how often the batch comes."""
    start = [0, 0]
    with stepped_job(tester) as job:
        for batch, (*more, again) in enumerate([(1, 1, 1), *cuts, (*lengths, 1), (0, 0, 1), (0, 0, 2), (0, 0, 1)]):
            end = [min(first + count, length) for first, count, length in zip(start, more, lengths, strict=True)]
            first, last = [{"left": {0: place[0]}, "right": {0: place[1]}} for place in (start, end)]
            job.run(PlannedBatch(batch, first, last, time_ms=batch), times=again)
            start = end
            assert [folded(tester, name) for name in EMITTED] == [view(tester, name) for name in EMITTED]
            if proved:
                assert [tester.prove(name).different for name in VIEWS] == [0] * len(VIEWS), batch


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
    who, when = (row[column] for column in VIEWS[name])
    return who, seconds(when)


def seconds(when: Any) -> float:
    found = datetime.fromisoformat(when) if isinstance(when, str) else when
    return float((found - BEGIN).total_seconds())


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["n"], row["c"], row["s"]


def ended(lefts: list[Fed], rights: list[Fed], late: list[Any]) -> dict[Any, Any]:
    """Plain Python's idea of the first view, when time has gone by for all but the last rows."""
    gone = {(row["topic"], row["offset"]) for row in late if row["operator"] == "near"}
    sides = [
        [row for offset, (row, _) in enumerate(rows) if (topic, offset) not in gone and row["k"] != "z"]
        for topic, rows in (("left", lefts), ("right", rights))
    ]
    found: dict[Any, list[tuple[int, int | None]]] = {}
    for one in sides[0]:
        same = [other for other in sides[1] if one["k"] is not None and one["k"] == other["k"]]
        met = [other["w"] for other in same if 0 <= seconds(other["since"]) - seconds(one["at"]) <= HIGH]
        start = seconds(one["at"]) // SIZE * SIZE
        found.setdefault((one["k"], start), []).extend((one["v"], each) for each in met or [None])
    return {
        key: (len(rows), sum(w is not None for _, w in rows), sum(v for v, _ in rows)) for key, rows in found.items()
    }


def emitted(tester: AppTester) -> list[Any]:
    return [
        (topic, record.offset, record.key, record.value, record.timestamp_ms)
        for topic in (*(f"emitted-{name}" for name in EMITTED), "chain.left-right.late")
        for record in tester.records(topic)
    ]


def check(engine: Engine, seed: int, *, proved: bool) -> None:
    random = Random(seed)
    sides = rows_of(0, drawn_rows(random)), rows_of(1, drawn_rows(random))
    cuts = [(random.randrange(6), random.randrange(6), 1 + number % 2) for number in range(2)]
    records = []
    for wanted in (cuts, [(left, right, 1) for left, right, _ in cuts])[: 2 if proved else 1]:
        with TemporaryDirectory() as folder, running_node(Path(folder)) as node:
            tester = AppTester(chain(), node, engine)
            for topic, rows in zip(("left", "right"), sides, strict=True):
                for row, arrives in rows:
                    tester.feed(topic, [row], key="id" if topic == "left" else "k", at=arrives)
            run(tester, (len(sides[0]), len(sides[1])), wanted, proved=proved)
            records.append(emitted(tester))
            assert [tester.prove(name).different for name in VIEWS] == [0] * len(VIEWS)
            late = tester.values("chain.left-right.late")
            assert not Counter(row["operator"] for row in late) & Counter(dict.fromkeys(BEHIND_INTERVALS, 99))
            assert {key: row for key, row in view(tester, "ended").items() if key[0] != "z"} == ended(*sides, late)
            assert all(tester.account(name).balanced for name in VIEWS)
    assert records[0] == records[-1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_any_order_cut_and_repetition_gives_what_one_batch_query_gives(engine: Engine) -> None:
    check(engine, 1, proved=False)


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 22))
def test_the_same_for_many_and_at_every_batch_and_with_the_same_records_again(engine: Engine, seed: int) -> None:
    check(engine, seed, proved=True)
