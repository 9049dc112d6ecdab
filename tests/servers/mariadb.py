"""A real MariaDB: Debian's, installed if it can be, on a free port of this machine; tests may kill and revive it."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.waiting import LONG, patience

INSTALL = [
    "apt-get", "-o", "DPkg::Lock::Timeout=500", "install", "-y", "--no-install-recommends", "mariadb-server-core",
]  # fmt: skip
SETTINGS = {
    "bind-address": "127.0.0.1",
    "log-bin": "mysql-bin",
    "binlog-format": "ROW",
    "binlog-row-metadata": "FULL",
    "server-id": "1",
    "gtid-strict-mode": "ON",
    "innodb-flush-log-at-trx-commit": "2",  # written at each commit: a killed process then loses nothing
    "sync-binlog": "0",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "performance-schema": "OFF",
    "skip-name-resolve": "ON",
    "max-allowed-packet": "64M",
    "innodb-flush-method": "nosync",
}
PATIENCE_SECONDS = 60
SHARED = Path("/usr/share/mysql")
SYSTEM_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


def program() -> str:
    """The server; skips the test where it cannot be had."""
    found = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(INSTALL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True,
                       stdin=subprocess.DEVNULL, timeout=600, check=False)  # fmt: skip
        found = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("there is no MariaDB; on Debian: apt-get install mariadb-server-core")
    return found


def _user() -> str:
    """It refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    return next(name for name in ("mysql", "nobody") if name in {one.pw_name for one in pwd.getpwall()})


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Mariadb:
    """One server with its data. `url` is that of a user who may do everything."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._server = program()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = int(settings.pop("port", 0)) or _free_port()
        self._folder, self._settings, self._user = folder, {**SETTINGS, **settings}, _user()
        self.url = f"mysql://root@127.0.0.1:{self.port}/"
        folder.chmod(0o755)
        for own in (folder, folder / "data", folder / "temporary"):
            own.mkdir(exist_ok=True)
            shutil.chown(own, self._user)
        # A server that starts removes the temporary tables it finds: in a shared folder, those of its neighbour.
        self._folders = [f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'temporary'}"]
        self._prepare()

    def _prepare(self) -> None:
        """Its own tables: the server creates them with the statements that came with it."""
        statements = b"".join((SHARED / name).read_bytes() for name in SYSTEM_TABLES)
        made = subprocess.run(
            [self._server, "--no-defaults", *self._folders, f"--user={self._user}", "--bootstrap",
             "--innodb-log-file-size=16M", "--innodb-flush-method=nosync"],
            input=b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n" + statements,
            check=False, capture_output=True, cwd=self._folder,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(made.stderr.decode(errors="replace")[-2000:])

    def start(self, **settings: str) -> None:
        self._settings |= settings
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [
            self._server, "--no-defaults", *self._folders, f"--port={self.port}",
            f"--socket={self._folder / 'socket'}", f"--pid-file={self._folder / 'pid'}", f"--user={self._user}",
            *options,
        ]  # fmt: skip
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = patience() + PATIENCE_SECONDS
        while not self._answers():
            if self._process.poll() is not None or patience() > deadline:
                raise RuntimeError((self._folder / "server.log").read_text()[-2000:])
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def connect(self, **options: Any) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", autocommit=True, connect_timeout=5, charset="utf8mb4",
            **options,
        )  # fmt: skip

    @property
    def process_id(self) -> int:
        if self._process is None:
            raise RuntimeError("the server does not run")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(LONG)
            self._process = None

    def revive(self) -> None:
        """Start it after it was killed."""
        if self._process is not None:
            self._process.wait(LONG)
        self.start()


@contextmanager
def running_mariadb(**settings: str) -> Iterator[Mariadb]:
    """In a folder of its own that is deleted afterwards; `port` is one of the settings."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-mariadb-"))
    try:
        server = Mariadb(folder, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
