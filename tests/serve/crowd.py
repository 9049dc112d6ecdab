"""A crowd follows a view: some stop reading, the node is killed in the middle and started again.

    python -m tests.serve.crowd --subscribers 500 --stalled 100 --seconds 20

Every write has rows of its own, so that a subscriber that misses one, or gets one twice, is found by the ids alone.
"""

import argparse
import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.serve.crowd_writer import CYCLE, WRITES_PER_SECOND
from tests.waiting import LONG, patience

ID = re.compile(rb"\nid: 0-(\d+)\n")
ARRIVALS_MAX = 2_000_000


@dataclass
class Crowd:
    port: int
    written: dict[int, float] = field(default_factory=dict)
    """By the number of the write: when."""
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """Which write a subscriber received, and when."""
    faults: list[str] = field(default_factory=list)
    resumed: int = 0
    done: bool = False

    def follows(self, id: int, last: int) -> bool:
        """Every write is sent once, except those whose rows were all written again since."""
        return id == last + 1 or last < id <= max(self.written, default=0) - CYCLE + 1


class Subscriber:
    def __init__(self, crowd: Crowd, number: int, *, stalls: bool) -> None:
        self.crowd, self.number, self.stalls = crowd, number, stalls
        self.last = 0
        self.connections = 0

    async def run(self) -> None:
        while not self.crowd.done:
            try:
                await self._follow()
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.2)

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.crowd.port, limit=2**20)
        self.connections += 1
        after = f"Last-Event-ID: 0-{self.last}\r\n" if self.last else ""
        if self.last:
            self.crowd.resumed += 1
        writer.write(f"GET /views/revenue/live HTTP/1.1\r\nHost: localhost\r\n{after}\r\n".encode())
        tail = b""
        try:
            while not self.crowd.done:
                if self.stalls and self.last > 5:
                    await asyncio.sleep(3600)
                piece = await asyncio.wait_for(reader.read(2**20), LONG)
                if not piece:
                    return
                tail = self._take(tail + piece)
        finally:
            writer.close()

    def _take(self, data: bytes) -> bytes:
        now, seen = time.monotonic(), 0
        for found in ID.finditer(data):
            id, seen = int(found[1]), found.end() - 1
            if self.last and not self.crowd.follows(id, self.last):
                self.crowd.faults.append(f"subscriber {self.number}: {id} after {self.last}")
            self.last = id
            if len(self.crowd.arrivals) < ARRIVALS_MAX and self.connections == 1:
                self.crowd.arrivals.append((id, now))
        return data[seen:] if seen else data[-64:]


class Writer:
    """The one who writes, in a process of its own, and what it says."""

    def __init__(self, data: Path, crowd: Crowd, rows: int) -> None:
        self.crowd, self.rows, self.number = crowd, rows, 0
        command = [sys.executable, "-m", "tests.serve.crowd_writer", str(data), str(rows)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._begun = threading.Event()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, said = line.split()
            if what == "end":
                self.number = int(said)
            else:
                self.crowd.written[int(what)] = float(said)
                self._begun.set()

    async def wait_for_the_first(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, 30)

    async def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        await asyncio.to_thread(self._listening.join)
        self._process.stdout.close()
        assert await asyncio.to_thread(self._process.wait) == 0

    def per_second(self) -> float:
        """How many changes it has written, of all that it was to write."""
        times = sorted(self.crowd.written.values())
        return self.rows * (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0


def start(data: Path, port: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "headwater", "start", "--data", str(data), "--kafka", "127.0.0.1:0"]
    node = subprocess.Popen([*command, "--http", f"127.0.0.1:{port}", "--json"], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.DEVNULL)  # fmt: skip
    assert node.stdout is not None
    assert json.loads(node.stdout.readline())["event"] == "ready"
    return node


def end(node: "subprocess.Popen[str]") -> None:
    node.send_signal(signal.SIGKILL)
    node.wait()
    assert node.stdout is not None
    node.stdout.close()


def memory_mib(node: "subprocess.Popen[str]", what: str) -> float:
    """VmRSS is what it has, VmHWM the most that it had."""
    status = Path(f"/proc/{node.pid}/status").read_text()
    return int(re.findall(rf"{what}:\s+(\d+)", status)[0]) / 1024


async def play(
    data: Path, *, subscribers: int, stalled: int, seconds: float, changes_per_second: int
) -> dict[str, Any]:
    """What was found, as figures."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        crowd = Crowd(probe.getsockname()[1])
    node = start(data, crowd.port)
    writer: Writer | None = None
    try:
        writer = Writer(data, crowd, changes_per_second // WRITES_PER_SECOND)
        await writer.wait_for_the_first()
        before = memory_mib(node, "VmRSS")
        people = [Subscriber(crowd, number, stalls=number < stalled) for number in range(subscribers)]
        following = [asyncio.create_task(one.run()) for one in people]
        readers = people[stalled:]
        await asyncio.sleep(seconds / 2)
        deadline = patience() + 60
        while not all(one.last for one in readers) and patience() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        peak = memory_mib(node, "VmHWM")
        end(node)
        node = await asyncio.to_thread(start, data, crowd.port)
        await asyncio.sleep(seconds / 2)
        await writer.end()
        deadline = patience() + 60
        while any(one.last < writer.number for one in readers) and patience() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        peak = max(peak, memory_mib(node, "VmHWM"))
        crowd.done = True
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    finally:
        end(node)
    delays = sorted(now - crowd.written[id] for id, now in crowd.arrivals if id in crowd.written) or [0.0]
    return {
        "subscribers": subscribers,
        "stalled": stalled,
        "changes": writer.number * writer.rows,
        "changes_per_second": round(writer.per_second()),
        "complete": sum(one.last == writer.number for one in readers),
        "faults": crowd.faults[:5],
        "resumed": crowd.resumed,
        "delay_p50_ms": round(1000 * delays[len(delays) // 2]),
        "delay_p99_ms": round(1000 * delays[int(len(delays) * 0.99)]),
        "peak_mib": round(peak, 1),
        "grown_mib": round(peak - before, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="A crowd follows a view.")
    parser.add_argument("--subscribers", type=int, default=500)
    parser.add_argument("--stalled", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--changes-per-second", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-crowd-") as folder:
        print(json.dumps(asyncio.run(play(Path(folder), **vars(arguments))), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
