"""The processes that compute queries (worker.py): started when they are needed, used one query after the other."""

import json
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headwater.errors import InvalidQuery, QueryStopped, UnavailableError

WORKER = Path(__file__).with_name("worker.py")
AT_ONCE = 2
ROWS_MAX, BYTES_MAX = 100_000, 16 * 1024**2
"""Of an answer."""
SMALLER = "Ask for less: filter by key or time, or aggregate fewer rows."
INSTALL = 'Install it with: pip install "headwater[query]"'


class Computed(NamedTuple):
    table: pa.Table
    cut: bool
    """There are more rows than were asked for, or than fit into an answer."""


class Refused(Exception):
    """DuckDB refuses the statement; the message is DuckDB's, about its own form of it."""


class Workers:
    """Safe to use from many threads; `close` ends the processes."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._slots = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._free: list[subprocess.Popen[bytes]] = []

    def compute(self, sql: str, tables: Mapping[str, pa.Table], *, rows_max: int, seconds: float) -> Computed:
        """Refused; QueryStopped if it takes more than its time or memory."""
        if not self._slots.acquire(timeout=seconds):
            raise UnavailableError(f"other queries are being computed, and none has ended within {seconds:g} s")
        try:
            request = {"sql": sql, "tables": list(tables), "rows_max": rows_max, "bytes_max": BYTES_MAX,
                       "seconds": seconds}  # fmt: skip
            return self._compute(request, tables, seconds)
        finally:
            self._slots.release()

    def _compute(self, request: Mapping[str, object], tables: Mapping[str, pa.Table], seconds: float) -> Computed:
        worker = self._taken()
        deadline = Deadline(worker, seconds)
        try:
            said, table = _asked(worker, request, tables)
        except (OSError, EOFError, pa.ArrowInvalid):
            late = deadline.over()
            _end(worker)
            if worker.returncode == -signal.SIGALRM:  # it had waited for long, and ended at this very moment
                return self._compute(request, tables, seconds)
            why = f"was not done after {seconds:g} s" if late else "needed more memory than there is for one"
            raise QueryStopped(f"the query {why}", SMALLER) from None
        except BaseException:
            deadline.over()
            _end(worker)
            raise
        if deadline.over():
            _end(worker)
        else:
            with self._lock:
                self._free.append(worker)
        if table is not None:
            return Computed(table, said["cut"] is True)
        if said["kind"] == "memory":
            raise QueryStopped("the query needed more memory than there is for one", SMALLER)
        raise Refused(str(said["message"]))

    def _taken(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            while self._free:
                worker = self._free.pop()
                if worker.poll() is None:
                    return worker
                _end(worker)
        for library in ("duckdb", "pyarrow"):
            if find_spec(library) is None:
                raise InvalidQuery(f"asking views with SQL needs {library}, which is not installed", INSTALL)
        # -I: nothing of the environment or the folder says what the process loads.
        return subprocess.Popen(
            [sys.executable, "-I", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd="/", env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip

    def close(self) -> None:
        with self._lock:
            while self._free:
                _end(self._free.pop())


class Deadline:
    """Kills a process after a time, unless it is over before."""

    def __init__(self, process: "subprocess.Popen[bytes]", seconds: float) -> None:
        self._process, self._lock = process, threading.Lock()
        self._over = self._late = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        with self._lock:
            if not self._over:
                self._late = True
                self._process.kill()

    def over(self) -> bool:
        """Was the process killed? From here on it is not."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            return self._late


def _asked(
    worker: "subprocess.Popen[bytes]", request: Mapping[str, object], tables: Mapping[str, pa.Table]
) -> tuple[dict[str, object], pa.Table | None]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    head = json.dumps(request).encode()
    worker.stdin.write(struct.pack("!I", len(head)) + head)
    for table in tables.values():
        with pa.ipc.new_stream(worker.stdin, table.schema) as stream:
            stream.write_table(table)
    worker.stdin.flush()
    length = worker.stdout.read(4)
    if len(length) < 4:
        raise EOFError
    said: dict[str, object] = json.loads(worker.stdout.read(struct.unpack("!I", length)[0]))
    return said, None if "kind" in said else pa.ipc.open_stream(worker.stdout).read_all()


def _end(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except BrokenPipeError:
            pass  # what was written last went nowhere
