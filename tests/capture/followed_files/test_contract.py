from pathlib import Path

import pytest

from headwater.capture.followed_files.source import FilesSettings, FilesSource
from headwater.capture.source import ChangeSource
from headwater.clock import SystemClock
from headwater.record import Record
from tests.contracts.change_source import NOTING, TOPIC, WRITING, ChangeSourceContract


class FilesSystem:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *numbers: int) -> None:
        with self.path.open("a") as file:
            file.write("".join(f"{number}\n" for number in numbers))

    def source(self) -> ChangeSource:
        return FilesSource(FilesSettings(capture="shop", pattern=str(self.path), topic=TOPIC), SystemClock())

    def released(self) -> None:
        """Several may read at once."""

    def number_of(self, record: Record) -> int:
        return int(record.value or b"")


class TestFiles(ChangeSourceContract):
    points = (*WRITING, *NOTING)  # nothing is confirmed

    @pytest.fixture
    def system(self, tmp_path: Path) -> FilesSystem:
        return FilesSystem(tmp_path / "numbers.log")
