"""Figures of the last day, kept in a ring."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.record import Record
from headwater.serve import history
from headwater.serve.history import DAY_MS, Figures, History, figures

TOTAL = {"late": 3, "poisoned": 2}
FLOW: dict[str, Any] = {
    "name": "shop.orders",
    "running": True,
    "behind_us": 4_000_000,
    "outputs": [{"total": TOTAL}, {"total": TOTAL}, {"total": {**TOTAL, "poisoned": 0}}],
}


def test_a_poisoned_record_counts_once_for_its_flow_and_a_late_one_for_each_output() -> None:
    found = figures(5, 40, [{"lag": 7}, {"lag": 1}], [FLOW, {**FLOW, "running": False, "behind_us": 9_000_000}])
    assert found == Figures(5, 40, 8, 4.0, 18, 4)


class Nothing:
    def groups(self, asked: object) -> list[dict[str, Any]]:
        return []

    flows = groups


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(clock: ManualClock) -> Iterator[Log]:
    with Log.open("data", storage=MemoryStorage(), clock=clock) as log:
        log.create_topic("orders")
        yield log


def history_of(log: Log, data: Path) -> History:
    return History(log, Nothing(), data)  # type: ignore[arg-type]


def samples_of(kept: History) -> list[dict[str, Any]]:
    said: Any = kept.answer({})
    found: list[dict[str, Any]] = said["samples"]
    return found


def test_no_more_than_a_day_is_kept(
    log: Log, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SAMPLES_MAX", 3)
    kept = history_of(log, tmp_path)
    for _ in range(5):
        clock.advance(1000)
        kept.take()
    assert [one["rate"] for one in samples_of(kept)] == [0.0, 0.0, 0.0]


def test_a_node_that_starts_again_continues_with_the_figures_of_the_last_day(
    log: Log, clock: ManualClock, tmp_path: Path
) -> None:
    kept = history_of(log, tmp_path)
    kept.start()
    kept.take()
    clock.advance(DAY_MS // 2)
    log.append("orders", Record(b"one"))
    kept.take()
    kept.stop()
    clock.advance(DAY_MS // 2)
    again = history_of(log, tmp_path)
    again.start()
    again.take()
    again.stop()
    assert [(clock.now_ms() - one["at_ms"], one["written"]) for one in samples_of(again)] == [(DAY_MS // 2, 1), (0, 1)]


@pytest.mark.parametrize("content", [b"", b"{", b"[[1]]", b'{"checksum":"00000000","version":1,"content":[]}\n'])
def test_a_damaged_file_is_reported_and_the_figures_begin_again(
    log: Log, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "history.json").write_bytes(content)
    kept = history_of(log, tmp_path)
    kept.start()
    kept.stop()
    assert samples_of(kept) == []
    assert "history.json" in caplog.text


def test_a_sample_that_cannot_be_taken_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    once = history._Once()

    def fails() -> None:
        raise OSError("no such file")

    for _ in range(3):
        once.run(fails)
    assert caplog.text.count("history of the dashboard is not kept") == 1
