"""Transactions on a simulated disk that is cut off in the middle of everything, and bugs that must be found so.

Each bug is one that a log with transactions can have; the search that finds it finds nothing in the code as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from headwater.clock import ManualClock
from headwater.log import recovery
from headwater.log.groups.journal import Journal
from headwater.log.partition import Partition
from headwater.log.producer_state import ProducerStates
from headwater.log.storage.simulated import SimulatedDisk
from headwater.log.transactions import coordinator, transaction
from headwater.log.transactions.aborted_index import AbortedIndex
from headwater.log.transactions.coordinator import Transactions
from headwater.log.transactions.lifecycle import State
from headwater.log.transactions.open_transactions import OpenTransactions
from headwater.log.transactions.state_log import StateLog
from headwater.log.transactions.transaction import Transaction
from tests.crash.planting import plant
from tests.crash.transactions.explorer import Explorer
from tests.crash.transactions.workload import Workload


@pytest.mark.parametrize("seed", [2, 5, *(pytest.param(one, marks=pytest.mark.torture) for one in range(101, 141))])
def test_transactions_are_whole_wherever_the_disk_is_cut_off(seed: int) -> None:
    found = Explorer(seed, steps=50, every=7).run()
    assert found.points > 100
    assert found.anomalies == []


def test_epochs_that_are_used_up_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (coordinator, transaction):
        monkeypatch.setattr(module, "EPOCH_MAX", 4)
    for seed in (1, 3):
        assert Explorer(seed, steps=60, every=17).run().anomalies == []


def test_the_workload_leaves_nothing_out() -> None:
    """Every fate, every kind of batch, a roll, a compaction, a retirement, and an index of aborted transactions."""
    paths, fates = set[str](), set[str]()
    for seed in (1, 2):
        disk = SimulatedDisk(ManualClock(), seed=seed)
        workload = Workload(disk, seed)
        workload.before_call = lambda call: paths.add(f"{call.operation} {call.path}")
        workload.run(120)
        assert workload.anomalies == []
        assert workload.producing is not None
        history = workload.producing.history
        fates |= {one.fate for one in history.transactions}
        assert len({id(one) for writes in history.offsets.values() for one, _ in writes}) > 3
    assert {"open", "committed", "aborted"} <= fates
    for path in (
        "delete ring-0/00000000000000000000.log",
        "rename table-0/swap.json",
        "rename list-0/transactions.json",
    ):
        assert any(call.startswith(path) for call in paths), path


# Planted bugs


def found(what: str = "", *, every: int = 7, seeds: Iterable[int] = range(1, 9)) -> bool:
    """Whether an anomaly was found, with this in its sentence."""
    anomalies_max = 30 if what else 1
    return any(
        what in sentence
        for seed in seeds
        for sentence in Explorer(seed, steps=50, every=every, anomalies_max=anomalies_max).run().anomalies
    )


def test_a_decision_before_its_records_are_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Transactions, "end", "self._make_durable(before.partitions)", "pass")
    assert found(every=3, seeds=[4])


def test_a_marker_before_the_decision_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Transactions, "end", "self._change(known, decided)", "self._change(known, decided, wait=False)")
    assert found(every=3)


def test_an_epoch_that_is_not_bumped(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(
        monkeypatch, Transaction, "registered",
        "return replace(empty, epoch=self.epoch + 1, last_epoch=-1)",
        "return replace(empty, epoch=max(self.epoch, 0), last_epoch=-1)",
    )  # fmt: skip
    assert found("epoch not bumped")


def test_a_last_stable_offset_ahead_of_an_open_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenTransactions, "stable_below", lambda self, high_watermark: high_watermark)
    assert found("LSO")


def test_an_index_of_aborted_transactions_that_is_lost_at_a_roll(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Partition._roll

    def roll(self: Partition) -> None:
        original(self)
        self.transactions.aborted = []

    monkeypatch.setattr(Partition, "_roll", roll)
    assert found()


def test_an_index_of_aborted_transactions_that_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AbortedIndex, "write", lambda self, rows, end: None)
    assert found("aborted read", every=3)


def test_markers_after_the_checkpoint_that_recovery_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "read_marker", lambda header, batch: None)
    assert found()


def test_offsets_that_are_committed_without_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Journal, "_take_effect", "if written.marker.commit:", "if True:")
    assert found("aborted read")


def test_offsets_of_a_transaction_that_take_effect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(
        monkeypatch,
        Journal,
        "write_pending",
        "[row.entry for row in batch], producer.id)",
        "[row.entry for row in batch])",
    )
    assert found()


def test_fencing_that_is_skipped_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs are as they were one registration before."""
    load = StateLog.load

    def forgetful(self: StateLog) -> Mapping[str, Transaction]:
        states = load(self)
        return {
            id: replace(one, epoch=one.epoch - 1) if one.epoch > 0 and one.state is State.EMPTY else one
            for id, one in states.items()
        }

    monkeypatch.setattr(StateLog, "load", forgetful)
    assert found("zombie")


def test_a_coordinator_that_forgets_open_transactions_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    load = StateLog.load
    monkeypatch.setattr(
        StateLog, "load",
        lambda self: {id: one for id, one in load(self).items() if one.state is not State.ONGOING},
    )  # fmt: skip
    assert found()


def test_decided_transactions_whose_markers_are_not_written_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transactions, "finish_decided", lambda self: None)
    assert found(every=3)


def test_a_zombie_that_may_write_after_the_end_of_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Transaction, "check_producer", "if producer.epoch != self.epoch:", "if False:")
    assert found("zombie")


def test_a_retry_in_a_transaction_that_is_stored_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Any = ProducerStates.find_duplicate
    monkeypatch.setattr(
        ProducerStates, "find_duplicate",
        lambda self, header: None if header.transactional else original(self, header),
    )  # fmt: skip
    assert found("duplicate")
