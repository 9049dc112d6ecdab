import shutil
from pathlib import Path

import pytest

from headwater.errors import StateUnavailable
from headwater.flow.state.files import DiskFiles, StateFiles
from headwater.log.storage.simulated import Fault, SimulatedDisk
from tests.flow.state.files_contract import FilesContract, stored


class TestLocalFiles(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> StateFiles:
        return DiskFiles.at(str(tmp_path / "app" / "job" / "state"))


class TestSimulatedFiles(FilesContract):
    @pytest.fixture
    def files(self) -> StateFiles:
        return DiskFiles(SimulatedDisk(), "app/state")


def test_what_keeps_the_disk_from_its_work_is_said_in_one_sentence() -> None:
    disk = SimulatedDisk()
    disk.fail(Fault(["sync"]))
    with pytest.raises(StateUnavailable, match=r"^state file .*runs/a cannot be reached: .*error.* Look after that"):
        stored(DiskFiles(disk, "state"), "runs/a", b"x")


def test_a_folder_that_was_removed_behind_our_back_is_made_again(tmp_path: Path) -> None:
    files = DiskFiles.at(str(tmp_path / "state"))
    for _ in range(2):
        stored(files, "runs/a", b"x")
        files.replace("versions/a", b"y")
        shutil.rmtree(tmp_path / "state")
    assert files.list("runs") == []


def test_a_local_file_is_mapped_and_not_read(tmp_path: Path) -> None:
    files = DiskFiles.at(str(tmp_path))
    stored(files, "runs/a", b"x" * 5000)
    mapped = files.map("runs/a")
    with (tmp_path / "runs" / "a").open("r+b") as file:
        file.write(b"changed")
    assert mapped.to_pybytes()[:7] == b"changed"
