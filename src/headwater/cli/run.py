"""headwater run: keep an app's views and topics up to date."""

import argparse
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from headwater.cli.arguments import add_json, checked, duration_seconds, number, positive
from headwater.cli.capture_runs import define, wait_for
from headwater.cli.connection import LOCK_FILE, OwnNode, locked, reach
from headwater.cli.failure import FAILED, WARNED, Failure
from headwater.cli.flows import FLOWS, add_app, add_spark, beginning_spark, check, left_behind, load, remember
from headwater.cli.output import Cell, ago, console, note, plain_table, say, write_json, write_table
from headwater.cli.stop_signals import Stopping, listening
from headwater.clock import SystemClock
from headwater.errors import HeadwaterError
from headwater.small_file import small_files

if TYPE_CHECKING:
    from headwater.flow.commit.accounts import Account
    from headwater.flow.commit.batch_processor import Progress
    from headwater.flow.declare.app import App
    from headwater.flow.declare.retries import Retries
    from headwater.flow.run.running_app import RunningApp

REFRESH_SECONDS = 0.5
CAPTURE_ATTEMPTS = 8
COLUMNS = ["job", "batch", "rows in", "rows/s", "state", "watermark", "behind", "idle", "late", "poisoned"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_app(parser)
    parser.add_argument("--once", action="store_true", help="process what is there now, then stop")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", type=checked(duration_seconds), help="stop after a time, such as 60s"
    )
    parser.add_argument("--rows-per-batch", metavar="N", type=checked(positive), help="read at most N rows in a batch")
    parser.add_argument(
        "--retries", metavar="N", type=checked(number),
        help="restart a failed job up to N times, until a batch succeeds (default: as the app says; else without "
        "end, and twice with --once)",
    )  # fmt: skip
    parser.add_argument(
        "--backoff", metavar="TIME", type=checked(duration_seconds),
        help="wait so long before the first of them, then twice as long each time (default: as the app says, or 1s)",
    )  # fmt: skip
    parser.add_argument(
        "--rebuild", metavar="OUTPUT", action="append", default=[], help="rebuild a view from the log, then continue"
    )
    parser.add_argument(
        "--rollback", metavar="VIEW", action="append", default=[],
        help="with the file as it was before the last rebuild of a view: go back to what that has replaced",
    )  # fmt: skip
    parser.add_argument(
        "--take-over", action="store_true",
        help="where another process runs the app: build what has to be rebuilt beside it, then go on in its place",
    )  # fmt: skip
    parser.add_argument(
        "--capture-attempts",
        metavar="N",
        type=checked(positive),
        help="give up when a captured database could not be reached so often in a row "
        f"(default: {CAPTURE_ATTEMPTS} with --once, half a minute; else never)",
    )
    parser.add_argument(
        "--state", metavar="URL", default="",
        help="keep state and checkpoint there, not in the data directory: s3://BUCKET/PATH, gs://…, abfs://…, or a "
        "folder; a run that starts takes its jobs over from any other",
    )  # fmt: skip
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from headwater.flow.declare.topology.registered import asks_the_node, settle

    app = load(arguments)
    arguments.data = arguments.data.absolute()
    if arguments.take_over:
        refuse_if_its_node_would_end(arguments.data, arguments.data / FLOWS / app.name)
    else:
        refuse_if_running(arguments.data / FLOWS / app.name)
    check(app)
    board, warnings = Board(as_json=arguments.json), list[str]()
    # A run over the current records has a user who waits; one that runs for ever can wait for a database for ever.
    attempts_max = arguments.capture_attempts or (CAPTURE_ATTEMPTS if arguments.once else None)
    with listening() as stopping, ExitStack() as stack:
        starting = stack.enter_context(beginning_spark(arguments, app.name))
        defined_ms = define(arguments, app.captures)
        parts = {"http": asks_the_node(app), "captures": bool(app.captures), "alerts": bool(app.alerts or app.notify)}
        own_node = reach(arguments, create=True, started=lambda said: warnings.extend(own_node_warnings(said)), **parts)
        address = stack.enter_context(own_node)
        if app.captures and asks_the_node(app):
            # Captures that have begun have registered the schemas of their tables.
            wait_for(arguments, app.captures, stopping, since_ms=defined_ms, complete=False, attempts_max=attempts_max)
        settle(app, arguments.data)
        check(app)  # once more, with the columns that registries have
        # Loaded while the JVM is on its way.
        from headwater.flow.run.running_app import ROWS_PER_BATCH, RunningApp, RunSettings

        session = starting.finish()
        stopping.listen()
        settings = RunSettings(
            arguments.data, address, arguments.once, arguments.rows_per_batch or ROWS_PER_BATCH,
            direct=arguments.kafka is None, retries=retries_of(arguments, app),
            state=arguments.state,
        )  # fmt: skip

        def tell(sentence: str) -> None:
            note(sentence)
            stopping.check()

        stopping.check()
        wait_for(
            arguments, app.captures, stopping,
            since_ms=defined_ms, complete=arguments.once, attempts_max=attempts_max,
        )  # fmt: skip
        rollback = frozenset(arguments.rollback)
        running = RunningApp(
            app, session, settings, watch=board.tell, report=tell,
            rebuild=frozenset(arguments.rebuild) | rollback, rollback=rollback,
        )  # fmt: skip
        stack.callback(running.stop)
        if arguments.take_over:
            running.take_over()
        left = left_behind(app, arguments.data)  # before what is noted of outputs is written again
        running.start()
        for one in left:
            note(str(one))
        remember(arguments, app)
        watch(running, board, arguments, stopping)
        warnings += running.warnings
        return outcome(running.failures, warnings, once=arguments.once, asked_by=stopping.asked_by)


