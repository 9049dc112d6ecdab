"""Topics of events on a disk that crashes; and bugs planted to see that it would be noticed."""

import pytest

from headwater.log.streams.index import StreamIndex
from headwater.log.streams.partition_streams import PartitionStreams
from tests.crash.planting import plant
from tests.crash.streams.explorer import explore

SEEDS = [pytest.param(seed, marks=pytest.mark.torture if seed > 3 else ()) for seed in range(1, 31)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_loses_nothing_that_was_answered_and_doubles_nothing(seed: int) -> None:
    life = explore(seed, steps=40, every=6)
    assert life.anomalies == []
    assert life.points > 20


def found(*, seeds: range = range(1, 6)) -> str:
    """The first anomaly of a few lives."""
    for seed in seeds:
        if anomalies := explore(seed, steps=40, every=3).anomalies:
            return anomalies[0]
    return "nothing"


def test_an_answer_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, PartitionStreams, "append", "self.partition.make_durable(end)", "pass")
    assert found() != "nothing"


def test_an_index_that_is_saved_before_its_events_are_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, PartitionStreams, "append", "self.partition.make_durable(end)", "self.save()")
    plant(monkeypatch, PartitionStreams, "save", "self.partition.make_durable(end)", "pass")
    assert found() != "nothing"


def test_requests_that_are_forgotten_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, StreamIndex, "_count", "if entry.request:", "if False:")
    assert "sent again" in found()


def test_events_of_an_open_transaction_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, PartitionStreams, "_count", "self._index.hold(header.producer_id, entries)",
          "self._index.add(entries)")  # fmt: skip
    assert found() != "nothing"


def test_an_aborted_transaction_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, PartitionStreams, "_count", "committed=not ended", "committed=True")
    assert found() != "nothing"
