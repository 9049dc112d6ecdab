"""Break it in every way we know, and count what is lost. Any anomaly is exit code 1.

python -m tests.crash.torture [--seed S] [--crash-points N] [--failures N] [--rounds N] [--job-rounds N]
                              [--capture-rounds N] [--large-rows N] [--large-rows-with-broken N] [--json]

crash points   a simulated disk, cut off at every call (explorer.py)
failures       a simulated disk whose N-th call fails (failures.py)
rounds         a real node under load, killed with SIGKILL (killing.py)
job rounds     a job on Spark, its driver, worker, JVM or node killed at chosen moments (flow/killing.py)
capture rounds a capture, its node or its database killed under writers (capture/killing.py)
large rows     nothing is broken but batches come twice, or one row in a thousand (tests/flow/large)
"""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.crash.explorer import Exploration, Explorer
from tests.crash.failures import Failure, failures, survive
from tests.crash.killing import Killing, Outcome

FAILURE_STEPS = 40
FAILURES_TOGETHER = 20
SHOWN_MAX = 20
SPARE_ROUNDS = 5

Advance = Callable[[int], None]


@dataclass
class Report:
    seed: int
    crash_points: int = 0
    failures: int = 0
    rounds: int = 0
    kills_at_calls: int = 0
    kills_while_starting: int = 0
    records_acknowledged: int = 0
    job_rounds: int = 0
    job_apps: dict[str, int] = field(default_factory=dict)
    """Rounds by app."""
    job_kills: dict[str, int] = field(default_factory=dict)
    """By point."""
    job_kills_missed: dict[str, int] = field(default_factory=dict)
    """Times that a point was to kill and the job did not come to it, by point."""
    job_points_never_struck: list[str] = field(default_factory=list)
    job_rows: int = 0
    capture_rounds: int = 0
    capture_kills: dict[str, int] = field(default_factory=dict)
    """By victim and point."""
    capture_kills_missed: int = 0
    captured_changes: int = 0
    large_rows: int = 0
    large_rows_with_broken: int = 0
    large_reasons: dict[str, int] = field(default_factory=dict)
    """Why rows were set aside."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    wanted = parse(arguments)
    report, began = Report(wanted.seed), time.monotonic()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def begin(what: str, total: int) -> Advance:
            task = progress.add_task(what, total=total)
            return lambda done: progress.advance(task, done)

        if wanted.crash_points:
            explore(report, wanted.crash_points, begin("crash points", wanted.crash_points))
        if wanted.failures:
            fail(report, wanted.failures, begin("failed calls", wanted.failures))
        if wanted.rounds:
            kill(report, wanted.rounds, begin("kill -9 rounds", wanted.rounds))
        if wanted.job_rounds:
            kill_jobs(report, wanted.job_rounds, begin("kill -9 rounds of jobs", wanted.job_rounds))
        if wanted.capture_rounds:
            kill_captures(report, wanted.capture_rounds, begin("kill -9 rounds of captures", wanted.capture_rounds))
        if wanted.large_rows or wanted.large_rows_with_broken:
            run_large(report, wanted.large_rows, wanted.large_rows_with_broken, begin)
    report.seconds = round(time.monotonic() - began, 1)
    show(report, as_json=wanted.json)
    return 1 if report.anomalies else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.crash.torture", description="Break the log and count what is lost.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed breaks it in the same ways (default: 1)")
    parser.add_argument("--crash-points", type=int, default=20_000, help="on a simulated disk (default: 20000)")
    parser.add_argument("--failures", type=int, default=2_000, help="of single calls to the disk (default: 2000)")
    parser.add_argument("--rounds", type=int, default=200, help="of kill -9 on a real node (default: 200)")
    parser.add_argument("--job-rounds", type=int, default=60, help="of kill -9 on a job (default: 60)")
    parser.add_argument("--capture-rounds", type=int, default=100, help="of kill -9 on a capture (default: 100)")
    parser.add_argument("--large-rows", type=int, default=5_000_000, help="in batches cut at random (default: 5000000)")
    parser.add_argument(
        "--large-rows-with-broken", type=int, default=1_000_000, help="one in a thousand is broken (default: 1000000)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    return parser.parse_args(arguments)


def explore(report: Report, points: int, advance: Advance) -> None:
    """Whole workloads, one seed after the other, until there are enough points."""
    with ProcessPoolExecutor(os.cpu_count(), initializer=hush) as pool:
        seeds = count(report.seed * 1_000_000)
        running: set[Future[Exploration]] = {pool.submit(explore_seed, seed) for seed in islice(seeds, os.cpu_count())}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                found = future.result()
                report.crash_points += found.points
                report.anomalies += found.anomalies
                advance(found.points)
                if report.crash_points < points:
                    running.add(pool.submit(explore_seed, next(seeds)))


def explore_seed(seed: int) -> Exploration:
    return Explorer(seed, steps=50).run()


def fail(report: Report, wanted: int, advance: Advance) -> None:
    with ProcessPoolExecutor(os.cpu_count(), initializer=hush) as pool:
        chosen = islice(every_failure(report.seed), wanted)
        bundles = iter(lambda: list(islice(chosen, FAILURES_TOGETHER)), [])
        together = list(bundles)
        for bundle, anomalies in zip(together, pool.map(survive_all, together), strict=True):
            report.failures += len(bundle)
            report.anomalies += anomalies
            advance(len(bundle))


def every_failure(seed: int) -> Iterator[tuple[int, Failure]]:
    for workload in count(seed * 1_000_000):
        yield from ((workload, failure) for failure in failures(workload, steps=FAILURE_STEPS, stride=5))


def survive_all(bundle: list[tuple[int, Failure]]) -> list[str]:
    return [sentence for seed, failure in bundle for sentence in survive(seed, failure, steps=FAILURE_STEPS)]


def kill(report: Report, rounds: int, advance: Advance) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headwater-torture-"))
    outcome: Outcome = Killing(folder, report.seed).run(rounds, progress=lambda outcome: advance(1))
    report.rounds, report.records_acknowledged = outcome.rounds, outcome.acknowledged
    report.kills_at_calls, report.kills_while_starting = outcome.kills_at_calls, outcome.kills_while_starting
    report.anomalies += outcome.anomalies
    report.notes += outcome.notes
    if outcome.anomalies:
        report.notes.append(f"history, data and log of the killed node are kept in {folder}")
    else:
        shutil.rmtree(folder)


def kill_jobs(report: Report, rounds: int, advance: Advance) -> None:
    from tests.crash.flow.killing import Killing as JobKilling
    from tests.crash.flow.round_schedule import (  # with Spark, which the others do without
        ROUNDS_OF_A_TURN,
        scheduled_rounds,
    )
    from tests.servers.postgres import running_postgres

    folder = Path(tempfile.mkdtemp(prefix="headwater-torture-jobs-"))
    with running_postgres() as store:
        killing = JobKilling(folder, report.seed, store)
        chosen = islice(scheduled_rounds(Random(report.seed), killing.outcome.kills), rounds)
        outcome = killing.run(chosen, progress=lambda outcome: advance(1))
    report.job_rounds, report.job_apps, report.job_rows = outcome.rounds, dict(outcome.apps), outcome.rows
    report.job_kills, report.job_kills_missed = dict(sorted(outcome.kills.items())), dict(outcome.missed)
    report.job_points_never_struck = outcome.never_struck
    report.anomalies += outcome.anomalies
    report.notes += outcome.notes
    if rounds >= ROUNDS_OF_A_TURN + SPARE_ROUNDS:
        # Each had its turn, and a second one if it was missed: what is left is not tested at all.
        report.anomalies += [f"no job could be killed at: {name}" for name in outcome.never_struck]
    if outcome.anomalies:
        report.notes.append(f"data, log and driver's log of the killed job are kept in {folder}")
    else:
        shutil.rmtree(folder)


def kill_captures(report: Report, rounds: int, advance: Advance) -> None:
    from tests.crash.capture.killing import Killing as CaptureKilling
    from tests.crash.capture.killing import rounds as scheduled_rounds

    folder = Path(tempfile.mkdtemp(prefix="headwater-torture-captures-"))
    chosen = islice(scheduled_rounds(report.seed), rounds)
    outcome = CaptureKilling(folder, report.seed).run(chosen, progress=lambda outcome: advance(1))
    report.capture_rounds, report.captured_changes = outcome.rounds, outcome.changes
    report.capture_kills, report.capture_kills_missed = dict(sorted(outcome.kills.items())), outcome.missed
    report.anomalies += outcome.anomalies
    if outcome.anomalies:
        report.notes.append(f"data and log of the killed captures are kept in {folder}")
    else:
        shutil.rmtree(folder)


def run_large(report: Report, rows: int, rows_with_broken: int, begin: Callable[[str, int], Advance]) -> None:
    from tests.flow.large import running  # with Spark too

    large = running.Report(report.seed)
    running.run(large, rows, rows_with_broken, begin)
    report.large_rows, report.large_rows_with_broken = large.rows, large.rows_with_broken
    report.large_reasons = large.reasons
    report.notes += large.notes
    report.anomalies += large.anomalies


def hush() -> None:
    """What the log says about torn ends and failing disks is expected here, thousands of times."""
    logging.disable(logging.CRITICAL)


def show(report: Report, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report)))
        return
    for note in report.notes:
        print(note)
    print(
        f"seed {report.seed}: {report.crash_points:,} crash points, {report.failures:,} failed calls, "
        f"{report.rounds} kill -9 rounds ({report.kills_at_calls} at chosen calls, {report.kills_while_starting} while "
        f"starting) with {report.records_acknowledged:,} records acknowledged, {report.job_rounds} kill -9 rounds of a "
        f"job ({', '.join(f'{rounds} of {app}' for app, rounds in sorted(report.job_apps.items()))}; "
        f"{sum(report.job_kills_missed.values())} not struck) with {report.job_rows:,} rows, "
        f"{report.capture_rounds} kill -9 rounds of captures ({report.capture_kills_missed} not struck) with "
        f"{report.captured_changes:,} changes, "
        f"{report.large_rows:,} rows in batches cut at random, {report.large_rows_with_broken:,} rows of which "
        f"{sum(report.large_reasons.values()):,} were set aside, in {report.seconds:.0f} s"
    )
    for point, times in report.job_kills.items():
        print(f"  killed {times} times: {point}")
    for point, times in report.capture_kills.items():
        print(f"  captures killed {times} times: {point}")
    for point in report.job_points_never_struck:
        print(f"  never killed: {point}")
    for reason, times in sorted(report.large_reasons.items()):
        print(f"  set aside {times:,} times: {reason}")
    for anomaly in report.anomalies[:SHOWN_MAX]:
        print(f"  {anomaly}")
    print(f"{len(report.anomalies)} anomalies")


if __name__ == "__main__":
    hush()  # only as a program: a test that calls main keeps its log
    sys.exit(main())