def watch(running: "RunningApp", board: "Board", arguments: argparse.Namespace, stopping: Stopping) -> None:
    """Show what the app does until it ends."""
    caught_up = False
    try:
        with board.shown():
            caught_up = ended_by_itself(running, arguments.seconds, stopping) and arguments.once
    finally:
        board.finish(caught_up=caught_up)


def outcome(failures: Mapping[str, HeadwaterError], warnings: list[str], *, once: bool, asked_by: int) -> int:
    """The exit code, and what is left to say: a run that ends while a job fails is no success."""
    for job, error in failures.items():
        note(f"job {job} was failing when the run ended: {error}")
    if failures:
        return FAILED
    if asked_by:
        return 128 + asked_by
    return WARNED if once and warnings else 0


def retries_of(arguments: argparse.Namespace, app: "App") -> "Retries | None":
    """None: as the app says."""
    if arguments.retries is None and arguments.backoff is None:
        return None
    said = app.retries
    first_ms = said.first_ms if arguments.backoff is None else max(1, round(1000 * arguments.backoff))
    limit = said.limit if arguments.retries is None else arguments.retries
    return replace(said, limit=limit, first_ms=first_ms, longest_ms=max(first_ms, said.longest_ms))


def own_node_warnings(said: OwnNode) -> list[str]:
    """Say that no other node serves this data directory; a warning if one did and was not stopped, or could not start.

    A node that did serve has started after any failure that is noted: where both are there, the failure came later.
    """
    for_now = f"this run has a node of its own at {said.address} for as long as it lasts"
    if said.failed_start:
        text = (
            f'the last "headwater start" on this data directory failed: {said.failed_start} Start it again with '
            f'"headwater start"; {for_now}'
        )
    elif said.left_by:
        text = (
            f"the node that served this data directory ({said.left_by}) ended without stopping: it was killed, or the "
            f'machine went down. Start it again with "headwater start"; {for_now}'
        )
    else:
        note(f"no node runs on this data directory; {for_now}")
        return []
    note(f"warning: {text}")
    return [text]


def refuse_if_running(folder: Path) -> None:
    """JobRefused if another process runs a job of the app: said before Spark is started, not after."""
    from headwater.flow.commit.job_folder import JobFolder

    for identity in small_files(folder, "*/identity.json"):
        job = JobFolder(identity.parent)
        job.lock()
        job.unlock()


def refuse_if_its_node_would_end(data: Path, folder: Path) -> None:
    """Failure if the node that the app needs lives in the process that is asked to end."""
    if not locked(data / LOCK_FILE):
        return
    owner = (data / LOCK_FILE).read_text(encoding="utf-8").strip()
    for identity in small_files(folder, "*/identity.json"):
        lock = identity.parent / LOCK_FILE
        if locked(lock) and lock.read_text(encoding="utf-8").strip() == owner:
            raise Failure(
                f"the node of {data} lives in the run that would be taken over (process {owner}), and would end "
                'with it. Stop that run, start a node with "headwater start", and run the app beside it'
            )


