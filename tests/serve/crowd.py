"""A crowd follows a view: some stop reading, the node is killed in the middle and started again.

    python -m tests.serve.crowd --subscribers 500 --stalled 100 --seconds 20

Every write has rows of its own, so that who misses one, or is told one twice, is found by the ids alone.
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
import time
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.serve.shop import SCHEMA

ID = re.compile(rb"\nid: 0-(\d+)\n")
WRITES_PER_SECOND = 20
CYCLE = 400
"""Writes after which keys come again."""


@dataclass
class Crowd:
    port: int
    written: dict[int, float] = field(default_factory=dict)
    """By the number of the write: when."""
    delays: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    resumed: int = 0
    done: bool = False


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
                piece = await asyncio.wait_for(reader.read(2**20), 60)
                if not piece:
                    return
                tail = self._take(tail + piece)
        finally:
            writer.close()

    def _take(self, data: bytes) -> bytes:
        now, seen = time.monotonic(), 0
        for found in ID.finditer(data):
            id, seen = int(found[1]), found.end() - 1
            if self.last and id != self.last + 1:
                self.crowd.faults.append(f"subscriber {self.number}: {id} after {self.last}")
            self.last = id
            if id in self.crowd.written and len(self.crowd.delays) < 2_000_000 and self.connections == 1:
                self.crowd.delays.append(now - self.crowd.written[id])
        return data[seen:] if seen else data[-64:]


class Writer:
    def __init__(self, data: Path, crowd: Crowd, rows: int) -> None:
        self.store, self.crowd, self.rows, self.number = open_store(data, "shop"), crowd, rows, 0
        self.store.prepare("revenue", SCHEMA, ["country"])

    def write(self) -> None:
        self.number += 1
        keys = [f"{self.number % CYCLE}-{one}" for one in range(self.rows)]
        rows = [{"country": key, "amount": Decimal(1), "orders": self.number} for key in keys]
        self.crowd.written[self.number] = time.monotonic()
        mark = Mark("shop.orders", self.number, {"orders": {0: self.number}})
        self.store.write("revenue", mark, pa.Table.from_pylist(rows, schema=SCHEMA))

    async def run(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            begun = time.monotonic()
            await asyncio.to_thread(self.write)
            await asyncio.sleep(max(0, 1 / WRITES_PER_SECOND - (time.monotonic() - begun)))


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


def resident_mib(node: "subprocess.Popen[str]") -> float:
    status = Path(f"/proc/{node.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


async def play(
    data: Path, *, subscribers: int, stalled: int, seconds: float, changes_per_second: int
) -> dict[str, Any]:
    """What was found, as figures."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        crowd = Crowd(probe.getsockname()[1])
    node = start(data, crowd.port)
    try:
        writer = Writer(data, crowd, changes_per_second // WRITES_PER_SECOND)
        writer.write()
        before = resident_mib(node)
        people = [Subscriber(crowd, number, stalls=number < stalled) for number in range(subscribers)]
        following = [asyncio.create_task(one.run()) for one in people]
        await writer.run(seconds / 2)
        grown = resident_mib(node) - before
        end(node)
        writing = asyncio.create_task(writer.run(seconds / 2))
        node = await asyncio.to_thread(start, data, crowd.port)
        await writing
        readers = people[stalled:]
        deadline = time.monotonic() + 60
        while any(one.last < writer.number for one in readers) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        crowd.done = True
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    finally:
        end(node)
        writer.store.close()
    delays = sorted(crowd.delays) or [0.0]
    return {
        "subscribers": subscribers,
        "stalled": stalled,
        "changes": writer.number * writer.rows,
        "complete": sum(one.last == writer.number for one in readers),
        "faults": crowd.faults[:5],
        "resumed": crowd.resumed,
        "delay_p50_ms": round(1000 * delays[len(delays) // 2]),
        "delay_p99_ms": round(1000 * delays[int(len(delays) * 0.99)]),
        "grown_mib": round(grown, 1),
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
