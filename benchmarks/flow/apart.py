"""Run a section of flows in a process of its own, so that its JVM and its memory are gone when the next one begins.

`python -m benchmarks.flow.apart SECTION ...` measures and writes what it found to a file as JSON.
"""

import argparse
import importlib
import json
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from benchmarks.flow.plan import SECTIONS, FlowPlan
from benchmarks.progress import Progress
from benchmarks.results import Case, Results
from headwater.errors import FlowError
from headwater.flow.java import find_java
from tests.clients.brokers.process import NotAvailable

SECONDS_MAX = 1200
WITHOUT_JAVA = {"state", "table-changes"}


@dataclass(frozen=True)
class Bench:
    """What a section gets: a folder of its own, how much to measure, and where to say what it found."""

    folder: Path
    plan: FlowPlan
    results: Results = field(default_factory=Results)
    progress: Progress = field(default_factory=Progress)
    notices: list[str] = field(default_factory=list)


def measure_apart(section: str, folder: Path, plan: FlowPlan, results: Results, progress: Progress) -> list[str]:
    """What must be said about it; RuntimeError if it did not come to its end."""
    own = folder / section
    own.mkdir()
    found, errors = own / "found.json", own / "errors.log"
    command = [sys.executable, "-m", "benchmarks.flow.apart", section, f"--folder={own}", f"--plan={plan.to_json()}"]
    with errors.open("wb") as said:
        process = subprocess.Popen([*command, f"--found={found}"], stdout=subprocess.PIPE, stderr=said, text=True)
        assert process.stdout is not None
        patience = Timer(SECONDS_MAX, process.send_signal, [signal.SIGINT])  # so it still stops what it has started
        patience.start()
        for line in process.stdout:
            progress.say(line.rstrip())
        process.wait()
        patience.cancel()
    if process.returncode != 0:
        raise RuntimeError(errors.read_text(errors="replace")[-2000:] or f"it ended with {process.returncode}")
    report = json.loads(found.read_text())
    shutil.rmtree(own)
    for name, words, who, metric, values in report["values"]:
        results.values[Case(name, tuple(words)), who, metric].extend(values)
    notices: list[str] = report["notices"]
    return notices


class PrintedProgress(Progress):
    """The other process says it on."""

    def say(self, words: str) -> None:
        print(words, flush=True)


def check_java(section: str) -> None:
    try:
        if section not in WITHOUT_JAVA:
            find_java()
    except FlowError as reason:
        raise NotAvailable(str(reason)) from None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--plan", type=FlowPlan.from_json, required=True)
    parser.add_argument("--found", type=Path, required=True)
    given = parser.parse_args()
    # Asked to end, it still stops the servers it has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    bench = Bench(given.folder, given.plan, progress=PrintedProgress())
    try:
        check_java(given.section)
        importlib.import_module(f"benchmarks.flow.{given.section.replace('-', '_')}").measure(bench)
    except NotAvailable as reason:
        bench.notices.append(f"The section {given.section} is left out here: {reason}")
    values = [
        [case.section, case.words, who, metric, found] for (case, who, metric), found in bench.results.values.items()
    ]
    given.found.write_text(json.dumps({"values": values, "notices": bench.notices}))


if __name__ == "__main__":
    main()
