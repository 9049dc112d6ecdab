import pytest
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
    assert storage.list(FOLDER) == ["checkpoint"]


def test_no_checkpoint_is_none(storage: MemoryStorage) -> None:
    assert read_checkpoint(storage, FOLDER) is None


def test_a_checkpoint_cut_or_changed_anywhere_is_not_believed(storage: MemoryStorage) -> None:
    write_checkpoint(storage, FOLDER, NOTED)
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


@given(content=st.binary(max_size=60))
def test_anything_else_in_its_place_is_not_believed(content: bytes) -> None:
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
