"""What is decided while a batch is planned, and comes again with it."""

from pathlib import Path

from headwater.flow.source.batch_plan.ticks import NO_TICK, TICK, Tick, Watch, Wish, next_tick, read_wish, tick_of
from headwater.flow.source.options import read_offsets
from headwater.record import TopicPartition

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
NONE: frozenset[TopicPartition] = frozenset()


def test_an_offset_says_what_was_decided_and_is_read_without_it() -> None:
    tick = Tick(3, frozenset({B}), frozenset({A}))
    offset = {"clicks": {"0": 5, "1": 9}, TICK: tick.to_json()}
    assert tick_of(offset) == tick
    assert read_offsets(offset) == {A: 5, B: 9}


def test_where_nothing_was_decided_an_offset_is_only_an_offset() -> None:
    assert tick_of({"clicks": {"0": 5}}) == NO_TICK


def test_a_wish_makes_another_offset_once() -> None:
    wished = next_tick(Tick(2), Wish(3), moved=NONE, unread=NONE, held=NONE, silent=NONE)
    assert wished == Tick(3)
    assert next_tick(wished, Wish(3), moved=NONE, unread=NONE, held=NONE, silent=NONE) == wished
    assert next_tick(wished, Wish(), moved=NONE, unread=NONE, held=NONE, silent=NONE) == wished


def test_a_partition_is_silent_until_it_is_read_again() -> None:
    silent = next_tick(NO_TICK, Wish(), moved=NONE, unread=NONE, held=NONE, silent=frozenset({A}))
    assert silent.silent == {A}
    still = next_tick(silent, Wish(), moved=frozenset({B}), unread=NONE, held=NONE, silent=NONE)
    assert still.silent == {A}, "also when nobody asks any more: that alone is no news"
    assert next_tick(still, Wish(), moved=frozenset({A}), unread=NONE, held=NONE, silent=NONE).silent == NONE


def test_a_partition_with_something_to_read_is_never_silent() -> None:
    found = next_tick(NO_TICK, Wish(), moved=frozenset({B}), unread=frozenset({A}), held=NONE, silent=frozenset({A, B}))
    assert found.silent == NONE


def test_silence_is_measured_from_the_last_change_by_the_clock_of_who_watches() -> None:
    watch = Watch()
    watch.note({A: 5, B: 0}, 1_000)
    watch.note({A: 5, B: 1}, 2_000)
    watch.note({A: 5, B: 1}, 9_000)
    assert watch.silent({"clicks": 7_500}, 9_000) == {A}
    assert watch.silent({"clicks": 7_000}, 9_000) == {A}, "longer than that, not as long"
    assert watch.silent({"clicks": 6_999}, 9_000) == {A, B}
    assert watch.silent({"other": 0}, 9_000) == NONE


def test_without_a_wish_there_is_none(tmp_path: Path) -> None:
    assert read_wish(tmp_path / "nowhere") == Wish()
