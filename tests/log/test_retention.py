"""Which segments may go, and on a log: that they go when they may and not before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DiskFull
from headwater.log.retention import SegmentInfo, deletable, expired, surplus
from headwater.log.storage import read_small_file, write_small_file
from headwater.log.topic_settings import TopicSettings
from headwater.log.trusted_time import HOLD_MS
from headwater.record import Record
from headwater.testing import ManualClock, SimulatedDisk
from tests.log.subjects import TOPIC, Subject, batch

HOUR, DAY, YEAR = 3_600_000, 86_400_000, 31_536_000_000
segments = st.lists(st.builds(SegmentInfo, st.just(0), st.integers(0, 100), st.integers(1, 50)), max_size=8)


@given(infos=segments, now=st.integers(0, 200), limit=st.integers(0, 200))
def test_only_the_oldest_go_and_only_if_they_are_too_old(infos: list[SegmentInfo], now: int, limit: int) -> None:
    count = expired(infos, now_ms=now, retention_ms=limit)
    assert all(now - info.last_append_ms > limit for info in infos[:count])
    assert count == len(infos) or now - infos[count].last_append_ms <= limit


@given(infos=segments, limit=st.integers(0, 300))
def test_what_stays_is_at_least_the_limit_and_no_segment_more(infos: list[SegmentInfo], limit: int) -> None:
    count = surplus(infos, retention_bytes=limit)
    total = sum(info.bytes for info in infos)
    stays = sum(info.bytes for info in infos[count:])
    assert stays >= min(limit, total)
    assert count == len(infos) or stays - infos[count].bytes < limit


def test_minus_one_is_for_ever_and_without_bound() -> None:
    infos = [SegmentInfo(0, 0, 10**12)]
    assert expired(infos, now_ms=10**15, retention_ms=-1) == 0
    assert surplus(infos, retention_bytes=-1) == 0


@pytest.mark.parametrize(
    "configs, count",
    [
        ({"retention.ms": "50"}, 2),
        ({"retention.ms": "50", "cleanup.policy": "compact"}, 0),
        ({"retention.ms": "50", "cleanup.policy": "compact,delete"}, 2),
        ({"retention.ms": "-1", "retention.bytes": "15"}, 2),
        ({"retention.ms": "-1", "retention.bytes": "0"}, 3),
        ({"retention.ms": "-1", "retention.bytes": "15", "headwater.full.policy": "block"}, 0),
        ({"retention.ms": "50", "retention.bytes": "15", "headwater.full.policy": "reject"}, 2),
        ({"retention.ms": "95", "retention.bytes": "15"}, 2),
    ],
)
def test_age_size_and_policy_together(configs: dict[str, str], count: int) -> None:
    sealed = [SegmentInfo(0, 10, 10), SegmentInfo(5, 20, 10), SegmentInfo(9, 70, 10)]
    settings = TopicSettings.from_configs(configs)
    assert deletable(sealed, SegmentInfo(20, 90, 10), settings, now_ms=100) == count


# On a log


def three_days(configs: dict[str, str] | None = None) -> Subject:
    """A segment a day, for three days."""
    subject = Subject({"retention.ms": str(7 * DAY), **(configs or {})})
    for _ in range(3):
        subject.put(b"record")
        subject.partition.roll()
        subject.clock.advance(DAY)
    return subject


def test_segments_go_when_their_last_record_is_too_old() -> None:
    subject = three_days()
    subject.clock.advance(4 * DAY)
    subject.log.maintain()
    assert subject.offsets() == [0, 1, 2]
    subject.clock.advance(1)
    subject.log.maintain()
    assert subject.offsets() == [1, 2]
    subject.clock.advance(DAY)
    subject.kill()
    subject.log.maintain()
    assert subject.offsets() == [2]


def test_even_the_newest_records_go_when_they_are_too_old() -> None:
    subject = three_days()
    subject.put(b"active")
    subject.clock.advance(8 * DAY)
    subject.log.maintain()
    assert subject.records() == []
    assert subject.put(b"next").base_offset == 4


def test_the_age_of_a_segment_is_known_after_a_restart() -> None:
    subject = three_days()
    subject.put(b"active")
    for restart in (subject.restart, subject.kill):
        restart()
        subject.log.maintain()
        assert subject.offsets() == [0, 1, 2, 3]
    subject.clock.advance(4 * DAY + 1)
    subject.log.maintain()
    assert subject.offsets() == [1, 2, 3]


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 8 * DAY, -8 * DAY])
def test_a_jump_of_the_wall_clock_deletes_nothing(jump: int) -> None:
    subject = three_days()
    subject.clock.jump_wall(jump)
    subject.log.maintain()
    assert subject.offsets() == [0, 1, 2]
    subject.put(b"meanwhile")
    subject.partition.roll()
    for restart in (subject.restart, subject.kill):
        restart()
        subject.log.maintain()
        assert subject.offsets() == [0, 1, 2, 3]
    subject.clock.jump_wall(-jump)
    subject.log.maintain()
    subject.restart()
    subject.log.maintain()
    assert subject.offsets() == [0, 1, 2, 3]


def test_after_a_reboot_into_another_year_deletion_waits_for_an_operator() -> None:
    subject = three_days()
    subject.log.close()
    identity = read_small_file(subject.storage, "identity.json").content
    identity["moment"][2] = "another boot"
    write_small_file(subject.storage, "identity.json", identity)
    subject.clock.jump_wall(YEAR)
    subject.open()
    subject.log.maintain()
    subject.clock.advance(HOLD_MS - 1)
    subject.log.maintain()
    assert subject.offsets() == [0, 1, 2]
    subject.clock.advance(1)
    subject.log.maintain()
    assert subject.offsets() == []


@pytest.mark.parametrize("timestamp_ms", [0, 1, -1, 10**12])
def test_records_that_say_they_are_old_stay_as_long_as_others(timestamp_ms: int) -> None:
    subject = Subject({"retention.ms": str(DAY)})
    subject.partition.append(batch(b"back-fill", timestamp_ms=timestamp_ms), durable=False)
    subject.partition.roll()
    subject.clock.advance(DAY)
    subject.log.maintain()
    assert subject.offsets() == [0]
    subject.clock.advance(1)
    subject.log.maintain()
    assert subject.offsets() == []


def test_records_that_say_they_come_from_the_future_go_like_others() -> None:
    subject = Subject({"retention.ms": str(DAY), "message.timestamp.after.max.ms": str(2**62)})
    future = Record(b"v", timestamp_ms=subject.clock.now_ms() * 1_000_000)
    subject.log.append(TOPIC, future)
    subject.partition.roll()
    subject.clock.advance(DAY + 1)
    subject.log.maintain()
    assert subject.offsets() == []


def test_size_retention_keeps_at_least_what_it_promises() -> None:
    subject = Subject({"retention.bytes": "2000", "segment.bytes": "500"})
    for _ in range(10):
        subject.fill(10)
        subject.log.maintain()
        assert subject.partition.size_bytes >= min(2000, subject.partition.end_offset * 160)
        assert subject.partition.size_bytes < 2000 + 500 + 500
    assert subject.offsets()[-1] == 99


def test_a_full_disk_is_freed_by_retention() -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject({"segment.bytes": "400", "retention.ms": str(DAY)}, storage=disk)
    subject.fill(10)
    subject.clock.advance(DAY + 1)
    disk.capacity_bytes = sum(-(-disk.size(path) // 512) * 512 for path in disk.files())
    with pytest.raises(DiskFull):
        subject.fill(10)
    subject.log.maintain()
    assert subject.records() == []
    assert subject.put(b"next").base_offset == 10
    subject.power_cut(1)
    assert subject.offsets() == [10]
