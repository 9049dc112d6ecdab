import json
from collections.abc import Mapping

import pytest

from headwater.small_file import SmallFile, copy_path, read_newest, seal, unseal

PATH, COPY = "topics/orders.json", "topics/orders.copy"
OLD, NEW = {"partitions": 1}, {"partitions": 3}


def read(files: Mapping[str, bytes | OSError]) -> SmallFile:
    def bytes_of(path: str) -> bytes:
        found = files.get(path, FileNotFoundError(path))
        if isinstance(found, OSError):
            raise found
        return found

    return read_newest(PATH, bytes_of)


def test_a_sealed_value_is_json_that_any_tool_can_read() -> None:
    assert json.loads(seal(NEW, version=7))["content"] == NEW


def test_every_changed_bit_and_every_cut_is_noticed() -> None:
    whole = seal({"partitions": 3, "configs": {"retention.ms": "1000"}}, version=12)
    for position in range(len(whole)):
        with pytest.raises(ValueError, match="it"):
            unseal(whole[:position])
        for bit in range(8):
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            with pytest.raises(ValueError, match="it"):
                unseal(bytes(changed))


def test_file_and_copy_in_step_say_the_same_without_a_problem() -> None:
    found = read({PATH: seal(NEW, version=2), COPY: seal(NEW, version=2)})
    assert found == SmallFile(PATH, NEW, 2)


@pytest.mark.parametrize("damaged", [b"", seal(NEW, version=2)[:-9], b"\0" * 40, PermissionError(13, "denied"), None])
def test_where_the_file_is_damaged_or_missing_its_copy_counts_and_the_file_is_named(
    damaged: bytes | OSError | None,
) -> None:
    found = read({COPY: seal(NEW, version=2)} | ({} if damaged is None else {PATH: damaged}))
    assert (found.content, found.in_step) == (NEW, False)
    (problem,) = found.problems
    assert PATH in problem


def test_a_file_exchanged_for_an_older_version_is_not_believed() -> None:
    found = read({PATH: seal(OLD, version=4), COPY: seal(NEW, version=9)})
    assert found.content == NEW
    assert found.problems == (f"{PATH} is an older version, 4 instead of 9; its copy is used",)


def test_a_write_that_a_crash_cut_off_between_file_and_copy_is_no_problem() -> None:
    for file, copy in ((4, 5), (5, 4)):
        found = read({PATH: seal({"by": file}, version=file), COPY: seal({"by": copy}, version=copy)})
        assert (found.content, found.problems, found.in_step) == ({"by": 5}, (), False)


def test_a_damaged_or_deleted_copy_is_named_and_the_file_counts() -> None:
    for files in ({PATH: seal(NEW, version=2), COPY: b"x"}, {PATH: seal(NEW, version=2)}):
        found = read(files)
        assert found.content == NEW
        assert COPY in found.problems[0]


def test_if_neither_can_be_believed_the_error_says_what_is_wrong_with_each() -> None:
    with pytest.raises(ValueError, match=rf"it is empty; its copy {COPY} neither: it is not what was written"):
        read({PATH: b"", COPY: b"x"})


def test_if_neither_is_there_it_is_a_missing_file() -> None:
    with pytest.raises(FileNotFoundError):
        read({})


def test_a_file_of_an_earlier_release_is_read_without_checksum_or_copy() -> None:
    assert read({PATH: json.dumps(OLD, indent=1).encode()}) == SmallFile(PATH, OLD, 0, in_step=False)


def test_a_copy_without_a_checksum_is_never_believed() -> None:
    with pytest.raises(ValueError, match="it is missing"):
        read({COPY: json.dumps(OLD).encode()})


def test_a_path_without_json_at_its_end_has_a_copy_too() -> None:
    assert copy_path("t-0/checkpoint") == "t-0/checkpoint.copy"
