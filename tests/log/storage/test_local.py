import os
from pathlib import Path

import pytest

from headwater.log.storage.local import LocalStorage
from headwater.log.storage.storage import Storage
from tests.contracts.storage import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path)

    @pytest.fixture
    def reopened(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path)

    def test_the_lock_dies_with_its_process(self, tmp_path: Path) -> None:
        child = os.fork()
        if child == 0:
            LocalStorage(tmp_path).lock("lock")
            os._exit(0)
        os.waitpid(child, 0)
        storage = LocalStorage(tmp_path)
        storage.lock("lock")
        storage.close()
