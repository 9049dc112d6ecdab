"""One file of batches and its two indexes."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.batch_format import assign_offsets, read_header
from headwater.log.offset_index import OffsetIndex
from headwater.log.segment import SCAN_BYTES, Damage, Segment
from headwater.log.storage.storage import read_whole
from headwater.log.time_index import TimeIndex
from headwater.testing import Fault, ManualClock, MemoryStorage, SimulatedDisk
from tests.log.subjects import batch

FOLDER = "t-0"


def segment_in(storage: MemoryStorage, base: int = 50) -> Segment:
    storage.make_directory(FOLDER)
    return Segment.create(storage, FOLDER, base)


def append(segment: Segment, offset: int, *values: bytes, timestamp_ms: int = 1_000, index_interval: int = 0) -> int:
    """Append a batch at an offset; answers where it is."""
    one = batch(*values, timestamp_ms=timestamp_ms)
    assign_offsets(one, base_offset=offset, leader_epoch=0)
    position = segment.size
    segment.append(one, read_header(one), index_interval=index_interval)
    return position


def sealed(segment: Segment) -> Segment:
    for file in segment.write_indexes():
        file.sync()
    segment.last_append_ms = 12_345
    segment.seal()
    return segment


def test_files_are_named_as_kafkas() -> None:
    segment = segment_in(MemoryStorage(), 50)
    assert segment.paths == (
        f"{FOLDER}/00000000000000000050.log",
        f"{FOLDER}/00000000000000000050.index",
        f"{FOLDER}/00000000000000000050.timeindex",
    )


def test_a_new_segment_takes_nothing_over_from_files_of_its_name() -> None:
    storage = MemoryStorage()
    storage.make_directory(FOLDER)
    for suffix in ("log", "index", "timeindex"):
        storage.open(f"{FOLDER}/{50:020d}.{suffix}", create=True).write_at(0, [b"from another life"])
    segment_in(storage, 50)
    assert storage.list(FOLDER) == [f"{50:020d}.log"]
    assert storage.size(f"{FOLDER}/{50:020d}.log") == 0


def test_indexes_are_written_only_when_something_was_added() -> None:
    segment = segment_in(MemoryStorage(), 50)
    append(segment, 50, b"a")
    assert len(segment.write_indexes()) == 2
    assert segment.write_indexes() == []
    append(segment, 51, b"b")
    assert len(segment.write_indexes()) == 2


def test_the_indexes_are_as_kafkas() -> None:
    storage = MemoryStorage()
    segment = segment_in(storage)
    positions = [append(segment, 50 + number, b"x", timestamp_ms=100 + number) for number in range(3)]
    sealed(segment)
    assert OffsetIndex.from_bytes(read_whole(storage, segment.index_path)).entries == [
        (1, positions[1]),
        (2, positions[2]),
    ]
    assert TimeIndex.from_bytes(read_whole(storage, segment.time_index_path)).entries == [(101, 1), (102, 2)]


def test_an_entry_is_made_only_when_the_interval_has_passed() -> None:
    storage = MemoryStorage()
    segment = segment_in(storage)
    size = len(batch(b"x"))
    for number in range(10):
        append(segment, 50 + number, b"x", timestamp_ms=100 + number, index_interval=3 * size)
    sealed(segment)
    offsets = OffsetIndex.from_bytes(read_whole(storage, segment.index_path)).entries
    assert offsets == [(4, 4 * size), (8, 8 * size)]
    times = TimeIndex.from_bytes(read_whole(storage, segment.time_index_path)).entries
    assert times == [(104, 4), (108, 8), (109, 9)], "the last entry holds the largest timestamp"


def test_sealing_notes_when_the_segment_was_last_written() -> None:
    storage = MemoryStorage(ManualClock())
    segment = segment_in(storage)
    append(segment, 50, b"x")
    sealed(segment)
    assert storage.modified_ms(segment.log_path) == 12_345


def test_a_sealed_segment_answers_like_an_active_one() -> None:
    storage = MemoryStorage()
    segment = segment_in(storage)
    for number in range(0, 40, 2):
        append(segment, 50 + number, b"x", b"y", timestamp_ms=1_000 - number * (-1) ** number, index_interval=200)
    asked = range(49, 95)
    before = [segment.position_of(offset, limit=segment.size) for offset in asked]
    times = [segment.batch_for_time(time, limit=segment.size) for time in range(940, 1_060)]
    largest = segment.largest_timestamp()
    sealed(segment)
    again = Segment(storage, FOLDER, 50, size=segment.size)
    for answering in (segment, again):
        assert [answering.position_of(offset, limit=segment.size) for offset in asked] == before
        assert [answering.batch_for_time(time, limit=segment.size) for time in range(940, 1_060)] == times
        assert answering.largest_timestamp() == largest


def test_nothing_at_or_after_the_limit_is_found() -> None:
    segment = segment_in(MemoryStorage())
    positions = [append(segment, 50 + number, b"x") for number in range(4)]
    assert segment.position_of(52, limit=positions[2]) is None
    assert segment.position_of(51, limit=positions[2]) is not None
    assert segment.batch_for_time(0, limit=0) is None
    assert [found.position for found in segment.batches(0, limit=positions[3])] == positions[:3]


@settings(max_examples=30)
@given(sizes=st.lists(st.sampled_from([0, 1, 100, SCAN_BYTES - 61, SCAN_BYTES, 3 * SCAN_BYTES]), max_size=20))
def test_headers_are_found_whatever_lies_between_them(sizes: list[int]) -> None:
    segment = segment_in(MemoryStorage())
    positions = [append(segment, 50 + number, bytes(size)) for number, size in enumerate(sizes)]
    found = list(segment.batches(0, limit=segment.size))
    assert [batch.position for batch in found] == positions
    assert [batch.header.base_offset for batch in found] == list(range(50, 50 + len(sizes)))
    assert [read_header(segment.read_batch(batch)) for batch in found] == [batch.header for batch in found]


def test_known_damage_is_stepped_over() -> None:
    segment = segment_in(MemoryStorage())
    positions = [append(segment, 50 + number, b"x" * 20) for number in range(6)]
    segment.damage = (Damage(positions[1], positions[3], 51, 53), Damage(positions[4], positions[5], 54, 55))
    found = [batch.header.base_offset for batch in segment.batches(0, limit=segment.size)]
    assert found == [50, 53, 55]
    at = segment.position_of(51, limit=segment.size)
    assert at is not None
    assert at.header.base_offset == 53
    assert segment.clip_to_damage(0, segment.size) == positions[1]
    assert segment.clip_to_damage(positions[3], segment.size) == positions[4]
    assert segment.clip_to_damage(positions[5], segment.size) == segment.size


def test_records_missing_without_a_trace_block_no_reader() -> None:
    segment = segment_in(MemoryStorage())
    append(segment, 50, b"x")
    gap = append(segment, 57, b"x")
    segment.damage = (Damage(gap, gap, 51, 57),)
    assert segment.clip_to_damage(0, segment.size) == segment.size
    assert segment.clip_to_damage(gap, segment.size) == segment.size
    assert [batch.header.base_offset for batch in segment.batches(0, limit=segment.size)] == [50, 57]


def test_a_write_that_fails_does_not_count() -> None:
    disk = SimulatedDisk(ManualClock(), seed=4)
    segment = segment_in(disk)
    append(segment, 50, b"x")
    size = segment.size
    disk.fail(Fault(("write",)))
    with pytest.raises(OSError, match="Input/output"):
        append(segment, 51, b"y")
    assert segment.size == size
    assert not segment.verified.covers(size, size + 1)
    append(segment, 51, b"z")
    assert [batch.header.base_offset for batch in segment.batches(0, limit=segment.size)] == [50, 51]


def test_a_released_segment_is_opened_again_when_it_is_read() -> None:
    segment = segment_in(MemoryStorage())
    append(segment, 50, b"x")
    sealed(segment)
    held = segment.file
    segment.release()
    assert segment.file is not held
    assert held.read_at(0, 10) == segment.file.read_at(0, 10)


def test_a_pinned_segment_stays_itself_while_its_files_are_replaced() -> None:
    storage = MemoryStorage()
    segment = segment_in(storage)
    for number in range(5):
        append(segment, 50 + number, b"old", timestamp_ms=number)
    sealed(segment)
    before = [segment.position_of(offset, limit=segment.size) for offset in range(50, 56)]
    segment.pin()
    segment.release()
    successor = Segment.create(storage, FOLDER, 50, suffix=".cleaned")
    append(successor, 54, b"new", timestamp_ms=9)
    sealed(successor)
    for path in segment.paths:
        storage.rename(path + ".cleaned", path)
    assert [segment.position_of(offset, limit=segment.size) for offset in range(50, 56)] == before
    assert segment.batch_for_time(3, limit=segment.size) == before[3]
    fresh = Segment(storage, FOLDER, 50, size=successor.size)
    found = fresh.position_of(50, limit=fresh.size)
    assert found is not None
    assert found.header.base_offset == 54


def opened_again(segment: Segment, storage: MemoryStorage, how: str) -> Segment:
    """As another process finds it, with indexes from their files."""
    again = Segment(storage, FOLDER, segment.base_offset, size=segment.size)
    if how == "pinned":
        again.pin()
    elif how == "active":
        offsets, times = (read_whole(storage, path) for path in again.paths[1:])
        again.activate(OffsetIndex.from_bytes(offsets), TimeIndex.from_bytes(times))
    return again


def flipped(storage: MemoryStorage, path: str) -> Iterator[None]:
    """The file with one bit changed, one after the other; at last it is as it was."""
    data = bytearray(read_whole(storage, path))
    for position in range(len(data)):
        for mask in (0x01, 0x04, 0x80):
            data[position] ^= mask
            storage.open(path).write_at(0, [data])
            yield
            data[position] ^= mask
    storage.open(path).write_at(0, [data])


@pytest.mark.parametrize("how", ["sealed", "pinned", "active"])
def test_a_wrong_index_entry_costs_time_and_never_a_record(how: str) -> None:
    storage = MemoryStorage()
    segment = segment_in(storage)
    for number in range(20):
        append(segment, 50 + number, b"x" * 30, index_interval=100)
    sealed(segment)
    for _ in flipped(storage, segment.index_path):
        again = opened_again(segment, storage, how)
        for offset in range(50, 70):
            found = again.position_of(offset, limit=again.size)
            assert found is not None
            assert found.header.base_offset == offset


@pytest.mark.parametrize("how", ["sealed", "pinned"])
def test_a_wrong_entry_of_a_time_index_costs_time_and_never_a_record(how: str) -> None:
    storage = MemoryStorage()
    segment = segment_in(storage)
    times = [1000, 1010, 1005, 1030, 1020, 1040, 1100, 1050, 1060, 1090]
    for number, time in enumerate(times):
        append(segment, 50 + number, b"x" * 30, timestamp_ms=time, index_interval=100)
    sealed(segment)
    assert segment.largest_timestamp() == (1100, 56)
    for _ in flipped(storage, segment.time_index_path):
        again = opened_again(segment, storage, how)
        assert again.largest_timestamp() == (1100, 56)
        for wanted in range(995, 1101, 5):
            found = again.batch_for_time(wanted, limit=again.size)
            assert found is not None
            assert found.header.base_offset == 50 + next(n for n, time in enumerate(times) if time >= wanted)
