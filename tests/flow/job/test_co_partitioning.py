"""Co-partitioned inputs are joined where they are read, and shuffled as soon as a row is misplaced."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.flow.operate.job_operators import Operators
from headwater.flow.operate.level import Level
from headwater.flow.run.app_tester import AppTester
from headwater.log.partitioner import partition_of

Tester = Callable[[hw.App], AppTester]
PARTITIONS = 4


def joined(name: str) -> hw.App:
    app = hw.App(name, shards=2)
    searches = app.stream("searches", "id long, session string, at timestamp", time="at")
    clicks = app.stream("clicks", "session string, url string, at timestamp", time="at")
    found = searches.join(clicks, on="session", within="5 minutes", how="left", prefix="click_")
    app.topic(f"{name}.clicked", key="id")(lambda: found)
    return app


def feed(app: AppTester, topic: str, rows: list[dict[str, Any]], *, misplaced: bool = False) -> None:
    """As Kafka's producers partition rows by their key; or not."""
    fed: dict[int, list[dict[str, Any]]] = {number: [] for number in range(PARTITIONS)}
    for row in rows:
        own = partition_of(str(row["session"]).encode(), PARTITIONS)
        fed[(own + 1) % PARTITIONS if misplaced else own].append(row)
    if topic not in {one.name for one in app.node.log.topics()}:
        app.node.log.create_topic(topic, partitions=PARTITIONS)
    for number, several in fed.items():
        if several:
            app.feed(topic, several, partition=number, key="session")


def some(batch: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A search of each session, and a click of every third; one search of nobody."""
    at = [f"2026-01-01T00:{10 * batch + minute:02}:00Z" for minute in range(2)]
    searches = [{"id": 100 * batch + one, "session": f"s{one}", "at": at[0]} for one in range(40)]
    clicks = [{"session": f"s{one}", "url": f"/{batch}/{one}", "at": at[1]} for one in range(0, 40, 3)]
    return [*searches, {"id": 100 * batch + 99, "session": None, "at": at[0]}], clicks


def expected(batches: int) -> list[tuple[int, str | None]]:
    found: list[tuple[int, str | None]] = []
    for batch in range(batches):
        searches, clicks = some(batch)
        urls = {click["session"]: click["url"] for click in clicks}
        found += [(search["id"], urls.get(search["session"])) for search in searches]
    return sorted(found)


@pytest.fixture
def without_shuffle(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of all batches: were they begun without a shuffle?"""
    seen: list[bool] = []
    own = Operators.level

    def watched(operators: Operators, *given: Any, **more: Any) -> Level:
        made = own(operators, *given, **more)
        seen.append(bool(made.co_partitioned))
        return made

    monkeypatch.setattr(Operators, "level", watched)
    return seen


@pytest.mark.on_spark  # a small batch that the driver runs has nothing to shuffle
def test_a_join_is_shuffled_only_for_misplaced_rows(
    tester: Tester, without_shuffle: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    app = tester(joined("first"))
    shuffled, co_partitioned = [], []
    for batch, misplaced in enumerate((False, False, True, False, False)):
        searches, clicks = some(batch)
        feed(app, "searches", searches, misplaced=misplaced)
        feed(app, "clicks", clicks)
        without_shuffle.clear()
        caplog.clear()
        app.run()
        co_partitioned.append(without_shuffle[0])
        shuffled.append(any("is shuffled" in one.message for one in caplog.records))
    # What comes behind ends the last of them.
    last = [{"id": 9999, "url": "/end", "session": f"s{one}", "at": "2026-01-02T00:00:00Z"} for one in range(40)]
    feed(app, "searches", last)
    feed(app, "clicks", last)
    app.run()
    emitted = [(row["id"], row["click_url"]) for row in app.values("first.clicked")]
    assert sorted(one for one in emitted if one[0] != 9999) == expected(5)
    assert co_partitioned == [False, True, True, False, True]
    assert shuffled == [False, False, True, False, False]
    assert app.account("first.clicked").balanced


def test_partitions_that_are_no_multiple_of_the_shards_are_shuffled(
    tester: Tester, without_shuffle: list[bool]
) -> None:
    app = tester(joined("odd"))
    for topic in ("searches", "clicks"):
        app.node.log.create_topic(topic, partitions=3)
    for batch in range(2):
        searches, clicks = some(batch)
        for topic, rows in (("searches", searches), ("clicks", clicks)):
            for number in range(3):
                own = [row for row in rows if partition_of(str(row["session"]).encode(), 3) == number]
                assert own
                app.feed(topic, own, partition=number, key="session")
        app.run()
    assert True not in without_shuffle
    assert app.account("odd.clicked").balanced
