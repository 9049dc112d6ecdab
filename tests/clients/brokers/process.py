"""A broker in a process of its own: started, waited for, measured and stopped by its process id."""

import os
import re
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import LONG, patience

API_VERSIONS_REQUEST = struct.pack(">hhih4s", 18, 0, 1, 4, b"wait")
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class BrokerFailed(RuntimeError):
    """The broker's process ended, or did not answer in time."""


class NotAvailable(RuntimeError):
    """Something from outside (a jar, a package) cannot be had here; the message is a sentence to skip with."""


@dataclass
class BrokerProcess:
    """A running broker. `stop` asks it to end, `kill` gives it no chance to."""

    name: str
    address: str
    process: subprocess.Popen[bytes]
    log_path: Path
    data_path: Path

    def cpu_seconds(self) -> float:
        """User and system time of the whole process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_SECOND

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def stop(self, *, patience_seconds: float = 30) -> None:
        self.process.terminate()
        try:
            self.process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def launch(command: Sequence[str], log_path: Path) -> subprocess.Popen[bytes]:
    """Start a server that writes all it says to a file."""
    # What the tests set for the JVMs of Spark contradicts what Apache Kafka is started with.
    env = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    with log_path.open("ab") as log:
        return subprocess.Popen(list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env)


def read_address(process: subprocess.Popen[bytes], log_path: Path, *, said_before: int, patience_seconds: float) -> str:
    """The first `host:port` that a starting server says, after what its file held already."""
    deadline = patience() + patience_seconds
    while patience() < deadline:
        said = log_path.read_bytes()[said_before:]
        if found := re.search(rb"(\d+\.\d+\.\d+\.\d+:\d+)\D", said):
            return found[1].decode()
        if process.poll() is not None:
            break
        select.select([], [], [], 0.05)
    process.kill()
    process.wait()
    raise BrokerFailed(f"the broker never said where it listens: {last_lines(log_path)}")


def wait_until_answering(
    address: str, process: subprocess.Popen[bytes], log_path: Path, *, patience_seconds: float
) -> None:
    """Return once the broker answers ApiVersions, the first question of every client."""
    deadline = patience() + patience_seconds
    while patience() < deadline:
        if process.poll() is not None:
            raise BrokerFailed(f"the broker ended with {process.returncode}: {last_lines(log_path)}")
        if answers(address):
            return
        select.select([], [], [], 0.1)
    process.kill()
    process.wait()
    raise BrokerFailed(f"the broker did not answer within {patience_seconds} s: {last_lines(log_path)}")


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=LONG) as connection:
            connection.sendall(struct.pack(">i", len(API_VERSIONS_REQUEST)) + API_VERSIONS_REQUEST)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def last_lines(path: Path, count: int = 20) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:]) if path.exists() else ""
