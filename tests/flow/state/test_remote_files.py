from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from headwater.errors import StateUnavailable
from headwater.flow.state import EMPTY
from headwater.flow.state.files import StateFiles
from headwater.flow.state.remote_files import RemoteFiles
from headwater.flow.state.runs.open_runs import open_files
from tests.flow.state.files_contract import FilesContract, stored
from tests.flow.state.subjects import content_of, run_batch, store_on


@pytest.fixture
def in_memory(tmp_path: Path) -> RemoteFiles:
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return RemoteFiles("memory://state", cache=tmp_path / "cache")


class TestFilesInMemory(FilesContract):
    @pytest.fixture
    def files(self, in_memory: RemoteFiles) -> StateFiles:
        return in_memory


class TestFolderThroughFsspec(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> StateFiles:
        return RemoteFiles(f"file://{tmp_path}/remote", cache=tmp_path / "cache")


def copies(folder: Path) -> list[int]:
    return sorted(copy.stat().st_size for copy in folder.glob("*"))


def test_a_file_is_fetched_once(in_memory: RemoteFiles, tmp_path: Path) -> None:
    stored(in_memory, "runs/a", b"content")
    in_memory.forget("runs/a")
    in_memory.map("runs/a")
    MemoryFileSystem.store.clear()
    assert in_memory.map("runs/a").to_pybytes() == b"content"


def test_what_was_written_need_not_be_fetched(in_memory: RemoteFiles) -> None:
    stored(in_memory, "runs/a", b"content")
    MemoryFileSystem.store.clear()
    assert in_memory.map("runs/a").to_pybytes() == b"content"


def test_the_cache_may_be_deleted_at_any_time(in_memory: RemoteFiles, tmp_path: Path) -> None:
    stored(in_memory, "runs/a", b"content")
    for copy in (tmp_path / "cache").iterdir():
        copy.unlink()
    (tmp_path / "cache").rmdir()
    assert in_memory.map("runs/a").to_pybytes() == b"content"


def test_the_cache_stays_within_its_bound(tmp_path: Path) -> None:
    files = RemoteFiles("memory://bounded", cache=tmp_path, cache_bytes_max=250)
    for name in "abcde":
        stored(files, f"runs/{name}", b"x" * 100)
    assert copies(tmp_path) == [100, 100]
    assert all(files.map(f"runs/{name}").to_pybytes() == b"x" * 100 for name in "abcde")
    assert copies(tmp_path) == [100, 100]


def test_a_single_file_larger_than_the_cache_is_still_readable(tmp_path: Path) -> None:
    files = RemoteFiles("memory://large", cache=tmp_path, cache_bytes_max=10)
    stored(files, "runs/a", b"x" * 100)
    assert files.map("runs/a").to_pybytes() == b"x" * 100


def test_stores_of_different_places_share_a_cache_without_mixing(tmp_path: Path) -> None:
    one, other = (RemoteFiles(f"memory://{name}", cache=tmp_path) for name in ("one", "other"))
    stored(one, "runs/a", b"1")
    stored(other, "runs/a", b"2")
    assert (one.map("runs/a").to_pybytes(), other.map("runs/a").to_pybytes()) == (b"1", b"2")


def test_a_damaged_copy_is_fetched_again(in_memory: RemoteFiles, tmp_path: Path) -> None:
    store = store_on(in_memory, 1)
    run_batch(store, 0, {1: 10}, EMPTY)
    for copy in (tmp_path / "cache").glob("*.copy"):
        copy.write_bytes(b"\0" * copy.stat().st_size)
    assert content_of(store_on(in_memory, 1), 0) == {1: 10}


def test_state_works_through_a_remote_place(in_memory: RemoteFiles) -> None:
    store = store_on(in_memory, 2)
    for version in range(6):
        run_batch(store, version, {version: version, version - 2: None})
    store.clean(2)
    again = store_on(in_memory, 2)
    assert again.versions() == [4, 5]
    assert content_of(again, 5) == {4: 4, 5: 5}
    assert again.check() == []


def test_a_place_that_does_not_answer_is_said_in_one_sentence(tmp_path: Path) -> None:
    files = RemoteFiles("nosuchprotocol://x", cache=tmp_path)
    with pytest.raises(StateUnavailable, match="nosuchprotocol"):
        files.list("runs")


@pytest.mark.parametrize(
    "url, kind", [("memory://x", "RemoteFiles"), ("/tmp/x", "DiskFiles"), ("file:///x", "DiskFiles")]
)
def test_the_place_decides_how_files_are_reached(url: str, kind: str) -> None:
    assert type(open_files(url)).__name__ == kind