def ended_by_itself(running: "RunningApp", seconds: float | None, stopping: Stopping) -> bool:
    """Waits until all jobs have ended (True), the time is up or a stop is requested; in short steps, for Ctrl-C."""
    clock = SystemClock()
    end_ms = None if seconds is None else clock.elapsed_ms() + round(1000 * seconds)
    while not running.wait(REFRESH_SECONDS):
        if stopping.asked_by or (end_ms is not None and clock.elapsed_ms() >= end_ms):
            return False
    return True


class Board:
    """One line for each job: how far it is, how fast, and what it could not use."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()
        self._last: dict[str, Progress] = {}
        self._totals: dict[str, dict[str, Account]] = {}
        self._live: Live | None = None

    def shown(self, *, visible: bool = True) -> ExitStack:
        stack = ExitStack()
        if visible and sys.stdout.isatty() and not self._as_json:
            self._live = stack.enter_context(Live(self._table(), console=console(sys.stdout), transient=True))
            stack.callback(self._end_live)
        return stack

    def _end_live(self) -> None:
        self._live = None

    def tell(self, job: str, progress: "Progress") -> None:
        with self._lock:
            self._last[job] = progress
            totals = self._totals.setdefault(job, {})
            for name, account in progress.record.accounts.items():
                totals[name] = totals[name] + account if name in totals else account
            if self._as_json:
                write_json(_as_json(job, progress))
                sys.stdout.flush()
            elif self._live is not None:
                self._live.update(self._table())

    def _table(self) -> Table:
        return plain_table(COLUMNS, [_line(job, progress, self._totals[job]) for job, progress in self._last.items()])

    def accounts(self) -> dict[str, "Account"]:
        """By output: what became of its rows so far."""
        with self._lock:
            return {name: account for totals in self._totals.values() for name, account in totals.items()}

    def reached(self, job: str, ends: Mapping[str, Mapping[int, int]]) -> bool:
        """Has a job read its topics up to these offsets? Not before its first batch."""
        with self._lock:
            progress = self._last.get(job)
        if progress is None:
            return False
        read = progress.record.end
        return all(
            read[topic].get(partition, 0) >= end
            for topic in read.keys() & ends.keys()
            for partition, end in ends[topic].items()
        )

    def finish(self, *, caught_up: bool) -> None:
        """What became of every row, when all is over."""
        if self._as_json:
            return
        rows: list[list[Cell]] = []
        ends = any(account.expired for totals in self._totals.values() for account in totals.values())
        for totals in self._totals.values():
            for name, account in totals.items():
                counts = [account.rows_in, account.rows_out, account.filtered, account.late, account.poisoned]
                rows.append([name, *counts, *([account.expired] if ends else [])])
        if rows:
            named = ["output", "rows in", "out", "filtered", "late", "poisoned", *(["keys expired"] if ends else [])]
            write_table(named, rows)
        else:
            say("nothing new: every view is up to date" if caught_up else "stopped before a batch was finished")


def _line(job: str, progress: "Progress", totals: "Mapping[str, Account]") -> list[Cell]:
    from headwater.flow.plan.timestamps import behind_us, plain

    reached_us, behind = progress.record.watermark_us, behind_us(progress.record)
    now = max((account.rows_in for account in progress.record.accounts.values()), default=0)
    sums = list(totals.values())
    rate = round(now / progress.seconds) if progress.seconds else 0
    return [
        job,
        progress.record.batch,
        max((account.rows_in for account in sums), default=0),
        rate,
        f"{progress.state_bytes / 1e6:,.1f} MB",
        None if reached_us is None else plain(reached_us),
        None if behind is None else ago(behind // 1000),
        len(progress.record.idle),
        max((account.late for account in sums), default=0),
        max((account.poisoned for account in sums), default=0),
    ]


def _as_json(job: str, progress: "Progress") -> dict[str, object]:
    from headwater.flow.plan.timestamps import times_json

    record = progress.record
    return {
        "job": job,
        "batch": record.batch,
        "seconds": progress.seconds,
        "end": record.end,
        "state_bytes": progress.state_bytes,
        **times_json(record),
        "accounts": {name: account.to_json() for name, account in record.accounts.items()},
    }
