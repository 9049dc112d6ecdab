import threading
from collections.abc import Callable

import pytest

from headwater.errors import ArchiveUnavailable
from headwater.log.archive_store import FolderStore
from headwater.log.archived_segment import BLOCK_BYTES, ArchivedFile, BlockCache
from headwater.log.storage import MemoryStorage
from tests.log.subjects import in_threads
from tests.waiting import LONG


class CountedStore(FolderStore):
    def __init__(self) -> None:
        super().__init__(MemoryStorage(), "archive")
        self.reads: list[tuple[int, int]] = []

    def read(self, name: str, position: int, length: int) -> bytes:
        self.reads.append((position, length))
        return super().read(name, position, length)


DATA = bytes(range(256)) * (3 * BLOCK_BYTES // 256) + b"the end"


@pytest.fixture
def store() -> CountedStore:
    store = CountedStore()
    store.put("c/a.log", [DATA])
    return store


def file_of(store: CountedStore, blocks: BlockCache | None = None) -> ArchivedFile:
    return ArchivedFile(store, blocks or BlockCache(), "c/a.log", len(DATA))


@pytest.mark.parametrize("position", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES - 5, len(DATA) - 1])
@pytest.mark.parametrize("length", [0, 1, 100, BLOCK_BYTES, 2 * BLOCK_BYTES, len(DATA)])
def test_any_range_is_the_bytes_of_the_object(store: CountedStore, position: int, length: int) -> None:
    assert file_of(store).read_at(position, length) == DATA[position : position + length]


def test_past_the_end_there_is_nothing(store: CountedStore) -> None:
    file = file_of(store)
    assert (file.size(), file.read_at(len(DATA), 5), file.read_at(len(DATA) + BLOCK_BYTES, 5)) == (len(DATA), b"", b"")
    assert store.reads == []


def test_going_through_it_asks_once_for_each_block(store: CountedStore) -> None:
    file = file_of(store)
    read = b"".join(file.read_at(position, 10_000) for position in range(0, len(DATA), 10_000))
    assert read == DATA
    assert store.reads == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES), (2 * BLOCK_BYTES, BLOCK_BYTES),
                           (3 * BLOCK_BYTES, len(b"the end"))]  # fmt: skip


def test_a_cached_read_never_asks_the_archive(store: CountedStore) -> None:
    file = file_of(store)
    assert file.read_cached(10, 100) is None
    file.read_at(0, 1)
    assert file.read_cached(10, 100) == DATA[10:110]
    assert file.read_cached(BLOCK_BYTES - 10, 20) is None
    assert store.reads == [(0, BLOCK_BYTES)]


def test_the_cache_keeps_what_was_used_last_and_not_more_than_its_bound(store: CountedStore) -> None:
    blocks = BlockCache(bytes_max=2 * BLOCK_BYTES)
    file = file_of(store, blocks)
    for number in (0, 1, 0, 2):
        file.read_at(number * BLOCK_BYTES, 1)
    assert blocks.size_bytes == 2 * BLOCK_BYTES
    kept = [file.read_cached(number * BLOCK_BYTES, 1) is not None for number in (0, 1, 2)]
    assert kept == [True, False, True]


def test_an_object_larger_than_the_cache_can_be_read_whole(store: CountedStore) -> None:
    assert file_of(store, BlockCache(bytes_max=100)).read_at(0, len(DATA)) == DATA


def test_many_who_ask_for_the_same_block_at_once_share_one_answer(store: CountedStore) -> None:
    blocks, asked, arrived = BlockCache(), [], threading.Event()

    def fetch() -> bytes:
        asked.append(1)
        arrived.wait(LONG)
        return b"block"

    def reader(answers: list[bytes]) -> Callable[[], None]:
        return lambda: answers.append(blocks.load(("a", 5, 0), fetch))

    answers: list[bytes] = []
    in_threads([*[reader(answers) for _ in range(4)], lambda: arrived.set()])
    assert answers == [b"block"] * 4
    assert len(asked) == 1


def test_a_block_that_could_not_be_fetched_is_asked_for_again() -> None:
    def fail() -> bytes:
        raise ArchiveUnavailable("a", "away")

    blocks = BlockCache()
    with pytest.raises(ArchiveUnavailable):
        blocks.load(("a", 5, 0), fail)
    assert blocks.load(("a", 5, 0), lambda: b"block") == b"block"


def test_an_object_shorter_than_its_entry_says_is_not_served(store: CountedStore) -> None:
    store.put("c/a.log", [DATA[:100]])
    with pytest.raises(ArchiveUnavailable, match="100 bytes instead of"):
        file_of(store).read_at(0, 50)


def test_it_cannot_be_written(store: CountedStore) -> None:
    file = file_of(store)
    for change in (lambda: file.write_at(0, [b"x"]), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError, match="Read-only"):
            change()
