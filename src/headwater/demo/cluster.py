"""A PostgreSQL of one's own, from programs that are on this machine: for the demo, and for tests of captures.

views/postgres_programs.py says which those are.
"""

import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO

import psycopg

from headwater.clock import SystemClock
from headwater.demo.server_guard import Keeper
from headwater.errors import UnavailableError
from headwater.views.postgres_programs import binaries as binaries
from headwater.views.postgres_programs import server_user

SETTINGS = {
    "unix_socket_permissions": "0700",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_prepared_transactions": "10",
    "fsync": "off",  # a killed process loses nothing that it has written
    "listen_addresses": "",
    "log_min_messages": "warning",
    "wal_sender_timeout": "10s",
}
PATIENCE_SECONDS = 60


class Cluster:
    """One server with its data in a folder that is there. `url` is the superuser's, over a Unix socket.

    The server stops and the folder is deleted with the process that started it, even if that process is killed."""

    def __init__(self, programs: Path, folder: Path, settings: dict[str, str]) -> None:
        self._programs, self._folder, self._settings = programs, folder, {**SETTINGS, **settings}
        self._user = server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: Keeper | None = None
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        if "port" in settings:
            self.url += f"&port={settings['port']}"
        # Connections need no password here, so only this user may open the socket.
        folder.chmod(0o700)
        if self._user:
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync",
                  "--locale=C.UTF-8")  # fmt: skip

    def _run(self, program: str, *arguments: str) -> None:
        ran = subprocess.run(
            [self._programs / program, *arguments], user=self._user, capture_output=True, cwd=self._folder, check=False
        )
        if ran.returncode:
            said = ran.stderr.decode(errors="replace").strip() or f"it ended with {ran.returncode}"
            raise UnavailableError(f"PostgreSQL's {program} failed in {self._folder}: {said}")

    def start(self) -> None:
        self._keeper = self._keeper or Keeper(self._programs, self._folder, self._user)
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        data, clock, pause = self._folder / "data", SystemClock(), threading.Event()
        command: list[str | Path] = [self._programs / "postgres", "-D", data, "-k", self._folder, *options]
        deadline_ms = clock.elapsed_ms() + 1000 * PATIENCE_SECONDS
        while True:
            with self.log.open("ab") as log:
                self._process = self._launched(command, log)
            while self._process.poll() is None and clock.elapsed_ms() < deadline_ms:
                if self._answers():
                    return
                pause.wait(0.02)
            # Processes of a killed server may still be ending; a new one refuses to start beside them.
            if clock.elapsed_ms() > deadline_ms:
                said = self.log.read_text(errors="replace").strip().rpartition("\n")[2]
                raise UnavailableError(f"the PostgreSQL in {self._folder} did not start: {said}")
            pause.wait(0.05)

    def _launched(self, command: list[str | Path], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        # In a group of its own: Ctrl-C in the terminal is for the process that started it, which stops the server in
        # time.
        return subprocess.Popen(command, user=self._user, stdout=log, stderr=log, cwd=self._folder, process_group=0)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        self._end(signal.SIGINT)  # "fast": sessions are ended, and a checkpoint written

    def kill(self) -> None:
        """As a power cut of the process: nothing is written any more."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_SECONDS)
            self._process = None
        if self._keeper is not None:
            self._keeper.dismiss()
            self._keeper = None

    @property
    def log(self) -> Path:
        return self._folder / "server.log"

    @property
    def process_id(self) -> int:
        if self._process is None:
            raise RuntimeError("the server does not run")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def revive(self) -> None:
        """Start the server after it was killed."""
        if self._process is not None:
            self._process.wait(PATIENCE_SECONDS)
        self.start()

    def restart(self) -> None:
        self.stop()
        self.start()


def create_database(cluster: Cluster, name: str) -> str:
    """The URL of a new database in a running cluster."""
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return cluster.url.replace("/postgres?", f"/{name}?")
