"""Queues on a simulated disk that is cut off in the middle of everything, and bugs that must be found so.

Each bug is one that a queue can have; the search that finds it finds nothing in the code as it is.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from headwater.clock import ManualClock
from headwater.log.queues import journal
from headwater.log.queues.dead_letters import DeadLetters
from headwater.log.queues.delivery import Delivery
from headwater.log.queues.journal import History, Journal
from headwater.log.queues.key_order import KeyOrder
from headwater.log.queues.queue_partition import QueuePartition
from headwater.log.storage.simulated import SimulatedDisk
from tests.crash.planting import plant
from tests.crash.queues.explorer import Explorer
from tests.crash.queues.workload import Workload


@pytest.fixture(autouse=True)
def short_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that snapshots are written often, and compaction has something to remove."""
    monkeypatch.setattr(journal, "SLOTS", 4)


@pytest.mark.parametrize("seed", [2, 3, *(pytest.param(one, marks=pytest.mark.torture) for one in range(101, 141))])
def test_every_message_is_done_with_once_wherever_the_disk_is_cut_off(seed: int) -> None:
    found = Explorer(seed, steps=60, every=9).run()
    assert found.anomalies == []
    assert found.points > 50


def test_the_workload_leaves_nothing_out() -> None:
    """Every fate of a message, several attempts, snapshots, and a compaction of the state."""
    fates, attempts, paths = set[str](), set[int](), set[str]()
    for seed in (1, 2):
        disk = SimulatedDisk(ManualClock(), seed=seed)
        workload = Workload(disk, seed, ordered=seed == 2)
        workload.before_call = lambda call: paths.add(f"{call.operation} {call.path}")
        workload.run(200)
        assert workload.anomalies == []
        fates |= {entry.fate for entry in workload.books.entries.values()}
        attempts |= {entry.attempts for entry in workload.books.entries.values()}
    assert {"open", "acked", "rejected"} <= fates
    assert {0, 1, 2, 3} <= attempts
    assert any(call.startswith("rename __queue_state-0/swap.json") for call in paths)


# Planted bugs


def found(what: str = "", *, every: int = 5, seeds: Iterable[int] = range(1, 9)) -> bool:
    """Whether an anomaly was found, with this in its sentence."""
    return any(
        what in sentence
        for seed in seeds
        for sentence in Explorer(seed, steps=60, every=every, anomalies_max=10 if what else 1).run().anomalies
    )


def test_an_acknowledgement_that_is_answered_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, QueuePartition, "acknowledge", "self._journal.settle(self.id.queue, end)", "pass")
    assert found("delivered again")


def test_a_change_that_takes_effect_and_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    original = History.write

    def forgetful(self: History, of: Any, state: Any, rows: Any, ahead_ms: int) -> Any:
        return original(self, of, state, [row for row in rows if row.state != "acknowledged"], ahead_ms)

    monkeypatch.setattr(History, "write", forgetful)
    assert found("delivered again")


def test_a_snapshot_that_is_written_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction removes changes that no snapshot has overtaken."""
    plant(monkeypatch, History, "write", ">= SLOTS", ">= 3 * SLOTS")
    assert found()


def test_a_copy_that_is_made_before_its_message_is_written_down_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, QueuePartition, "_bury", "self._journal.settle(self.id.queue, self._write(()))", "pass")
    assert found(every=1, seeds=range(1, 20))


def test_a_copy_that_is_not_looked_for_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadLetters, "_found_from", lambda self, partition, offset: set())
    assert found("times: message", every=1, seeds=range(1, 20))


def test_a_copy_that_is_not_durable_when_its_message_is_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, DeadLetters, "copy", "partition.make_durable(partition.end_offset)", "pass")
    assert found(every=1, seeds=range(1, 20))


def test_attempts_that_a_kill_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Journal.append

    def forgetful(self: Journal, queue: str, written: Any) -> int:
        return original(self, queue, written) if any(b"\x01" in (one.value or b"") for one in written) else 0

    original_write = History.write

    def only_decisions(self: History, of: Any, state: Any, rows: Any, ahead_ms: int) -> Any:
        return original_write(self, of, state, [row for row in rows if row.state != "acquired"], ahead_ms)

    monkeypatch.setattr(History, "write", only_decisions)
    assert found("miscounted")


def test_messages_of_a_killed_process_that_nobody_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueuePartition, "_wake", lambda self: setattr(self, "_awake", True))
    assert found("lost")


def test_keys_that_a_restart_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delivery, "unknown_keys", lambda self: [])
    assert found(seeds=(2, 4, 6, 8))


def test_a_key_that_is_free_while_its_message_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, KeyOrder, "note", "if row.state is not State.ACQUIRED:", "if True:")
    assert found("order", seeds=(2, 4, 6, 8))


def test_locks_that_end_in_the_middle_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Delivery, "_take", "now_ms + rules.lock_ms", "now_ms")
    assert found()
