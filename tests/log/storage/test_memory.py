import pytest

from headwater.clock import ManualClock
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.storage import Storage
from tests.contracts.storage import StorageContract


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()

    @pytest.fixture
    def reopened(self, storage: Storage) -> Storage:
        return storage


def test_files_change_at_the_time_of_the_clock_handed_in() -> None:
    clock = ManualClock(wall_ms=5_000)
    storage = MemoryStorage(clock)
    file = storage.open("a", create=True)
    clock.advance(70)
    file.write_at(0, [b"x"])
    clock.advance(1)
    assert storage.modified_ms("a") == 5_070
