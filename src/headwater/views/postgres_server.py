"""The PostgreSQL of a data directory: made, started and stopped with the node.

It listens on loopback alone. A shell beside it (GUARD) waits at the end of a pipe whose other end only this process
holds: if this process is killed, the shell stops the server. Both name the server by its process id, never by its
folder alone, so that a shell that is late does not stop the server of the next node.
"""

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from headwater.clock import SystemClock
from headwater.errors import UnavailableError
from headwater.views.own_postgres import (
    DATABASE,
    FOLDER,
    HOST,
    OWNER,
    READER,
    SERVER_FILE,
    Access,
    read_access,
    write_access,
    write_privately,
)
from headwater.views.postgres_programs import binaries, server_user

_logger = logging.getLogger(__name__)

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
    "log_min_messages": "warning",
    "shared_buffers": "64MB",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
READER_SETTINGS = {"default_transaction_read_only": "on", "idle_in_transaction_session_timeout": "60s"}
"""A tool that forgets a transaction must not hold up the swap of a rebuilt view for ever."""
PATIENCE_SECONDS = 60
PAUSE_SECONDS = 0.05
RESTART_SECONDS = 1.0
LOG_BYTES_MAX = 1024**2
INSTALL = 'Install them with: pip install "headwater[postgres-server]"'

# Stops the server, "fast", when the pipe ends without a line. Its number is in the file as long as it runs.
GUARD = 'read -r line || { [ "$(head -n 1 "$2")" = "$1" ] && kill -INT "$1"; }'


