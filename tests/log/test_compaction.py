"""What compaction decides, without a disk."""

from headwater.log.compaction import CleaningPlan, CleaningState, group_segments, plan_cleaning
from headwater.log.retention import SegmentInfo
from headwater.log.topic_settings import TopicSettings

NOW = 1_000_000


def settings(**configs: str) -> TopicSettings:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return TopicSettings.from_configs({"cleanup.policy": "compact", **named})


def segments(*sizes: int, last_append_ms: int = 0) -> list[SegmentInfo]:
    return [SegmentInfo(10 * index, last_append_ms, size) for index, size in enumerate(sizes)]


def plan(sealed: list[SegmentInfo], clean_until: int = 0, **configs: str) -> CleaningPlan | None:
    state = CleaningState(clean_until)
    end = 10 * len(sealed)
    return plan_cleaning(sealed, end_offset=end, state=state, settings=settings(**configs), now_ms=NOW)


def test_everything_sealed_is_dirty_at_first():
    assert plan(segments(5, 5)) == CleaningPlan(2, 0, 20)


def test_a_clock_that_is_behind_does_not_delay_topics_without_compaction_lag():
    assert plan(segments(5, 5, last_append_ms=NOW + 1)) == CleaningPlan(2, 0, 20)
    assert plan(segments(5, 5, last_append_ms=NOW + 1), min_compaction_lag_ms="1") is None


def test_nothing_sealed_means_nothing_to_do():
    assert plan([]) is None


def test_a_small_dirty_share_waits():
    assert plan(segments(60, 40), clean_until=10) is None
    assert plan(segments(40, 60), clean_until=10) == CleaningPlan(2, 10, 20)


def test_a_dirty_part_that_is_overdue_does_not_wait():
    assert plan(segments(60, 40), clean_until=10, max_compaction_lag_ms="1000") == CleaningPlan(2, 10, 20)


def test_young_segments_are_left_alone():
    sealed = [SegmentInfo(0, 0, 5), SegmentInfo(10, NOW - 10, 5)]
    assert plan(sealed, min_compaction_lag_ms="1000") == CleaningPlan(1, 0, 10)


def test_a_clean_log_needs_no_pass():
    assert plan(segments(5, 5), clean_until=20, min_cleanable_dirty_ratio="0") is None


def test_a_tombstone_is_due_only_long_enough_after_the_pass_that_met_it():
    state = CleaningState().after_pass(clean_until=50, now_ms=1_000, delete_retention_ms=100)
    assert state.tombstones_below(now_ms=1_099, delete_retention_ms=100) == 0
    assert state.tombstones_below(now_ms=1_100, delete_retention_ms=100) == 50


def test_many_passes_are_remembered_in_bounded_space_and_never_make_a_tombstone_due_early():
    state = CleaningState()
    for now in range(2_000):
        state = state.after_pass(clean_until=now + 1, now_ms=now, delete_retention_ms=10_000)
    assert len(state.passes) <= 256
    assert state.tombstones_below(now_ms=11_000, delete_retention_ms=10_000) <= 1_001
    assert state.tombstones_below(now_ms=13_000, delete_retention_ms=10_000) == 2_000


def test_groups_respect_size_and_offsets():
    sealed = [SegmentInfo(0, 0, 10), SegmentInfo(10, 0, 10), SegmentInfo(20, 0, 10), SegmentInfo(900, 0, 10)]
    groups = group_segments(sealed, end_offset=910, bytes_max=100, offsets_max=500)
    assert [[segment.base_offset for segment in group] for group in groups] == [[0, 10], [20], [900]]
