import json
from contextlib import nullcontext
from dataclasses import asdict, replace

import pytest
from crc32c import crc32c

from headwater.errors import DamagedFile
from headwater.log.archive_manifest import NAME, ArchiveEntry, State, read_manifest, write_manifest
from headwater.log.storage import MemoryStorage, read_whole

ENTRY = ArchiveEntry(
    state=State.ARCHIVED, base_offset=5, next_offset=9, size=800, index_size=16, time_index_size=24,
    largest_timestamp_ms=1_000, largest_timestamp_offset=7, last_append_ms=2_000, crc32c=0xCAFE,
)  # fmt: skip


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage()
    storage.make_directory("t-0")
    return storage


def test_a_partition_without_a_manifest_has_nothing_in_the_archive(storage: MemoryStorage) -> None:
    assert read_manifest(storage, "t-0") == {}


def test_entries_are_read_as_they_were_written(storage: MemoryStorage) -> None:
    entries = {5: ENTRY, 9: replace(ENTRY, state=State.COPYING, base_offset=9), 2: replace(ENTRY, base_offset=2)}
    write_manifest(storage, "t-0", entries)
    assert read_manifest(storage, "t-0") == entries


@pytest.mark.parametrize("state", State)
def test_every_state_is_written_as_its_word(storage: MemoryStorage, state: State) -> None:
    write_manifest(storage, "t-0", {5: replace(ENTRY, state=state)})
    assert f'"state":"{state.value}"'.encode() in read_whole(storage, f"t-0/{NAME}")


@pytest.mark.parametrize(
    "damaged", [b"", b"{}", b"[]", b'{"crc32c": 0, "segments": 1}', b'{"crc32c": 0, "segments": []}']
)
def test_a_manifest_that_makes_no_sense_is_not_taken_for_an_empty_one(storage: MemoryStorage, damaged: bytes) -> None:
    storage.open(f"t-0/{NAME}", create=True).write_at(0, [damaged])
    with pytest.raises(DamagedFile, match=NAME):
        read_manifest(storage, "t-0")


def test_a_changed_digit_is_noticed(storage: MemoryStorage) -> None:
    write_manifest(storage, "t-0", {5: ENTRY})
    content = read_whole(storage, f"t-0/{NAME}")
    assert content.count(b"800") == 1
    storage.open(f"t-0/{NAME}").write_at(0, [content.replace(b"800", b"801")])
    said: list[str] = []
    assert read_manifest(storage, "t-0", said.append) == {5: ENTRY}
    assert NAME in said[0]
    storage.delete("t-0/archive.copy")
    with pytest.raises(DamagedFile, match="checksum"):
        read_manifest(storage, "t-0")


def test_a_manifest_of_an_earlier_release_is_read(storage: MemoryStorage) -> None:
    rows = [{**asdict(ENTRY), "state": "archived"}]
    checksum = crc32c(json.dumps(rows, sort_keys=True, separators=(",", ":")).encode())
    for said, expected in ((checksum, True), (checksum + 1, False)):
        file = storage.open(f"t-0/{NAME}", create=True)
        file.truncate(0)
        file.write_at(0, [json.dumps({"crc32c": said, "segments": rows}).encode()])
        with nullcontext() if expected else pytest.raises(DamagedFile, match=NAME):
            assert read_manifest(storage, "t-0") == {5: replace(ENTRY, state=State.ARCHIVED)}