class PostgresServer:
    """`start` returns when views can be kept; `stop` may be called twice."""

    def __init__(self, data: Path) -> None:
        self._folder, self._data = data / FOLDER, data
        self._cluster = self._folder / "cluster"
        self._user = server_user()
        self._clock, self._stopping = SystemClock(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._watch: threading.Thread | None = None

    @property
    def address(self) -> str:
        access = read_access(self._data)
        return "" if access is None else f"{HOST}:{access.port}"

    @property
    def process_id(self) -> int:
        if self._process is None:
            raise RuntimeError("the server does not run")
        return self._process.pid

    def start(self) -> None:
        """UnavailableError says why it cannot be, in a sentence."""
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        programs = self._programs()
        access = self._access()
        if not (self._cluster / "PG_VERSION").exists():
            self._make(programs, access)
        try:
            self._end_leftover()
            self._launch(programs)
            self._prepare()
        except BaseException:
            self.stop()
            raise
        self._watch = threading.Thread(
            target=self._restart_if_ended, args=[programs], name="headwater-postgresql", daemon=True
        )
        self._watch.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast": sessions are ended, and a checkpoint written
            try:
                self._process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._dismiss_guard()

    # -- the folder ----------------------------------------------------------------------------------------------------

    def _programs(self) -> Path:
        """Those of the release that made the cluster, or the newest."""
        found = binaries()
        if not found:
            raise UnavailableError(f"views in PostgreSQL need its programs, which are not installed. {INSTALL}")
        try:
            release = (self._cluster / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return next(iter(found.values()))
        if release not in found:
            there = ", ".join(found)
            raise UnavailableError(
                f"{self._cluster} was made by PostgreSQL {release}, and here are the programs of {there}. {INSTALL}"
            )
        return found[release]

    def _access(self) -> Access:
        """As it was, or with new passwords; it is written when there is a cluster that has them."""
        known = read_access(self._data)
        if known is None and (self._cluster / "PG_VERSION").exists():
            raise UnavailableError(
                f"{self._folder / SERVER_FILE} with the password of {self._cluster} is missing. Restore it, or remove "
                f"{self._folder} and build the views with --rebuild"
            )
        return known or Access(0, secrets.token_urlsafe(32), secrets.token_urlsafe(32))

    def _make(self, programs: Path, access: Access) -> None:
        """Under another name until it is whole."""
        fresh, password = self._folder / "cluster.new", self._folder / "password.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        write_privately(password, access.owner_password)
        if self._user:
            shutil.chown(fresh, self._user)
            shutil.chown(password, self._user)
        try:
            ran = subprocess.run(
                [programs / "initdb", "-D", fresh.absolute(), "-U", OWNER, "-A", "scram-sha-256", "--pwfile",
                 password.absolute(), "-E", "UTF8", "--locale=C.UTF-8"],
                user=self._user, capture_output=True, cwd="/", check=False,
            )  # fmt: skip
        finally:
            password.unlink(missing_ok=True)
        if ran.returncode:
            said = " ".join(ran.stderr.decode(errors="replace").split()) or f"it ended with {ran.returncode}"
            who = f" (it runs as {self._user}, who must be able to get there)" if self._user else ""
            raise UnavailableError(f"PostgreSQL cannot be set up in {fresh.absolute()}{who}: {said[-400:]}")
        write_access(self._data, access)
        fresh.rename(self._cluster)

    # -- the process ---------------------------------------------------------------------------------------------------

    def _end_leftover(self) -> None:
        """A server whose node was killed a moment ago may still be ending."""
        deadline_ms = self._clock.elapsed_ms() + 1000 * PATIENCE_SECONDS
        while (process := self._leftover()) is not None:
            if self._clock.elapsed_ms() > deadline_ms:
                raise UnavailableError(
                    f"the PostgreSQL of a killed node does not end (process {process}). End it, and start again"
                )
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGINT)
            threading.Event().wait(PAUSE_SECONDS)

    def _leftover(self) -> int | None:
        """The process that the cluster's own file names, if it is a server of this cluster."""
        try:
            number = int((self._cluster / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return number if str(self._cluster.absolute()).encode() in words else None

    def _launch(self, programs: Path) -> None:
        """Tries again while processes of a killed server are still ending, or a port has just been taken."""
        deadline_ms = self._clock.elapsed_ms() + 1000 * PATIENCE_SECONDS
        while True:
            access = self._with_free_port()
            self._dismiss_guard()
            self._process = self._spawn(programs, access.port)
            self._guard = self._guarded(self._process.pid)
            while self._process.poll() is None and self._clock.elapsed_ms() < deadline_ms:
                if _answers(access):
                    return
                threading.Event().wait(PAUSE_SECONDS)
            if self._clock.elapsed_ms() >= deadline_ms:
                said = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
                raise UnavailableError(f"the PostgreSQL in {self._folder} did not start: {said}")
            threading.Event().wait(PAUSE_SECONDS)

    def _spawn(self, programs: Path, port: int) -> "subprocess.Popen[bytes]":
        options = [
            part for name, value in {**SETTINGS, "port": str(port)}.items() for part in ("-c", f"{name}={value}")
        ]
        if self._log.exists() and self._log.stat().st_size > LOG_BYTES_MAX:
            self._log.replace(self._log.with_suffix(".log.1"))
        with self._log.open("ab") as log:
            # In a group of its own: Ctrl-C in the terminal is for the node, which stops the server in time.
            return subprocess.Popen(
                [programs / "postgres", "-D", self._cluster.absolute(), *options],
                user=self._user, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", process_group=0,
            )  # fmt: skip

    def _guarded(self, process: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "headwater-guard", str(process), self._cluster.absolute() / "postmaster.pid"],
            user=self._user, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the node, a terminal's Ctrl-C or a group's kill, must not end it too
        )  # fmt: skip

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.communicate(b"all is in order\n")
            self._guard = None

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _with_free_port(self) -> Access:
        access = read_access(self._data)
        assert access is not None
        if access.port and _free(access.port):
            return access
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
        if access.port:
            _logger.warning("port %d is in use; the PostgreSQL of views takes %d", access.port, port)
        access = Access(port, access.owner_password, access.reader_password)
        write_access(self._data, access)
        return access

    def _prepare(self) -> None:
        """The database, and a user that can read views and do nothing else."""
        access = read_access(self._data)
        assert access is not None
        with psycopg.connect(access.url("postgres"), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
                connection.execute(SQL("CREATE DATABASE {}").format(Identifier(DATABASE)))
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (READER,)).fetchone() is None:
                connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(READER)))
            reader, password = Identifier(READER), Literal(access.reader_password)
            connection.execute(SQL("ALTER ROLE {} NOSUPERUSER PASSWORD {}").format(reader, password))
            connection.execute(SQL("GRANT pg_read_all_data TO {}").format(reader))
            for name, value in READER_SETTINGS.items():
                connection.execute(SQL("ALTER ROLE {} SET {} = {}").format(reader, Identifier(name), Literal(value)))

    def _restart_if_ended(self, programs: Path) -> None:
        """Starts a server again that ended by itself or was killed; who waits for it asks again."""
        while not self._stopping.wait(RESTART_SECONDS):
            if self._process is not None and self._process.poll() is not None:
                _logger.error("the PostgreSQL of views ended (%s says why); it is started again", self._log)
                try:
                    self._launch(programs)
                except (UnavailableError, OSError):
                    _logger.exception("the PostgreSQL of views cannot be started; the next attempt follows")


def _answers(access: Access) -> bool:
    try:
        psycopg.connect(access.url("postgres"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
