"""Bugs that would cost or double rows after a crash are put into the code, and the oracle must find them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import OutOfOrderSequence
from headwater.flow.commit.batch_processor import Processor
from headwater.flow.sinks.topics.topic import TopicSink
from headwater.flow.state.store import StateStore
from headwater.node import Node
from headwater.testing import running_node
from headwater.views.tables import SqlStore
from tests.crash.flow.crashing import found_after_a_crash
from tests.crash.flow.moments import TOPIC_SEND, VIEW_WRITE, Moment
from tests.crash.planting import plant
from tests.flow.engines import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STATE_COMMITTED = Moment(VIEW_WRITE)
ROWS_ABOUT_TO_GO_IN = Moment("headwater.views.sqlite:SqliteStore._load")
A_VIEW_WRITTEN = Moment(VIEW_WRITE, after=True)
SENT_AND_NOT_NOTED = Moment(TOPIC_SEND, after=True)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data") as node:
        yield node


@pytest.mark.parametrize(
    "moment",
    [
        STATE_COMMITTED,
        *(
            pytest.param(one, marks=pytest.mark.torture)
            for one in (ROWS_ABOUT_TO_GO_IN, A_VIEW_WRITTEN, SENT_AND_NOT_NOTED)
        ),
    ],
    ids=lambda moment: moment.place.split(".")[-1] + (", after" if moment.after else ""),
)
def test_the_oracle_finds_nothing_in_the_code_as_it_is(engine: Engine, node: Node, moment: Moment) -> None:
    assert found_after_a_crash(engine, node, moment) == []


@pytest.mark.torture
def test_state_continued_from_the_newest_version_instead_of_the_one_before_the_batch(
    engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, commit = StateStore.begin, StateStore.commit
    newest: dict[str, int] = {}

    def begin_from_the_newest(self: StateStore, base: int, **named: Any) -> Any:
        newest[self.where] = max(self.versions(), default=-1)
        return begin(self, newest[self.where], **named)

    def commit_to_the_newest(self: StateStore, version: int, base: int, added: Any, **named: Any) -> Any:
        return commit(self, version, newest[self.where], added, **named)

    monkeypatch.setattr(StateStore, "begin", begin_from_the_newest)
    monkeypatch.setattr(StateStore, "commit", commit_to_the_newest)
    found = found_after_a_crash(engine, node, STATE_COMMITTED)
    assert any(sentence.startswith("totals adds up to") for sentence in found)
    assert any(sentence.startswith("view revenue holds") for sentence in found)


@pytest.mark.torture
def test_a_mark_in_another_transaction_than_its_rows(
    engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_first = (
        "self._store_mark(table, replace(stored, job=mark.job, batch=mark.batch, position=mark.position)); "
        "self._run('COMMIT'); self._run('BEGIN'); self._write(table, shape, stored, mark, changes, staged)"
    )
    plant(monkeypatch, SqlStore, "write", "self._write(table, shape, stored, mark, changes, staged)", mark_first)
    found = found_after_a_crash(engine, node, ROWS_ABOUT_TO_GO_IN)
    assert any(sentence.startswith("view ") for sentence in found)


@pytest.mark.torture
def test_a_batch_noted_as_finished_before_its_sinks_have_it(
    engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "self._operators.commit(context, results.reports)"
    plant(monkeypatch, Processor, "_work", commit, f"{commit}; self._folder.finish(record)")
    found = found_after_a_crash(engine, node, A_VIEW_WRITTEN)
    assert any(sentence.startswith("shop.accounts: ") for sentence in found)
    assert any(sentence.startswith("big-orders holds") for sentence in found)


@pytest.mark.torture
def test_a_topic_sent_again_as_another_producer(engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = "encoded = encode(rows, state, mark.batch)"
    another = "state = replace(state, producer_id=self._client.init_producer_id()[0], sequences={})"
    plant(monkeypatch, TopicSink, "publish", encode, f"{another}; {encode}")
    found = found_after_a_crash(engine, node, SENT_AND_NOT_NOTED)
    assert any("2 times, not 1 times" in sentence or "a change says" in sentence for sentence in found)


@pytest.mark.torture
def test_a_topic_whose_batch_is_noted_before_it_is_sent(
    engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = "encoded = encode(rows, state, mark.batch)"
    noted = "self._store(state.advanced(mark.batch, encoded.records))"
    plant(monkeypatch, TopicSink, "publish", encode, f"{encode}; {noted}")
    with pytest.raises(OutOfOrderSequence, match="a batch before this one is missing"):  # the log itself finds it
        # The third is one of those that every batch writes to, whether or not some rows are poisoned or late.
        found_after_a_crash(engine, node, Moment(TOPIC_SEND), nth=3)
