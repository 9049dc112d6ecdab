from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headwater.errors import ArchiveUnavailable, InvalidSetting, LogClosed
from headwater.log.archive_store import ArchiveStore, FolderStore, FsspecStore, open_store
from headwater.log.storage import LocalStorage, MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from tests.log.flaky_files import URL, away, flaky_files


class ArchiveStoreContract:
    def test_an_object_is_read_as_it_was_put(self, store: ArchiveStore) -> None:
        store.put("cluster/topic/0/a.log", [b"one", b"", b"two"])
        assert store.size("cluster/topic/0/a.log") == 6
        assert store.read("cluster/topic/0/a.log", 0, 6) == b"onetwo"

    def test_any_range_can_be_read(self, store: ArchiveStore) -> None:
        store.put("a", [b"abcdef"])
        assert [store.read("a", start, 2) for start in range(5)] == [b"ab", b"bc", b"cd", b"de", b"ef"]

    def test_an_object_may_be_empty(self, store: ArchiveStore) -> None:
        store.put("folder/a", [])
        assert store.size("folder/a") == 0

    def test_putting_again_replaces_the_whole(self, store: ArchiveStore) -> None:
        store.put("folder/a", [b"the first and longer one"])
        store.put("folder/a", [b"second"])
        assert store.size("folder/a") == 6
        assert store.read("folder/a", 0, 6) == b"second"

    def test_a_deleted_object_is_not_found_and_may_be_deleted_again(self, store: ArchiveStore) -> None:
        store.put("folder/a", [b"x"])
        store.put("folder/b", [b"y"])
        store.delete("folder/a")
        store.delete("folder/a")
        store.delete("nowhere/a")
        with pytest.raises(ArchiveUnavailable):
            store.size("folder/a")
        assert store.read("folder/b", 0, 1) == b"y"

    def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else(self, store: ArchiveStore) -> None:
        for name in ("c/t-1/0/a", "c/t-1/1/a", "c/t-10/0/a"):
            store.put(name, [b"x"])
        store.delete_folder("c/t-1")
        store.delete_folder("c/t-1")
        for name in ("c/t-1/0/a", "c/t-1/1/a"):
            with pytest.raises(ArchiveUnavailable):
                store.read(name, 0, 1)
        assert store.read("c/t-10/0/a", 0, 1) == b"x"

    def test_a_folder_that_was_deleted_can_be_filled_again(self, store: ArchiveStore) -> None:
        store.put("c/t/0/a", [b"old"])
        store.delete_folder("c/t")
        store.put("c/t/0/a", [b"new"])
        assert store.read("c/t/0/a", 0, 3) == b"new"

    def test_a_missing_object_is_an_archive_that_does_not_serve(self, store: ArchiveStore) -> None:
        with pytest.raises(ArchiveUnavailable):
            store.size("nowhere")
        with pytest.raises(ArchiveUnavailable):
            store.read("nowhere", 0, 1)

    def test_what_the_giver_of_the_pieces_raises_is_not_the_archives_fault(self, store: ArchiveStore) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"half"
            raise LogClosed

        with pytest.raises(LogClosed):
            store.put("folder/a", pieces())
        store.put("folder/a", [b"whole"])
        assert store.read("folder/a", 0, 5) == b"whole"


class TestAFolderBesideTheLog(ArchiveStoreContract):
    @pytest.fixture
    def store(self) -> ArchiveStore:
        return open_store("", MemoryStorage())


class TestALocalFolder(ArchiveStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ArchiveStore:
        return open_store(f"file://{tmp_path}/some/archive", MemoryStorage())

    def test_it_lies_where_the_url_says(self, store: ArchiveStore, tmp_path: Path) -> None:
        store.put("c/a", [b"here"])
        assert (tmp_path / "some/archive/c/a").read_bytes() == b"here"


class TestAnFsspecFileSystem(ArchiveStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[ArchiveStore]:
        with flaky_files():
            yield open_store(URL, MemoryStorage())


def test_a_plain_path_is_a_local_folder(tmp_path: Path) -> None:
    assert isinstance(open_store(str(tmp_path), MemoryStorage()), FolderStore)
    assert isinstance(open_store("memory://archive", MemoryStorage()), FsspecStore)


@pytest.mark.parametrize("url", ["nonsense://archive", "simplecache::nonsense://archive"])
def test_a_url_of_an_unknown_kind_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="archive_url"):
        open_store(url, MemoryStorage())


def test_a_password_in_the_url_is_not_shown() -> None:
    with flaky_files() as files:
        store = open_store("flaky://ada:secret@host/archive", MemoryStorage())
        files.on_call = staticmethod(away)
        with pytest.raises(ArchiveUnavailable, match="flaky://ada@host/archive: no route to host") as failure:
            store.size("a")
    assert "secret" not in str(failure.value)


def test_errors_of_any_kind_of_file_system_are_one_kind() -> None:
    def strange(operation: str, path: str) -> None:
        raise RuntimeError

    with flaky_files() as files:
        store = open_store(URL, MemoryStorage())
        files.on_call = staticmethod(strange)
        with pytest.raises(ArchiveUnavailable, match="RuntimeError"):
            store.put("a/b", [b"x"])


def test_a_folder_on_a_broken_disk_does_not_serve(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(b"not a folder")
    store = open_store(f"{tmp_path}/archive", LocalStorage(tmp_path))
    with pytest.raises(ArchiveUnavailable, match="archive"):
        store.put("c/a", [b"x"])


@pytest.mark.parametrize("seed", range(30))
def test_an_object_in_a_folder_survives_a_power_cut_once_it_was_put(seed: int) -> None:
    disk = SimulatedDisk()
    open_store("", disk).put("c/t/0/a", [b"x" * 1000, b"y" * 1000])
    store = open_store("", disk.crash(Random(seed)))
    assert store.read("c/t/0/a", 0, 2000) == b"x" * 1000 + b"y" * 1000
