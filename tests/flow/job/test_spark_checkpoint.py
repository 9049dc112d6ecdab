import json
from pathlib import Path
from uuid import UUID

import pytest

from headwater.errors import JobRefused
from headwater.flow.job.accounts import Account
from headwater.flow.job.folder import BatchRecord, JobFolder
from headwater.flow.job.spark_checkpoint import keep_planned, mend
from headwater.log.storage import LocalStorage
from headwater.log.storage.local import LocalFile

WHOLE = "v1\n{}\n{}"


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job that has finished batches 0 and 1 and begun batch 2."""
    folder = JobFolder(tmp_path / "orders")
    for name in ("metadata", ".metadata.crc", "offsets/0", "offsets/1", "offsets/2", "commits/0", "commits/1"):
        write(folder, name, '{"id": "a"}' if name == "metadata" else WHOLE)
    for batch in (0, 1):
        folder.finish(BatchRecord(batch, {}, {"orders": {0: 10}}, {"totals": Account()}))
    return folder


def write(folder: JobFolder, name: str, content: str) -> None:
    file = folder.spark / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def names(folder: JobFolder) -> set[str]:
    return {str(file.relative_to(folder.spark)) for file in folder.spark.rglob("*") if file.is_file()}


def test_a_checkpoint_that_is_whole_stays_as_it_is(folder: JobFolder) -> None:
    before = names(folder)
    mend(folder)
    assert names(folder) == before


def test_a_job_that_has_never_run_has_nothing_to_mend(tmp_path: Path) -> None:
    mend(JobFolder(tmp_path / "orders"))


@pytest.mark.parametrize("name", ["offsets/2", "commits/1"])
def test_a_file_that_a_power_cut_has_left_empty_is_removed_with_its_checksum(folder: JobFolder, name: str) -> None:
    before = names(folder)
    write(folder, name, "")
    place = Path(name)
    write(folder, str(place.with_name(f".{place.name}.crc")), "crc")
    mend(folder)
    assert names(folder) == before - {name, str(place.with_name(f".{place.name}.crc"))}


def test_all_that_a_power_cut_has_left_empty_is_removed_in_whatever_order_it_is_found(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("offsets/2", "commits/1", "offsets/.2.crc", "commits/.1.crc"):
        write(folder, name, "")
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda self: iter(sorted(listed(self), reverse=True)))
    mend(folder)
    assert not {"offsets/2", "commits/1", "offsets/.2.crc", "commits/.1.crc"} & names(folder)


@pytest.mark.parametrize("lost", [True, False])
def test_an_id_that_a_power_cut_has_taken_is_replaced_for_spark_goes_nowhere_without(
    folder: JobFolder, lost: bool
) -> None:
    write(folder, "metadata", "")
    if lost:
        (folder.spark / "metadata").unlink()
    mend(folder)
    UUID(json.loads((folder.spark / "metadata").read_bytes())["id"])
    assert ".metadata.crc" not in names(folder), "it is that of the old one"


def test_an_empty_checksum_is_removed_and_what_it_is_of_stays(folder: JobFolder) -> None:
    before = names(folder)
    write(folder, "offsets/.2.crc", "")
    mend(folder)
    assert names(folder) == before


def test_the_lost_end_of_a_finished_batch_is_refused(folder: JobFolder) -> None:
    write(folder, "offsets/1", "")
    with pytest.raises(JobRefused, match="batch 1 is finished: nobody knows where it ended"):
        mend(folder)


def test_where_a_batch_ends_is_on_the_disk_when_it_is_kept(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(LocalFile, "sync", lambda self: synced.append("file"))
    monkeypatch.setattr(LocalStorage, "sync_directory", lambda self, path: synced.append(path))
    keep_planned(folder, 2)
    assert synced == ["file", "offsets"]
