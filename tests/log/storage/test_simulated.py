import errno
from collections.abc import Callable, Hashable
from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.log.storage.simulated import Call, Fault, SimulatedDisk
from headwater.log.storage.storage import Storage, read_whole, replace_durably
from tests.contracts.storage import StorageContract, write

CRASHES = 300


class TestSimulatedDisk(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return SimulatedDisk()

    @pytest.fixture
    def reopened(self, storage: Storage) -> Storage:
        return storage


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(ManualClock())


def write_synced(disk: SimulatedDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, [content])
    file.sync()


def found_after_crashes(disk: SimulatedDisk, look: Callable[[SimulatedDisk], Hashable]) -> set[Hashable]:
    return {look(disk.crash(Random(seed))) for seed in range(CRASHES)}


def names(disk: SimulatedDisk) -> Hashable:
    return tuple(disk.list(""))


def content_of(path: str) -> Callable[[SimulatedDisk], bytes | None]:
    return lambda disk: read_whole(disk, path) if disk.exists(path) else None


# Power cuts: content


def test_synced_content_under_a_synced_name_is_found_exactly(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"x" * 5000)
    disk.sync_directory("")
    assert found_after_crashes(disk, content_of("a")) == {b"x" * 5000}


def test_a_synced_file_under_a_name_that_was_not_may_be_lost(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"xyz")
    assert found_after_crashes(disk, content_of("a")) == {b"xyz", None}


def test_unsynced_growth_is_found_as_any_sectors_and_any_size(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"o" * 512)
    disk.sync_directory("")
    disk.open("a").write_at(512, [b"n" * 1024])
    found = found_after_crashes(disk, content_of("a"))
    assert all(isinstance(content, bytes) and content[:512] == b"o" * 512 for content in found)
    tails = {content[512:] for content in found if isinstance(content, bytes)}
    assert {b"", b"n" * 1024, b"n" * 512 + bytes(512), bytes(512) + b"n" * 512, bytes(1024)} <= tails
    assert len({len(tail) for tail in tails}) > 10


def test_an_overwritten_sector_is_found_old_or_new_but_never_mixed(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"o" * 1024)
    disk.sync_directory("")
    disk.open("a").write_at(0, [b"n" * 1024])
    old, new = b"o" * 512, b"n" * 512
    assert found_after_crashes(disk, content_of("a")) == {old + old, old + new, new + old, new + new}


def test_a_sector_is_found_as_any_version_since_the_sync(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"0")
    disk.sync_directory("")
    for version in (b"1", b"2", b"3"):
        disk.open("a").write_at(0, [version])
    assert found_after_crashes(disk, content_of("a")) == {b"0", b"1", b"2", b"3"}


def test_durable_bytes_in_a_sector_that_grows_stay(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"durable")
    disk.sync_directory("")
    disk.open("a").write_at(7, [b"!" * 2000])
    found = found_after_crashes(disk, content_of("a"))
    assert all(isinstance(content, bytes) and content.startswith(b"durable") for content in found)


def test_an_unsynced_cut_may_be_undone_and_old_bytes_come_back(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"old-tail")
    disk.sync_directory("")
    file = disk.open("a")
    file.truncate(3)
    file.write_at(3, [b"-NEW"])
    found = found_after_crashes(disk, content_of("a"))
    assert {b"old-tail", b"old", b"old-NEW"} <= found
    assert b"old-tai" in found
    file.sync()
    assert found_after_crashes(disk, content_of("a")) == {b"old-NEW"}


def test_a_crashed_disk_is_a_new_disk_that_is_durable_as_found(disk: SimulatedDisk) -> None:
    write(disk, "a", b"x" * 3000)
    crashed = disk.crash(Random(4))
    assert found_after_crashes(crashed, names) == {names(crashed)}
    assert read_whole(disk, "a") == b"x" * 3000


def test_the_same_seed_gives_the_same_crash(disk: SimulatedDisk) -> None:
    write(disk, "a", bytes(range(256)) * 20)
    write(disk, "b", b"y" * 3000)
    first, second = disk.crash(Random(11)), disk.crash(Random(11))
    assert names(first) == names(second)
    assert [content_of(path)(first) for path in ("a", "b")] == [content_of(path)(second) for path in ("a", "b")]


def test_a_sync_covers_what_was_written_before_it_and_not_what_is_written_meanwhile(disk: SimulatedDisk) -> None:
    file = disk.open("a", create=True)
    disk.sync_directory("")
    file.write_at(0, [b"before"])
    disk.on_call = lambda call: file.write_at(6, [b" meanwhile"]) if call.operation == "sync" else None
    file.sync()
    disk.on_call = None
    found = found_after_crashes(disk, content_of("a"))
    assert {b"before", b"before meanwhile"} <= found
    assert all(isinstance(content, bytes) and content.startswith(b"before") for content in found)


# Power cuts: names


def test_any_of_the_unsynced_changes_of_names_are_missing(disk: SimulatedDisk) -> None:
    write_synced(disk, "old", b"")
    disk.sync_directory("")
    disk.delete("old")
    write_synced(disk, "a", b"")
    write_synced(disk, "b", b"")
    everything = {(), ("a",), ("b",), ("a", "b"), ("old",), ("a", "old"), ("b", "old"), ("a", "b", "old")}
    assert found_after_crashes(disk, names) == everything


def test_a_rename_in_a_folder_is_found_whole_or_not_at_all(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"new")
    write_synced(disk, "b", b"old")
    disk.sync_directory("")
    disk.rename("a", "b")
    found = found_after_crashes(disk, lambda crashed: (names(crashed), content_of("b")(crashed)))
    assert found == {(("a", "b"), b"old"), (("b",), b"new")}


def test_a_rename_between_folders_may_leave_both_names_or_none(disk: SimulatedDisk) -> None:
    disk.make_directory("x")
    disk.make_directory("y")
    write_synced(disk, "x/a", b"moved")
    for folder in ("", "x", "y"):
        disk.sync_directory(folder)
    disk.rename("x/a", "y/a")
    found = found_after_crashes(disk, lambda crashed: (tuple(crashed.list("x")), tuple(crashed.list("y"))))
    assert found == {(("a",), ()), (("a",), ("a",)), ((), ("a",)), ((), ())}


def test_a_folder_whose_name_was_not_synced_vanishes_with_all_in_it(disk: SimulatedDisk) -> None:
    disk.make_directory("folder")
    write_synced(disk, "folder/a", b"x")
    disk.sync_directory("folder")
    assert found_after_crashes(disk, content_of("folder/a")) == {b"x", None}
    disk.sync_directory("")
    assert found_after_crashes(disk, content_of("folder/a")) == {b"x"}


def test_a_durable_replacement_is_the_old_content_or_the_new_at_every_moment(disk: SimulatedDisk) -> None:
    replace_durably(disk, "point", b"old" * 500)
    found: set[Hashable] = set()

    def crash(call: Call) -> None:
        found.update(content_of("point")(disk.crash(Random(call.number * 1000 + seed))) for seed in range(40))

    disk.on_call = crash
    replace_durably(disk, "point", b"new" * 700)
    disk.on_call = None
    assert found == {b"old" * 500, b"new" * 700}
    assert found_after_crashes(disk, content_of("point")) == {b"new" * 700}


# Kill


def test_a_killed_process_leaves_all_it_wrote(disk: SimulatedDisk) -> None:
    disk.make_directory("folder")
    write(disk, "folder/a", b"written")
    disk.lock("lock")
    killed = disk.kill()
    assert content_of("folder/a")(killed) == b"written"
    killed.lock("lock")


def test_what_a_killed_process_did_not_sync_is_still_not_durable(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"old")
    disk.sync_directory("")
    write(disk, "a", b"new")
    killed = disk.kill()
    assert found_after_crashes(killed, content_of("a")) == {b"old", b"new"}
    killed.open("a").sync()
    assert found_after_crashes(killed, content_of("a")) == {b"new"}
    assert found_after_crashes(disk, content_of("a")) == {b"old", b"new"}


# Faults


def test_the_nth_call_of_a_kind_fails_once(disk: SimulatedDisk) -> None:
    fault = disk.fail(Fault(["sync"], nth=2, code=errno.EIO))
    file = disk.open("a", create=True)
    file.sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert [call.operation for call in fault.struck] == ["sync"]


def test_a_sticky_fault_stays_until_the_disk_heals(disk: SimulatedDisk) -> None:
    disk.fail(Fault(["create", "rename"], sticky=True))
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            disk.open("a", create=True)
    disk.heal()
    disk.open("a", create=True)


def test_a_fault_can_be_meant_for_one_path(disk: SimulatedDisk) -> None:
    disk.fail(Fault(["create"], path_part="orders-0/", sticky=True))
    disk.make_directory("orders-0")
    write(disk, "other", b"")
    with pytest.raises(OSError, match="Input/output error"):
        write(disk, "orders-0/00.log", b"")


def test_a_failed_write_may_have_written_a_part(disk: SimulatedDisk) -> None:
    sizes = set()
    for seed in range(40):
        disk = SimulatedDisk(seed=seed)
        disk.fail(Fault(["write"], code=errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            write(disk, "a", b"x" * 100)
        sizes.add(disk.size("a"))
    assert len(sizes) > 10
    assert max(sizes) <= 100


def test_after_a_failed_sync_the_next_one_succeeds_and_the_bytes_are_lost(disk: SimulatedDisk) -> None:
    found = set()
    for seed in range(60):
        disk = SimulatedDisk(seed=seed)
        file = disk.open("a", create=True)
        disk.sync_directory("")
        file.write_at(0, [b"x" * 512])
        disk.fail(Fault(["sync"]))
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        file.write_at(512, [b"y" * 512])
        file.sync()
        assert file.read_at(0, 1024) == b"x" * 512 + b"y" * 512
        found |= {content_of("a")(disk.crash(Random(1))), content_of("a")(disk.crash(Random(2)))}
    assert found == {b"x" * 512 + b"y" * 512, bytes(512) + b"y" * 512}


def test_a_failed_sync_of_a_folder_promises_nothing_and_the_next_one_does() -> None:
    found = set()
    for seed in range(60):
        disk = SimulatedDisk(seed=seed)
        write_synced(disk, "a", b"")
        disk.fail(Fault(["sync_directory"]))
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync_directory("")
        found |= {names(disk.crash(Random(1))), names(disk.crash(Random(2)))}
        disk.sync_directory("")
        assert names(disk.crash(Random(3))) == ("a",)
    assert found == {("a",), ()}


def test_a_full_disk_takes_what_fits_and_refuses_the_rest(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 2048
    write(disk, "a", b"x" * 1500)
    with pytest.raises(OSError, match="No space left"):
        write(disk, "b", b"y" * 600)
    assert disk.size("b") == 512
    assert read_whole(disk, "a") == b"x" * 1500


def test_space_comes_back_with_a_deleted_or_shorter_file(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 1024
    write(disk, "a", b"x" * 1024)
    disk.delete("a")
    write(disk, "b", b"y" * 1024)
    disk.open("b").truncate(10)
    write(disk, "c", b"z" * 512)
    write(disk, "c", b"Z" * 512)
    assert read_whole(disk, "c") == b"Z" * 512


def test_a_flipped_bit_is_on_the_disk_and_in_memory(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"abc")
    disk.sync_directory("")
    disk.flip_bit("a", 8)
    assert read_whole(disk, "a") == b"acc"
    assert found_after_crashes(disk, content_of("a")) == {b"acc"}


def test_sectors_are_zeroed_and_swapped(disk: SimulatedDisk) -> None:
    write_synced(disk, "a", b"x" * 512 + b"y" * 512 + b"z" * 100)
    disk.zero_sector("a", 2)
    disk.swap_sectors("a", 0, 1)
    assert read_whole(disk, "a") == b"y" * 512 + b"x" * 512 + bytes(100)


def test_calls_are_counted_and_shown_in_their_order(disk: SimulatedDisk) -> None:
    seen: list[Call] = []
    disk.on_call = seen.append
    replace_durably(disk, "point", b"12345")
    assert [(call.operation, call.path) for call in seen] == [
        ("create", "point.new"),
        ("truncate", "point.new"),
        ("write", "point.new"),
        ("sync", "point.new"),
        ("rename", "point"),
        ("sync_directory", ""),
    ]
    assert seen[2] == Call(3, "write", "point.new", 0, 5)
    assert all(call.changing for call in seen)
    assert disk.calls == 6
