"""What is decided while a batch is planned, and comes again with it."""

from pathlib import Path

from headwater.flow.source.batch_plan.batch_control import (
    CONTROL,
    NO_CONTROL,
    BatchControl,
    WakeupRequest,
    Watch,
    next_control,
    read_wakeup,
)
from headwater.flow.source.options import read_offsets
from headwater.record import TopicPartition

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
NONE: frozenset[TopicPartition] = frozenset()


def test_an_offset_says_what_was_decided_and_is_read_without_it() -> None:
    control = BatchControl(3, frozenset({B}), frozenset({A}), replays_late=True)
    assert BatchControl.from_json(control.to_json()) == control
    assert read_offsets({"clicks": {"0": 5, "1": 9}, CONTROL: control.to_json()}) == {A: 5, B: 9}


def test_a_request_makes_another_offset_once() -> None:
    requested = next_control(BatchControl(2), WakeupRequest(3), moved=NONE, unread=NONE, left=NO_CONTROL, silent=NONE)
    assert requested == BatchControl(3)
    assert next_control(requested, WakeupRequest(3), moved=NONE, unread=NONE, left=NO_CONTROL, silent=NONE) == requested
    assert next_control(requested, WakeupRequest(), moved=NONE, unread=NONE, left=NO_CONTROL, silent=NONE) == requested


def test_a_partition_is_silent_until_it_is_read_again() -> None:
    silent = next_control(NO_CONTROL, WakeupRequest(), moved=NONE, unread=NONE, left=NO_CONTROL, silent=frozenset({A}))
    assert silent.silent == {A}
    still = next_control(silent, WakeupRequest(), moved=frozenset({B}), unread=NONE, left=NO_CONTROL, silent=NONE)
    assert still.silent == {A}, "also when no job asks any more: that alone is no change"
    assert (
        next_control(still, WakeupRequest(), moved=frozenset({A}), unread=NONE, left=NO_CONTROL, silent=NONE).silent
        == NONE
    )


def test_a_partition_with_something_to_read_is_never_silent() -> None:
    found = next_control(
        NO_CONTROL,
        WakeupRequest(),
        moved=frozenset({B}),
        unread=frozenset({A}),
        left=NO_CONTROL,
        silent=frozenset({A, B}),
    )  # fmt: skip
    assert found.silent == NONE


def test_silence_is_measured_from_the_last_change_by_the_clock_of_the_watch() -> None:
    watch = Watch()
    watch.note({A: 5, B: 0}, 1_000)
    watch.note({A: 5, B: 1}, 2_000)
    watch.note({A: 5, B: 1}, 9_000)
    assert watch.silent({"clicks": 7_500}, 9_000) == {A}
    assert watch.silent({"clicks": 7_000}, 9_000) == {A}, "longer than that, not as long"
    assert watch.silent({"clicks": 6_999}, 9_000) == {A, B}
    assert watch.silent({"other": 0}, 9_000) == NONE


def test_without_a_file_nothing_is_requested(tmp_path: Path) -> None:
    assert read_wakeup(tmp_path / "nowhere") == WakeupRequest()
