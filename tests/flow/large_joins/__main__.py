"""Joins of many rows, too long for every merge. Anything wrong is exit code 1; what was measured is printed as JSON.

python -m tests.flow.large_joins [--seed S] [--users N] [--rows N] [--slow-reads-allowed]

users   a timeline of a power-law graph equals SQL at three positions, and is read in one look-up (timeline.py)
rows    searches and clicks with stragglers give exactly the pairs there are, and who has none (clicks.py)
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.flow.large_joins import clicks, timeline

USERS, ROWS = 100_000, 2_000_000
READ_GOAL_MS = 5


def main(arguments: list[str] | None = None) -> int:
    wanted = parse(arguments)
    folder = Path(tempfile.mkdtemp(prefix="headwater-large-joins-"))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def begin(what: str, total: int) -> Callable[[int], None]:
            task = progress.add_task(what, total=total)
            return lambda done: progress.advance(task, done)

        report = run(wanted, folder, begin)
    if anomalies := report["anomalies"]:
        report["kept"] = str(folder)
    else:
        shutil.rmtree(folder)
    print(json.dumps(report))
    return 1 if anomalies else 0


def run(wanted: argparse.Namespace, folder: Path, begin: Callable[[str, int], Callable[[int], None]]) -> dict[str, Any]:
    report: dict[str, Any] = {"seed": wanted.seed, "anomalies": []}
    if wanted.users:
        total = timeline.rows_fed(wanted.users)
        fed, processed = begin("changes of a timeline fed", total), begin("changes of a timeline", total)
        outcome = timeline.run(wanted.users, wanted.seed, folder / "timeline", fed=fed, processed=processed)
        report["timeline"] = {"users": wanted.users, **outcome.figures}
        report["anomalies"] += [f"timeline: {one}" for one in outcome.anomalies]
        if outcome.figures["read p99 ms"] >= READ_GOAL_MS and not wanted.slow_reads_allowed:
            report["anomalies"].append(f"timeline: one read in a hundred takes {outcome.figures['read p99 ms']} ms")
    if wanted.rows:
        fed, processed = begin("searches and clicks fed", wanted.rows), begin("searches and clicks", wanted.rows)
        outcome = clicks.run(wanted.rows, wanted.seed, folder / "clicks", fed=fed, processed=processed)
        report["clicks"] = {"rows": wanted.rows, **outcome.figures}
        report["anomalies"] += [f"clicks: {one}" for one in outcome.anomalies]
    return report


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.flow.large_joins", description="Joins of many rows.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same rows (default: 1)")
    parser.add_argument("--users", type=int, default=USERS, help=f"of the timeline (default: {USERS}; 0: leave it out)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"searches and clicks (default: {ROWS}; 0: leave out)")
    parser.add_argument("--slow-reads-allowed", action="store_true", help="a slow look-up is no anomaly")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
