import errno
from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.errors import DamagedFile
from headwater.log.storage import (
    delete_small_file,
    problems_of,
    read_small_file,
    recover_small_file,
    write_small_file,
)
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.simulated import Call, Fault, SimulatedDisk
from headwater.log.storage.storage import read_whole, replace_durably

PATH, COPY = "folder/limits.json", "folder/limits.copy"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(ManualClock())
    disk.make_directory("folder")
    disk.sync_directory("")
    return disk


def overwrite(storage: MemoryStorage, path: str, data: bytes) -> None:
    file = storage.open(path, create=True)
    file.truncate(0)
    file.write_at(0, [data])


def test_what_was_written_last_is_read(disk: SimulatedDisk) -> None:
    for number in range(3):
        write_small_file(disk, PATH, [number])
    found = read_small_file(disk, PATH)
    assert (found.content, found.version, found.problems) == ([2], 3, ())
    assert disk.list("folder") == ["limits.copy", "limits.json"]


def test_the_longest_name_has_a_copy_too(disk: SimulatedDisk) -> None:
    path = f"folder/{'n' * 249}.json"
    write_small_file(disk, path, 1)
    disk.delete(path)
    assert read_small_file(disk, path).content == 1
    assert max(map(len, disk.list("folder"))) == 254


@pytest.mark.parametrize("damage", ["deleted", "empty", "cut", "flipped", "older"])
@pytest.mark.parametrize("path", [PATH, COPY])
def test_damage_to_file_or_copy_is_named_and_undone_by_its_owner(disk: SimulatedDisk, path: str, damage: str) -> None:
    write_small_file(disk, PATH, {"bytes": 1})
    older = read_whole(disk, path)
    for number in (2, 3):
        write_small_file(disk, PATH, {"bytes": number})
    whole = read_whole(disk, path)
    match damage:
        case "deleted":
            disk.delete(path)
        case "empty":
            overwrite(disk, path, b"")
        case "cut":
            overwrite(disk, path, whole[:20])
        case "flipped":
            overwrite(disk, path, whole.replace(b"3}}", b"7}}"))
        case "older":
            overwrite(disk, path, older)
    found = recover_small_file(disk, PATH)
    assert found.content == {"bytes": 3}
    assert found.problems
    assert all(path in problem for problem in found.problems)
    assert problems_of(disk, PATH) == []
    disk.delete(COPY if path == PATH else PATH)
    assert read_small_file(disk, PATH).content == {"bytes": 3}, "both were written again"


def test_if_neither_is_sound_the_error_names_the_file(disk: SimulatedDisk) -> None:
    write_small_file(disk, PATH, 1)
    overwrite(disk, PATH, b"")
    overwrite(disk, COPY, b"")
    with pytest.raises(DamagedFile, match=PATH):
        read_small_file(disk, PATH)
    assert PATH in problems_of(disk, PATH)[0]
    write_small_file(disk, PATH, 2)
    assert read_small_file(disk, PATH).content == 2


def test_a_file_of_an_earlier_release_is_read_and_gets_its_checksum_with_the_next_write(disk: SimulatedDisk) -> None:
    replace_durably(disk, PATH, b'{"bytes": 5}')
    assert recover_small_file(disk, PATH).content == {"bytes": 5}
    assert disk.list("folder") == ["limits.json"]
    write_small_file(disk, PATH, {"bytes": 6})
    assert read_small_file(disk, PATH).version == 1
    replace_durably(disk, PATH, b'{"bytes": 5}')
    assert read_small_file(disk, PATH).content == {"bytes": 6}, "what has had a checksum is not believed without"


def test_a_crash_at_any_call_leaves_the_old_or_the_new_and_nothing_that_looks_like_damage(disk: SimulatedDisk) -> None:
    write_small_file(disk, PATH, "old")
    crashed: list[MemoryStorage] = []

    def crash(call: Call) -> None:
        if call.changing:
            crashed.append(disk.kill())
            crashed.extend(disk.crash(Random(seed)) for seed in range(8))

    disk.on_call = crash
    write_small_file(disk, PATH, "new")
    disk.on_call = None
    crashed.append(disk.crash(Random(1)))
    for storage in crashed:
        found = recover_small_file(storage, PATH)
        assert found.content in ("old", "new")
        assert found.problems == ()
        storage.delete(PATH)
        assert read_small_file(storage, PATH).content == found.content, "what was read once is never forgotten"
    assert read_small_file(crashed[-1], PATH).content == "new"


def test_a_crash_in_the_first_write_of_a_file_leaves_it_or_nothing_and_nothing_that_looks_like_damage(
    disk: SimulatedDisk,
) -> None:
    crashed: list[MemoryStorage] = []
    disk.on_call = lambda call: crashed.extend(disk.crash(Random(seed)) for seed in range(20))
    write_small_file(disk, PATH, "new")
    disk.on_call = None
    assert any(storage.exists(PATH) for storage in crashed)
    for storage in crashed:
        assert problems_of(storage, PATH) == []


def test_on_a_full_disk_the_old_content_stays_in_both(disk: SimulatedDisk) -> None:
    write_small_file(disk, PATH, "old")
    disk.fail(Fault(["write"], path_part="limits.copy", code=errno.ENOSPC))
    with pytest.raises(OSError, match="limits"):
        write_small_file(disk, PATH, "new")
    for path in (PATH, COPY):
        assert b'"old"' in read_whole(disk, path)


def test_what_the_disk_does_not_give_out_is_not_overwritten_with_an_older_number(disk: SimulatedDisk) -> None:
    for number in range(3):
        write_small_file(disk, PATH, number)
    disk.fail(Fault(["read"], sticky=True))
    with pytest.raises(OSError, match="limits"):
        write_small_file(disk, PATH, "new")
    disk.heal()
    assert read_small_file(disk, PATH).content == 2
    assert write_small_file(disk, PATH, "new", above=10) == 11


def test_a_deleted_small_file_does_not_come_back(disk: SimulatedDisk) -> None:
    write_small_file(disk, PATH, 1)
    delete_small_file(disk, PATH)
    with pytest.raises(FileNotFoundError):
        read_small_file(disk.crash(Random(3)), PATH)
