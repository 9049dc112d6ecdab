"""A test that has never failed proves nothing: bugs that others have shipped are put into the code, and must be found.

Each is found by the same searches that say "no anomaly" about the code as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.log import recovery, scan, segment_swap
from headwater.log.key_map import KeyMap
from headwater.log.log import Log
from headwater.log.offset_index import OffsetIndex
from headwater.log.partition import Partition
from headwater.log.producer_state import ProducerStates
from headwater.log.segment import Segment
from headwater.log.storage import small_files
from tests.crash import scenarios
from tests.crash import test_corruption as corruption
from tests.crash.explorer import Explorer, Focus
from tests.crash.failures import failures, survive
from tests.crash.killing import Killing
from tests.crash.planting import plant

STEPS = 40
SEEDS = range(1, 9)
FOUND_NOTHING = pytest.mark.parametrize(
    "seeds", [pytest.param(SEEDS[:3], id="short"), pytest.param(SEEDS[3:], id="long", marks=pytest.mark.torture)]
)


def found_by_crashing(focus: Focus | None = None, *, every: int = 1, seeds: range = SEEDS) -> str:
    """The first thing that is wrong after a crash at any of many points."""
    focus = replace(focus or Focus(), anomalies_max=1)
    for seed in seeds:
        anomalies = Explorer(seed, steps=STEPS, every=every, focus=focus).run().anomalies
        if anomalies:
            return anomalies[0]
    return "nothing"


def found_by_failing_calls(*, seeds: range = range(1, 4)) -> str:
    for seed in seeds:
        for failure in failures(seed, steps=STEPS, stride=7):
            if sentences := survive(seed, failure, steps=STEPS):
                return sentences[0]
    return "nothing"


@FOUND_NOTHING
def test_the_searches_find_nothing_in_the_code_as_it_is(seeds: range) -> None:
    assert found_by_crashing(every=50, seeds=seeds) == "nothing"


# Durability


def test_an_acknowledgement_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Partition, "_sync", "target.segment.file.sync()", "pass")
    assert found_by_crashing() != "nothing"


def test_a_new_segment_without_a_sync_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Partition, "_sync", "self._storage.sync_directory(self.directory)", "pass")
    assert found_by_crashing() != "nothing"


def test_a_sealed_segment_that_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Partition, "_sync", "for file in sealed:", "for file in []:")
    assert found_by_crashing() != "nothing"


def test_a_file_renamed_into_place_before_its_content_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, small_files, "_write", "file.sync()", "pass")
    assert found_by_crashing(Focus(path_part="topics")) != "nothing"


def test_a_topic_whose_name_is_seen_after_a_kill_and_never_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Log, "_open", "self.storage.sync_directory(DIRECTORY)", "pass")
    assert "cut afterwards" in found_by_crashing(Focus(["sync_directory"], "topics", times=10))


def test_records_shown_to_readers_before_they_are_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Partition._advance
    monkeypatch.setattr(Partition, "_advance", lambda self, header, durable: original(self, header, durable=False))
    assert found_by_crashing() != "nothing"


def test_a_flush_error_that_is_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(
        monkeypatch, Partition, "_sync",
        'raise self.take_offline(f"a sync failed: {error}") from None', "pass",
    )  # fmt: skip
    assert "after Call" in found_by_failing_calls()


# Recovery


def test_a_torn_tail_that_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "check_crc", lambda *_: True)
    assert found_by_crashing() != "nothing"


def test_good_segments_cut_off_after_a_bad_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, recovery.Recovery, "_read", "expected.offset >= self._synced_offset", "True")
    sound = corruption.build(stopped_cleanly=False)
    with pytest.raises(AssertionError):
        corruption.test_a_flipped_bit_costs_its_batch_and_nothing_else(sound, seed=0)


def test_a_checkpoint_that_claims_more_than_was_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Partition, "_synced_state", "mark = self._progress.durable", "mark = self._progress.end")
    assert scenarios.a_checkpoint_beside_an_append_is_true() != []


def test_segments_set_aside_that_come_back_at_the_next_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, recovery.Recovery, "_delete", "self._names_changed = True", "pass")
    assert scenarios.segments_set_aside_stay_away() != []


# Idempotent producers


def test_a_window_of_retries_that_is_forgotten_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "from_rows", classmethod(lambda cls, rows, elapsed_ms: cls()))
    assert found_by_crashing() != "nothing"


def test_a_retry_answered_from_memory_of_a_batch_that_the_power_cut_took(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ProducerStates, "to_rows", "if batch.last_offset < below", "")
    assert scenarios.a_checkpoint_beside_an_append_is_true() != []


# Look-ups


def test_an_index_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OffsetIndex.add
    monkeypatch.setattr(OffsetIndex, "add", lambda self, offset, position: original(self, offset - 1, position))
    # Readers hold each entry against its batch, so that a wrong one does no harm; here they believe it.
    monkeypatch.setattr(Segment, "_ends_as_indexed", lambda *_: True)
    assert found_by_crashing() != "nothing"


@FOUND_NOTHING
def test_readers_survive_an_index_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    original = OffsetIndex.add
    monkeypatch.setattr(OffsetIndex, "add", lambda self, offset, position: original(self, offset - 1, position))
    assert found_by_crashing(every=50, seeds=seeds) == "nothing"


# Compaction


def test_a_compaction_that_drops_the_newest_value(monkeypatch: pytest.MonkeyPatch) -> None:
    newest: Callable[..., Any] = KeyMap.newest
    monkeypatch.setattr(KeyMap, "newest", lambda *arguments: ~newest(*arguments))
    assert "was promised and is missing" in found_by_crashing(Focus(path_part="table-0"))


def test_a_swap_promised_before_the_replacement_has_a_durable_name(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, segment_swap, "begin_swap", "storage.sync_directory(directory)", "pass")
    monkeypatch.setattr("headwater.log.partition.begin_swap", segment_swap.begin_swap)
    assert scenarios.a_swap_of_segments_is_whole_at_every_moment() != []


# The real node


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.torture
def test_killing_a_real_node_finds_a_forgotten_window_of_retries(tmp_path: Path) -> None:
    def found(seed: int) -> bool:
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = Killing(folder, seed=seed, node="tests.crash.forgetful_node").run(8)
        return any(sentence.startswith("duplicate") for sentence in outcome.anomalies)

    # Eight kills nearly always hit a moment between storing and answering; the moments are real, so not always.
    assert any(found(seed) for seed in range(1, 6))
