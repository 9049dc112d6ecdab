"""`check_log` finds what is wrong and nothing else."""

import pytest

from headwater.log import Log
from headwater.log.batch_format import read_header
from headwater.log.check import check_log, log_bytes
from headwater.log.storage import read_whole
from headwater.record import Record
from headwater.testing import ManualClock, MemoryStorage

CONFIGS = {"segment.bytes": "700", "index.interval.bytes": "60"}


@pytest.fixture
def storage():
    """A topic of some closed segments, cleanly stopped."""
    storage = MemoryStorage()
    clock = ManualClock()
    with Log.open("memory", storage=storage, clock=clock) as log:
        log.create_topic("orders", configs=CONFIGS)
        for number in range(60):
            clock.advance(10)
            log.append("orders", Record(b"order %d" % number, key=b"%d" % number))
    return storage


def change_byte(storage, path, position):
    file = storage.open(path)
    file.write_at(position, [bytes([file.read_at(position, 1)[0] ^ 0x40])])


def logs(storage):
    return [f"orders-0/{name}" for name in storage.list("orders-0") if name.endswith(".log")]


def test_a_sound_log_is_called_sound(storage):
    report = check_log(storage)
    (partition,) = report.partitions
    assert report.sound
    assert (partition.records, partition.start_offset, partition.end_offset) == (60, 0, 60)
    assert partition.bytes == log_bytes(storage)
    assert partition.segments == len(logs(storage)) > 3


def test_progress_counts_every_byte(storage):
    seen: list[int] = []
    check_log(storage, progress=seen.append)
    assert sum(seen) == log_bytes(storage)


def test_a_flipped_bit_names_the_offsets_it_cost(storage):
    change_byte(storage, logs(storage)[1], 100)
    (partition,) = check_log(storage).partitions
    (damage,) = partition.damage
    assert damage.end_offset - damage.first_offset == 1
    assert not partition.sound
    assert partition.records == 59


def test_damage_once_recorded_is_stepped_over_and_reported_as_known(storage):
    change_byte(storage, logs(storage)[1], 100)
    (found,) = check_log(storage, quarantine=True).partitions
    (again,) = check_log(storage).partitions
    assert again.sound
    assert again.quarantined == found.damage
    with Log.open("memory", storage=storage) as log:
        offsets = [record.offset for record in log.read("orders")]
    assert offsets == [offset for offset in range(60) if offset != found.damage[0].first_offset]


@pytest.mark.parametrize("segment", [1, -1], ids=["sealed", "active"])
@pytest.mark.parametrize("position", [12, 13, 14, 15])
def test_a_changed_leader_epoch_which_no_checksum_covers_is_found(storage, segment, position):
    path = logs(storage)[segment]
    first = read_header(read_whole(storage, path))
    change_byte(storage, path, first.size + position)
    (partition,) = check_log(storage).partitions
    assert not partition.sound
    assert any(f"{path}: the batch at offset {first.next_offset} has leader epoch" in one for one in partition.problems)


def test_an_index_entry_that_points_elsewhere_is_found(storage):
    path = logs(storage)[0].replace(".log", ".index")
    change_byte(storage, path, storage.size(path) - 1)
    (partition,) = check_log(storage).partitions
    assert [path in error for error in partition.index_errors] == [True]


def test_a_wrong_time_is_found(storage):
    path = logs(storage)[0].replace(".log", ".timeindex")
    change_byte(storage, path, 7)
    (partition,) = check_log(storage).partitions
    assert partition.index_errors
    assert all(path in error for error in partition.index_errors)


def test_a_missing_index_is_found(storage):
    storage.delete(logs(storage)[0].replace(".log", ".index"))
    (partition,) = check_log(storage).partitions
    assert "missing" in partition.index_errors[0]


def test_a_torn_end_that_was_never_acknowledged_is_not_damage(storage):
    path = logs(storage)[-1]
    storage.open(path).write_at(storage.size(path), [b"half a batch"])
    (partition,) = check_log(storage).partitions
    assert partition.sound
    assert partition.unacknowledged_bytes == len(b"half a batch")


def test_folders_of_no_topic_are_named_and_left(storage):
    storage.make_directory("lost-3")
    storage.open("lost-3/00000000000000000000.log", create=True)
    assert check_log(storage).orphans == ["lost-3"]
