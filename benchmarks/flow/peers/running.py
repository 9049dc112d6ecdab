"""A contender as a process of its own that works twice: what it says of both runs, and the memory that it took."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.flow.apart import Bench
from benchmarks.flow.names import FLINK
from benchmarks.flow.peers.resident import Resident
from benchmarks.flow.queries import settle
from headwater.flow.java import find_java
from tests.clients.brokers.process import NotAvailable

SECONDS_MAX = 600


class Ran(NamedTuple):
    """Seconds of the run `cold`, from the start of the process, and of `warm`; results, where it counts them."""

    seconds: Mapping[str, float]
    results: int | None
    peak_bytes: int


def run_twice(bench: Bench, who: str, words: Callable[[], list[str]], what: str) -> Ran | None:
    """None, and a notice, if a contender cannot be had here."""
    try:
        command = words()
    except NotAvailable as reason:
        bench.notices.append(f"{who} is missing here: {reason}")
        return None
    settle()
    java = {"JAVA_HOME": str(find_java())} if who == FLINK else {}
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **java}
        ) as process,
        Resident(process.pid) as resident,
    ):
        said, _ = process.communicate(timeout=SECONDS_MAX)
    told = [json.loads(line) for line in said.splitlines() if line.startswith('{"run"')]
    if process.returncode != 0 or len(told) != 2:
        raise RuntimeError(f"{who} did not come to the end of {what}")
    return Ran({one["run"]: one["seconds"] for one in told}, told[-1].get("results"), resident.peak_bytes)
