"""Start load processes, and turn what they tell into rates."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.contenders import Contender
from benchmarks.warm_memory import warm_memory

LIBRDKAFKA, RAW = "librdkafka", "raw"
PROGRAMS = {LIBRDKAFKA: "benchmarks.librdkafka_load", RAW: "benchmarks.raw_load"}
LOAD_SECONDS_MAX = 600
MEMORY_FOR_EACH_BYTE = 4
"""The payload lies in the client, on its way, in the broker and in the page cache."""


@dataclass(frozen=True)
class Load:
    """What a load process is to do with a topic."""

    program: str
    partitions: int
    size: int
    records: int
    acks: int = 1

    def run(self, what: str, contender: Contender, topic: str) -> dict[str, float]:
        """Do it and tell the rates; `what` is produce or fetch."""
        numbers = {"partitions": self.partitions, "size": self.size, "records": self.records, "acks": self.acks}
        options = [f"--{name}={value}" for name, value in numbers.items()]
        command = [sys.executable, "-m", PROGRAMS[self.program], what, f"--address={contender.address}"]
        os.sync()  # What the run before left unwritten shall not be written during this one.
        warm_memory(MEMORY_FOR_EACH_BYTE * self.records * self.size)
        cpu_before = contender.process.cpu_seconds()
        done = subprocess.run(
            [*command, f"--topic={topic}", *options],
            capture_output=True,
            text=True,
            timeout=LOAD_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{what} with {contender.name} failed: {done.stderr[-2000:]}")
        report = json.loads(done.stdout)
        return self._rates(report, contender.process.cpu_seconds() - cpu_before)

    def _rates(self, report: dict[str, float], broker_cpu: float) -> dict[str, float]:
        seconds, payload = report["end"] - report["start"], report["records"] * self.size
        return {
            "megabytes": payload / seconds / 1e6,
            "records": report["records"] / seconds,
            "broker_cpu": broker_cpu / payload * 1e9,
            "client_cpu": report["cpu"] / payload * 1e9,
        }
