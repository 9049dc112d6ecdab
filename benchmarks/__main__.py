"""`python -m benchmarks`: measure, show, and write docs/benchmarks.md after a full run."""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import events, fetch, latency, machine, memory, opening, produce
from benchmarks.capture import capture
from benchmarks.capture.tables import capture_tables
from benchmarks.contenders import running_field
from benchmarks.flow import plan as flow_plan
from benchmarks.flow.apart import measure_apart
from benchmarks.flow.tables import flow_tables
from benchmarks.plan import BROKER_SECTIONS, QUICK, SECTIONS, Plan
from benchmarks.progress import Progress
from benchmarks.report import page, show
from benchmarks.results import Results
from benchmarks.tables import all_tables
from tests.clients.client import Refused

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small form that takes a few minutes; writes no page")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections, of {','.join(SECTIONS)}")
    parser.add_argument("--gib", type=float, help="size of the log whose opening is timed")
    parser.add_argument("--rounds", type=int, help="rounds of produce, fetch, capture, source, keyed and sink")
    parser.add_argument("--folder", type=Path, help="where brokers keep their data; on the disk to be measured")
    parser.add_argument("--page", type=Path, help="write the page here, whatever was measured")
    parser.add_argument("--quiet", action="store_true", help="do not say what is being measured")
    given = parser.parse_args()
    given.sections = given.only.split(",")
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if given.folder is not None and not given.folder.is_dir():
        parser.error(f"--folder {given.folder} is not a folder; make it first, on the disk to be measured")
    return given


def plan_of(given: argparse.Namespace) -> Plan:
    plan = QUICK if given.quick else Plan()
    if given.gib is not None:
        plan = replace(plan, open_gib=given.gib)
    if given.rounds is not None:
        plan = replace(
            plan, rounds=given.rounds,
            flow=replace(plan.flow, rounds=given.rounds), capture=replace(plan.capture, rounds=given.rounds),
        )  # fmt: skip
    return plan


def measure(given: argparse.Namespace, folder: Path) -> tuple[Results, list[str], bool]:
    """What was measured, what must be said about it, and whether a section failed."""
    plan, results, progress = plan_of(given), Results(), Progress(given.quiet)
    notices: list[str] = []
    failed = False

    def attempt(section: str, work: Callable[[], Sequence[str] | None]) -> None:
        """A section that fails says so, and leaves the others their turn."""
        nonlocal failed
        if section not in given.sections:
            return
        try:
            notices.extend(work() or ())
        except (RuntimeError, OSError, Refused, subprocess.SubprocessError) as error:
            failed = True
            notices.append(f"The section {section} failed: {str(error).strip().splitlines()[-1]}")

    if set(given.sections) & set(BROKER_SECTIONS):
        with running_field(folder) as field:
            notices += [field.notice] if field.notice else []
            # Memory first, because what produce and fetch leave behind would hide what consumers cost.
            attempt("memory", lambda: memory.measure(field, plan, results, progress))
            attempt("produce", lambda: produce.measure(field, folder, plan, results, progress))
            attempt("fetch", lambda: fetch.measure(field, plan, results, progress))
            attempt("latency", lambda: latency.measure(field, folder, plan, results, progress))
    if "open" in given.sections:
        notices.append(f"The log that is opened holds {plan.open_gib:g} GiB in {opening.PARTITIONS} partitions.")
        attempt("open", lambda: opening.measure(folder, plan, results, progress))
    attempt("events", lambda: events.measure(folder, plan, results, progress))
    attempt("capture", lambda: capture.measure(folder, plan.capture, results, progress))
    for section in flow_plan.SECTIONS:
        attempt(section, partial(measure_apart, section, folder, plan.flow, results, progress))
    return results, notices, failed


def main() -> None:
    given = arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft < 4096 else soft, hard))
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=given.folder) as folder:
        results, notices, failed = measure(given, Path(folder))
        words = machine.description(Path(folder))
    tables = [*all_tables(results), *capture_tables(results), *flow_tables(results)]
    show(tables, [*notices, words])
    full = not failed and not given.quick and set(given.sections) == set(SECTIONS)
    target = given.page or (PAGE if full else None)
    if target is not None:
        target.write_text(page(tables, notices, day=datetime.now(UTC).date().isoformat(), machine=words))
        print(f"written: {target}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
