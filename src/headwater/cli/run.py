"""headwater run: keep an app's views and topics up to date."""

import argparse
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from headwater.cli.arguments import add_json, checked, duration_seconds, positive
from headwater.cli.capturing import define, wait_for
from headwater.cli.connection import reach
from headwater.cli.flows import FLOWS, add_app, add_spark, beginning_spark, load, remember
from headwater.cli.output import Cell, ago, console, note, plain_table, say, write_json, write_table
from headwater.cli.stopping import Stopping, listening
from headwater.clock import SystemClock

if TYPE_CHECKING:
    from headwater.flow.job.accounts import Account
    from headwater.flow.job.processing import Progress

REFRESH_SECONDS = 0.5
COLUMNS = ["job", "batch", "rows in", "rows/s", "state", "watermark", "behind", "idle", "late", "poisoned"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_app(parser)
    parser.add_argument("--once", action="store_true", help="process what is there now, then stop")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", type=checked(duration_seconds), help="stop after a time, such as 60s"
    )
    parser.add_argument(
        "--rows-per-batch", metavar="N", type=checked(positive), help="read at most so many rows at once"
    )
    parser.add_argument(
        "--rebuild", metavar="OUTPUT", action="append", default=[], help="build a view anew from the log, then go on"
    )
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from headwater.flow.declare.registered import asks_the_node, settle

    app = load(arguments)
    arguments.data = arguments.data.absolute()
    refuse_if_running(arguments.data / FLOWS / app.name)
    board = Board(as_json=arguments.json)
    with listening() as stopping, ExitStack() as stack:
        starting = stack.enter_context(beginning_spark(arguments, app.name))
        defined_ms = define(arguments, app.captures)
        address = stack.enter_context(
            reach(
                arguments,
                create=True,
                http=asks_the_node(app),
                captures=bool(app.captures),
                alerts=bool(app.alerts),
            )
        )
        if app.captures and asks_the_node(app):
            # Those that have begun have told the registry what their tables are.
            wait_for(arguments, app.captures, stopping, since_ms=defined_ms, complete=False)
        settle(app, arguments.data)
        # Loaded while the JVM is on its way.
        from headwater.flow.job.running import RunningApp, RunSettings

        session = starting.finish()
        stopping.listen()
        settings = RunSettings(arguments.data, address, once=arguments.once, direct=arguments.kafka is None)
        if arguments.rows_per_batch:
            settings = RunSettings(
                arguments.data, address, arguments.once, arguments.rows_per_batch, direct=settings.direct
            )

        def tell(sentence: str) -> None:
            note(sentence)
            stopping.check()

        stopping.check()
        wait_for(arguments, app.captures, stopping, since_ms=defined_ms, complete=arguments.once)
        running = RunningApp(app, session, settings, watch=board.tell, tell=tell, rebuild=frozenset(arguments.rebuild))
        stack.callback(running.stop)
        running.start()
        remember(arguments, app)
        stack.enter_context(board.shown())
        ended = ended_by_itself(running, arguments.seconds, stopping)
    board.finish(caught_up=arguments.once and ended)
    return 128 + stopping.asked_by if stopping.asked_by else 0


def refuse_if_running(folder: Path) -> None:
    """JobRefused if another process runs a job of the app: said before Spark is started, not after."""
    from headwater.flow.job.folder import JobFolder

    for identity in folder.glob("*/identity.json"):
        job = JobFolder(identity.parent)
        job.lock()
        job.unlock()


def ended_by_itself(running: "object", seconds: float | None, stopping: Stopping) -> bool:
    """Until all jobs have ended (True), the time is up or somebody asks; in short steps, so that Ctrl-C is heard."""
    from headwater.flow.job.running import RunningApp

    assert isinstance(running, RunningApp)
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
        for totals in self._totals.values():
            for name, account in totals.items():
                rows.append([name, account.rows_in, account.rows_out, account.filtered, account.late, account.poisoned])
        if rows:
            write_table(["output", "rows in", "out", "filtered", "late", "poisoned"], rows)
        else:
            say("nothing new: every view is up to date" if caught_up else "stopped before a batch was finished")


def _line(job: str, progress: "Progress", totals: "Mapping[str, Account]") -> list[Cell]:
    from headwater.flow.job.time_told import behind_us, plain

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
    from headwater.flow.job.time_told import times_told

    record = progress.record
    return {
        "job": job,
        "batch": record.batch,
        "seconds": progress.seconds,
        "end": record.end,
        "state_bytes": progress.state_bytes,
        **times_told(record),
        "accounts": {name: account.to_json() for name, account in record.accounts.items()},
    }
