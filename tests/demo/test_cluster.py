"""A PostgreSQL of one's own ends with the process that started it, however that ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import psycopg
import pytest

from tests.rules.source import ROOT
from tests.waiting import wait_until


class Owner:
    """A process that has a server."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        assert process.stdout is not None
        said: dict[str, Any] = json.loads(process.stdout.readline())
        self.folder, self.server, self.url = Path(said["folder"]), int(said["process"]), str(said["url"])

    def end(self) -> None:
        self.process.communicate()

    def keepers(self) -> list[int]:
        """Processes that look after the folder, of which the server is one."""
        return [number for number, words in running() if str(self.folder) in words]


def running() -> Iterator[tuple[int, str]]:
    for status_file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(status_file.parent.name), status_file.read_text(errors="replace")
        except OSError:
            continue  # it has just ended


@contextmanager
def an_owner() -> Iterator[Owner]:
    command = [sys.executable, "-m", "tests.demo.owner"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Owner(process)
        finally:
            process.kill()


def test_a_server_whose_owner_is_killed_ends_and_leaves_nothing_behind() -> None:
    with an_owner() as owner, psycopg.connect(owner.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        owner.process.kill()
        wait_until(lambda: not owner.keepers(), "the server and its keeper have ended")
        wait_until(lambda: not owner.folder.exists(), "its folder is deleted")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_a_server_that_is_stopped_in_time_leaves_its_folder_to_its_owner() -> None:
    with an_owner() as owner:
        assert owner.server in owner.keepers()
        owner.end()
        assert owner.process.returncode == 0
        assert not owner.keepers()
        assert (owner.folder / "data" / "PG_VERSION").exists()
        rmtree(owner.folder)
