"""Runs over millions of rows, too long for every merge. Anything wrong is exit code 1.

python -m tests.flow.large [--seed S] [--rows N] [--rows-with-broken N] [--json]

rows               cut into batches at random, many of which come twice; the result is that of one batch (any_split.py)
rows with broken   one in a thousand cannot be read; each is set aside, with a reason (broken.py)
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.flow.large.running import Report, run

ROWS, ROWS_WITH_BROKEN = 5_000_000, 1_000_000


def main(arguments: list[str] | None = None) -> int:
    wanted = parse(arguments)
    report = Report(wanted.seed)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def begin(what: str, total: int) -> Callable[[int], None]:
            task = progress.add_task(what, total=total)
            return lambda done: progress.advance(task, done)

        run(report, wanted.rows, wanted.rows_with_broken, begin)
    show(report, as_json=wanted.json)
    return 1 if report.anomalies else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.flow.large", description="Flows over millions of rows.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same rows (default: 1)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"in batches cut at random (default: {ROWS})")
    parser.add_argument(
        "--rows-with-broken", type=int, default=ROWS_WITH_BROKEN,
        help=f"one in a thousand of them cannot be read (default: {ROWS_WITH_BROKEN})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    return parser.parse_args(arguments)


def show(report: Report, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report)))
        return
    for note in report.notes:
        print(note)
    for reason, times in sorted(report.reasons.items()):
        print(f"  {times:,} set aside: {reason}")
    for anomaly in report.anomalies[:20]:
        print(f"  {anomaly}")
    print(
        f"seed {report.seed}: {report.rows:,} rows in batches cut at random, {report.rows_with_broken:,} rows of which "
        f"{sum(report.reasons.values()):,} were broken: {len(report.anomalies)} anomalies"
    )


if __name__ == "__main__":
    sys.exit(main())
