import shutil
from pathlib import Path

import pytest

from headwater.errors import JobRefused
from headwater.flow.objects.bucket_objects import BucketObjects
from headwater.flow.objects.checkpoint import Checkpoint
from headwater.flow.objects.checkpoint_files import CheckpointFiles
from headwater.flow.objects.folder_objects import FolderObjects
from headwater.flow.state import EMPTY
from headwater.flow.state.files import StateFiles
from headwater.flow.state.object_files import ObjectFiles
from headwater.flow.state.runs.open_runs import open_files
from tests.flow.state.files_contract import FilesContract, stored
from tests.flow.state.subjects import content_of, run_batch, store_on


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return tmp_path / "remote"


@pytest.fixture
def cached(remote: Path, tmp_path: Path) -> ObjectFiles:
    return ObjectFiles(FolderObjects(str(remote)), cache=tmp_path / "cache")


def lose(remote: Path) -> None:
    shutil.rmtree(remote)


class TestFilesInAFolder(FilesContract):
    @pytest.fixture
    def files(self, cached: ObjectFiles) -> StateFiles:
        return cached


class TestFilesInABucket(FilesContract):
    @pytest.fixture
    def files(self, s3: str, tmp_path: Path) -> StateFiles:
        return ObjectFiles(BucketObjects(s3), cache=tmp_path / "cache")


class TestFilesOfACheckpoint(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> StateFiles:
        checkpoint = Checkpoint(FolderObjects(str(tmp_path / "kept")), "job")
        checkpoint.take("a test")
        return CheckpointFiles(checkpoint, "state/count", open_files(f"{checkpoint.url}/state/count"))

    def test_files_are_listed_by_name_with_size_and_time(self, files: StateFiles) -> None:
        files.replace("versions/a", b"12")
        assert [(one.name, one.bytes) for one in files.list("versions")] == [("a", 2)]
        assert all(one.modified_ms > 1_600_000_000_000 for one in files.times("versions"))


def copies(folder: Path) -> list[int]:
    return sorted(copy.stat().st_size for copy in folder.glob("*"))


def test_a_file_is_fetched_once(cached: ObjectFiles, remote: Path) -> None:
    stored(cached, "runs/a", b"content")
    cached.forget("runs/a")
    cached.map("runs/a")
    lose(remote)
    assert cached.map("runs/a").to_pybytes() == b"content"


def test_what_was_written_need_not_be_fetched(cached: ObjectFiles, remote: Path) -> None:
    stored(cached, "runs/a", b"content")
    lose(remote)
    assert cached.map("runs/a").to_pybytes() == b"content"


def test_the_cache_may_be_deleted_at_any_time(cached: ObjectFiles, tmp_path: Path) -> None:
    stored(cached, "runs/a", b"content")
    for copy in (tmp_path / "cache").iterdir():
        copy.unlink()
    (tmp_path / "cache").rmdir()
    assert cached.map("runs/a").to_pybytes() == b"content"


def test_the_cache_stays_within_its_bound(tmp_path: Path) -> None:
    files = ObjectFiles(FolderObjects(str(tmp_path / "remote")), cache=tmp_path / "cache", cache_bytes_max=250)
    for name in "abcde":
        stored(files, f"runs/{name}", b"x" * 100)
    assert copies(tmp_path / "cache") == [100, 100]
    assert all(files.map(f"runs/{name}").to_pybytes() == b"x" * 100 for name in "abcde")
    assert copies(tmp_path / "cache") == [100, 100]


def test_a_single_file_larger_than_the_cache_is_still_readable(tmp_path: Path) -> None:
    files = ObjectFiles(FolderObjects(str(tmp_path / "remote")), cache=tmp_path / "cache", cache_bytes_max=10)
    stored(files, "runs/a", b"x" * 100)
    assert files.map("runs/a").to_pybytes() == b"x" * 100


def test_stores_of_different_places_share_a_cache_without_mixing(tmp_path: Path) -> None:
    one, other = (
        ObjectFiles(FolderObjects(str(tmp_path / name)), cache=tmp_path / "cache") for name in ("one", "other")
    )
    stored(one, "runs/a", b"1")
    stored(other, "runs/a", b"2")
    assert (one.map("runs/a").to_pybytes(), other.map("runs/a").to_pybytes()) == (b"1", b"2")


def test_a_damaged_copy_is_fetched_again(cached: ObjectFiles, tmp_path: Path) -> None:
    store = store_on(cached, 1)
    run_batch(store, 0, {1: 10}, EMPTY)
    for copy in (tmp_path / "cache").glob("*.copy"):
        copy.write_bytes(b"\0" * copy.stat().st_size)
    assert content_of(store_on(cached, 1), 0) == {1: 10}


def test_state_works_through_a_remote_place(cached: ObjectFiles) -> None:
    store = store_on(cached, 2)
    for version in range(6):
        run_batch(store, version, {version: version, version - 2: None})
    store.clean(2)
    again = store_on(cached, 2)
    assert again.versions() == [4, 5]
    assert content_of(again, 5) == {4: 4, 5: 5}
    assert again.check() == []


def test_a_place_that_there_is_no_way_to_is_said_in_one_sentence() -> None:
    with pytest.raises(JobRefused, match=r"^state cannot be kept at hdfs://.* Use s3://BUCKET/PATH, gs:"):
        BucketObjects("hdfs://name/x").read("a")


@pytest.mark.parametrize(
    "url, kind", [("s3://bucket/x", "ObjectFiles"), ("/tmp/x", "DiskFiles"), ("file:///x", "DiskFiles")]
)
def test_the_place_decides_how_files_are_reached(url: str, kind: str) -> None:
    assert type(open_files(url)).__name__ == kind
