"""The long run in a small form, without Spark: batches are staged by tasks, some attempts fail, and each batch comes
again in other tasks. Bugs in that are planted, and found as missing rows or as rows that are there more than once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from headwater.errors import HeadwaterError
from headwater.flow.sinks.parquet import ParquetSink
from headwater.flow.sinks.staged import Part
from headwater.flow.sinks.topics.topic import TopicSink
from headwater.flow.sinks.view import ViewSink
from headwater.testing import running_node
from headwater.views.tables import SqlStore
from tests.contracts.sink import Place, mark
from tests.contracts.staged_sink import staged, staged_sink, stager_of
from tests.crash.planting import plant
from tests.flow.large_outputs.copies import differences
from tests.flow.large_outputs.strikes import KINDS, PARQUET, PHASES, POSTGRES, TOPIC, VICTIMS, strikes
from tests.flow.sinks.places import ParquetPlace, TablePlace
from tests.flow.sinks.topic_place import TopicPlace

BATCHES, ROWS, TASKS = 4, 12, 3
SINKS: dict[str, Any] = {PARQUET: ParquetSink, TOPIC: TopicSink, POSTGRES: ViewSink}
Plant = Callable[[pytest.MonkeyPatch, str], None]


@pytest.fixture(params=[PARQUET, TOPIC, POSTGRES])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if kind == PARQUET:
        yield ParquetPlace(tmp_path / "files", by=())
    elif kind == POSTGRES:
        table = TablePlace(request.getfixturevalue("postgres_url"), key=())
        yield table
        table.close()
    else:
        with running_node(tmp_path / "data") as node:
            node.log.create_topic("numbers", partitions=2)
            (tmp_path / "job").mkdir()
            topic = TopicPlace(node.log, node.kafka_address, tmp_path / "job")
            yield topic
            topic.client.close()


def copied(place: Place) -> list[str]:
    """What is wrong after some batches, each of which comes twice."""
    for batch in range(BATCHES):
        rows = place.batch(range(ROWS * batch, ROWS * (batch + 1)))
        for tasks in (TASKS, TASKS - 1):  # as after a crash before the job has noted the batch
            sink = staged_sink(place)
            stager = stager_of(sink, batch)
            failed = staged(stager, rows.slice(0, ROWS // 2), tasks=1)
            parts = staged(stager, rows.slice(1), tasks)
            sink.publish(mark(batch), reported(parts, failed), rows.slice(0, 1))
    return differences(np.array(place.numbers()), BATCHES * ROWS)


def reported(parts: list[Part], failed: list[Part]) -> list[Part]:
    """What Spark reports of all attempts."""
    return [Part.from_json(one.to_json()) for one in parts]


def test_every_row_is_there_once(place: Place) -> None:
    assert copied(place) == []


def skip_the_mark(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    if kind == PARQUET:
        new = 'self._note.write({**self._owner(mark), "batch": mark.batch,'
        plant(monkeypatch, ParquetSink, "publish", new, f"({new[len('self._note.write') + 1 :]}")
    elif kind == TOPIC:
        plant(monkeypatch, TopicSink, "_send_all", "self._store(self._refreshed(", "(self._refreshed(")
    else:
        monkeypatch.setattr(SqlStore, "_store_mark", lambda store, table, mark: None)


def publish_twice(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A batch that is in is taken for one that is not."""
    if kind == PARQUET:
        monkeypatch.setattr(ParquetSink, "_holds", lambda sink, stored, mark: False)
    elif kind == TOPIC:
        for name in ("stager", "publish"):
            plant(monkeypatch, TopicSink, name, "mark.batch <= state.batch", "mark.batch < state.batch")
    else:
        monkeypatch.setattr(SqlStore, "_is_in", lambda store, view, stored, mark: False)


def lose_a_part(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    publish = SINKS[kind].publish
    monkeypatch.setattr(SINKS[kind], "publish", lambda sink, mark, parts, rows: publish(sink, mark, parts[:-1], rows))


def publish_the_part_of_another_attempt(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setitem(globals(), "reported", lambda parts, failed: [*failed, *parts[1:]])


PLANTED = [skip_the_mark, publish_twice, lose_a_part, publish_the_part_of_another_attempt]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__.replace("_", " "))
def test_a_bug_is_found(place: Place, kind: str, planted: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, kind)
    try:
        found = copied(place)
    except HeadwaterError as error:  # a log refuses what does not follow, and a table what is there
        found = [str(error)]
    assert found != []


def test_a_row_that_is_missing_and_one_that_is_there_twice_are_both_told() -> None:
    assert differences(np.array([2, 0, 1]), 3) == []
    missing, many = differences(np.array([0, 2, 2]), 3)
    assert missing == "1 of 3 rows are missing, such as [1]"
    assert many == "1 rows are there more than once, such as [2]"


@pytest.mark.parametrize("kind", KINDS)
def test_every_process_is_killed_in_every_phase(kind: str) -> None:
    found = strikes(kind, len(PHASES) * len(VICTIMS), Random(1))
    assert {(one.phase, one.victim) for one in found} == {(phase, who) for phase in PHASES for who in VICTIMS}
