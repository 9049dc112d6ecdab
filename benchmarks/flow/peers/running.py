"""A contender as a process of its own that works twice: what it says of both runs, and the memory that it took."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from threading import Timer
from typing import Any, NamedTuple

from benchmarks.flow.apart import Bench
from benchmarks.flow.names import FLINK
from benchmarks.flow.peers.resident import Resident, processor_seconds
from benchmarks.flow.queries import settle
from headwater.flow.java import find_java
from tests.clients.brokers.process import NotAvailable

SECONDS_MAX = 600


class Ran(NamedTuple):
    """Seconds of the run `cold`, from the start of the process, and of `warm`, and those of all its processes on a
    processor; results, where it counts them."""

    seconds: Mapping[str, float]
    processor_seconds: Mapping[str, float]
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
        assert process.stdout is not None
        patience = Timer(SECONDS_MAX, process.kill)
        patience.start()
        report: list[dict[str, Any]] = []
        used = [0.0]
        for line in process.stdout:
            if line.startswith('{"run"'):
                report.append(json.loads(line))
                used.append(processor_seconds(process.pid))
        process.wait()
        patience.cancel()
    if process.returncode != 0 or len(report) != 2:
        raise RuntimeError(f"{who} did not come to the end of {what}")
    spent = {one["run"]: end - start for one, start, end in zip(report, used, used[1:], strict=False)}
    return Ran({one["run"]: one["seconds"] for one in report}, spent, report[-1].get("results"), resident.peak_bytes)
