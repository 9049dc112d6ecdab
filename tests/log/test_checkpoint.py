import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.checkpoint import Checkpoint, DurableWitness, read_checkpoint, write_checkpoint
from headwater.log.storage.storage import read_whole
from headwater.testing import MemoryStorage

FOLDER = "t-0"
NOTED = Checkpoint(3, 40, 30, 1234, [[7, 1, [[0, 4, 10, 14, -1], [5, 5, 20, 20, 99]]]])


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage()
    storage.make_directory(FOLDER)
    return storage


def test_a_checkpoint_comes_back_as_it_was_written(storage: MemoryStorage) -> None:
    write_checkpoint(storage, FOLDER, NOTED)
    assert read_checkpoint(storage, FOLDER) == NOTED
    write_checkpoint(storage, FOLDER, Checkpoint())
    assert read_checkpoint(storage, FOLDER) == Checkpoint()
    assert storage.list(FOLDER) == ["checkpoint", "checkpoint.copy"]


def test_no_checkpoint_is_none(storage: MemoryStorage) -> None:
    assert read_checkpoint(storage, FOLDER) is None


def test_a_checkpoint_cut_or_changed_anywhere_is_not_believed(storage: MemoryStorage) -> None:
    write_checkpoint(storage, FOLDER, NOTED)
    storage.delete(f"{FOLDER}/checkpoint.copy")
    whole = read_whole(storage, f"{FOLDER}/checkpoint")
    file = storage.open(f"{FOLDER}/checkpoint")
    for position in range(len(whole) - 1):
        file.truncate(position)
        assert read_checkpoint(storage, FOLDER) is None
        file.write_at(0, [whole])
        file.write_at(position, [bytes([whole[position] ^ 0x01])])
        assert read_checkpoint(storage, FOLDER) is None
        file.write_at(0, [whole])
    assert read_checkpoint(storage, FOLDER) == NOTED


def test_a_damaged_checkpoint_is_named_and_its_copy_used(storage: MemoryStorage) -> None:
    write_checkpoint(storage, FOLDER, NOTED)
    storage.open(f"{FOLDER}/checkpoint").truncate(20)
    said: list[str] = []
    assert read_checkpoint(storage, FOLDER, said.append) == NOTED
    assert f"{FOLDER}/checkpoint" in said[0]


def test_a_checkpoint_of_an_earlier_release_is_read_with_its_own_checksum(storage: MemoryStorage) -> None:
    body = b'{"start_offset":3,"recovery_offset":40,"segment":30,"position":1234,"producers":[]}'
    file = storage.open(f"{FOLDER}/checkpoint", create=True)
    file.write_at(0, [b"%08x\n%s\n" % (crc32c(body), body)])
    assert read_checkpoint(storage, FOLDER) == Checkpoint(3, 40, 30, 1234)
    file.write_at(30, [b"9"])
    assert read_checkpoint(storage, FOLDER) is None


@given(content=st.binary(max_size=60))
def test_any_other_content_is_no_checkpoint(content: bytes) -> None:
    storage = MemoryStorage()
    storage.make_directory(FOLDER)
    storage.open(f"{FOLDER}/checkpoint", create=True).write_at(0, [content])
    assert read_checkpoint(storage, FOLDER) is None


@given(offsets=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5))
def test_the_witness_remembers_the_last_claim(offsets: list[int]) -> None:
    storage = MemoryStorage()
    storage.make_directory(FOLDER)
    witness = DurableWitness.open(storage, FOLDER)
    assert witness.claimed() == 0
    for offset in offsets:
        witness.claim(offset)
    witness.close()
    assert DurableWitness.open(storage, FOLDER).claimed() == offsets[-1]
    assert storage.size(f"{FOLDER}/durable") == 12


def test_a_witness_whose_words_were_changed_claims_nothing(storage: MemoryStorage) -> None:
    witness = DurableWitness.open(storage, FOLDER)
    witness.claim(1_000_000)
    whole = read_whole(storage, f"{FOLDER}/durable")
    file = storage.open(f"{FOLDER}/durable")
    for bit in range(12 * 8):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_at(0, [changed])
        assert witness.claimed() == 0
    file.write_at(0, [whole])
    file.truncate(11)
    assert witness.claimed() == 0
