"""headwater demo: a small shop, end to end, until it is stopped; then a proof that nothing was lost."""

import argparse
import os
import signal
import sys
import tempfile
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from headwater.cli.alert_definitions import define_alerts
from headwater.cli.arguments import add_json, checked, duration_seconds
from headwater.cli.capture_runs import define, wait_for
from headwater.cli.client import Client
from headwater.cli.connection import http_url, reach
from headwater.cli.failure import Failure
from headwater.cli.flows import FLOWS, beginning_spark, load, remember
from headwater.cli.output import Cell, counted, note, say, write_json, write_table
from headwater.cli.run import Board, ended_by_itself
from headwater.cli.stop_signals import Stopping, listening
from headwater.clock import SystemClock
from headwater.settings import HttpSettings

if TYPE_CHECKING:
    from headwater.demo.traffic import Traffic
    from headwater.demo.verdict import Verdict
    from headwater.flow.declare.app import App
    from headwater.flow.proof.verification import Verified
    from headwater.flow.run.running_app import RunningApp
    from headwater.flow.session import SparkSession

SEED = 7
DRAIN_SECONDS, LOOK_SECONDS = 240.0, 0.2
DATABASE_VARIABLE = "HEADWATER_DEMO_DATABASE"
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")

# A proof is a query like any other, and Spark would cut its few rows into two hundred parts.
SPARK = [("spark.sql.shuffle.partitions", "2")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=checked(duration_seconds),
        help="how long the shop is open, such as 60s (default: until Ctrl-C)",
    )
    parser.add_argument(
        "--data", metavar="DIR", type=Path, help="keep what was written there (default: a folder that is removed)"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open the dashboard in a browser")
    add_json(parser)
    parser.set_defaults(run=run, kafka=None, master="local[*,4]", conf=SPARK, app="")


def run(arguments: argparse.Namespace) -> int:
    from headwater.demo import shop_file
    from headwater.demo.database import newest_programs, shop_database

    programs = newest_programs()
    if programs is None:
        raise Failure("the shop's PostgreSQL is missing. Install it with: pip install 'headwater[demo]'")
    with listening() as stopping, ExitStack() as stack:
        arguments.data = folder_for(arguments.data, stack).absolute()
        arguments.file = shop_file()
        starting = stack.enter_context(beginning_spark(arguments, "shop"))
        show(arguments, "A small shop opens: its PostgreSQL, a node, and Spark are on their way.")
        database = os.environ[DATABASE_VARIABLE] = stack.enter_context(shop_database(programs))
        app = load(arguments)
        since_ms = define(arguments, app.captures)
        address = stack.enter_context(
            reach(arguments, create=True, captures=True, http=HttpSettings(port_may_differ=True))
        )
        create_topics(address)
        session = starting.finish()
        stopping.listen()
        wait_for(arguments, app.captures, stopping, since_ms=since_ms, complete=False)
        verdict, traffic = play(arguments, app, session, address, database, stopping)
    report(arguments, verdict, traffic)
    return 0


def folder_for(asked: Path | None, stack: ExitStack) -> Path:
    if asked is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-demo-")))
    if (asked / FLOWS / "shop").exists():
        raise Failure(
            f"{asked} has a shop from before, whose database was deleted. Give another folder, or leave --data out"
        )
    return asked


def create_topics(address: str) -> None:
    from headwater.demo.customers import TOPICS

    client = Client(address)
    for topic in TOPICS.keys() - client.topics().keys():
        client.create_topic(topic, partitions=TOPICS[topic], configs={})


def play(
    arguments: argparse.Namespace, app: "App", session: "SparkSession", address: str, database: str, stopping: Stopping
) -> "tuple[Verdict, Traffic]":
    """Open the shop, close it when it is time, and look at the books."""
    from headwater.demo.customers import Customers
    from headwater.demo.database import Merchant
    from headwater.demo.traffic import Traffic
    from headwater.flow.run.running_app import RunningApp, RunSettings

    clock, board = SystemClock(), Board(as_json=False)
    traffic = Traffic(address, Customers(Random(SEED), clock.now_ms()), clock)
    merchant = Merchant(database, Random(SEED))
    running = RunningApp(app, session, RunSettings(arguments.data, address), watch=board.tell, report=note)
    with ExitStack() as stack:
        for one in (traffic, merchant):
            one.start()
            stack.callback(one.stop)
        stack.callback(running.stop)
        running.start()
        remember(arguments, app)
        define_alerts(arguments, app)
        announce(arguments, address)
        with board.shown(visible=not arguments.json):
            ended_by_itself(running, arguments.seconds, stopping)
            if stopping.asked_by == signal.SIGTERM:  # a service manager wants it to end, and reads no results
                stopping.check()
            traffic.stop()
            merchant.stop()
            drain(running, board, address)
    if traffic.failure is not None:
        raise Failure(f"not every record could be stored: {traffic.failure}")
    if merchant.failure is not None:
        raise Failure(f"the shop's database failed: {merchant.failure}")
    return verify_views(app, session, arguments.data, address, board), traffic


def announce(arguments: argparse.Namespace, address: str) -> None:
    url = http_url(arguments.data)
    if arguments.json:
        write_json({"event": "ready", "http": url, "kafka": address, "data": str(arguments.data)})
    until = "until Ctrl-C" if arguments.seconds is None else f"for {arguments.seconds:g} seconds"
    show(arguments, f"The shop is open {until}. Its dashboard: {url or 'none, its node has no HTTP port'}")
    show(arguments, f"Any Kafka client can join in at {address}. Its flows are declared in {arguments.file}")
    # Without a screen it would be a browser for terminals, in the middle of ours.
    if url and not arguments.no_browser and any(os.environ.get(name) for name in SCREENS):
        webbrowser.open(url)


def show(arguments: argparse.Namespace, text: str) -> None:
    """For people; where a script reads the output, beside it."""
    (note if arguments.json else say)(text)
    sys.stdout.flush()  # a reader may wait for it, also at the other end of a pipe


def drain(running: "RunningApp", board: Board, address: str) -> None:
    """Wait until every job has read all that was stored."""
    from headwater.demo.customers import TOPICS

    client, clock = Client(address), SystemClock()
    ends = {topic: client.ends(topic, range(partitions)) for topic, partitions in TOPICS.items()}
    deadline_ms = clock.elapsed_ms() + 1000 * DRAIN_SECONDS
    while left := [job for job in running.jobs if not board.reached(job, ends)]:
        if clock.elapsed_ms() > deadline_ms:
            raise Failure(f"after {DRAIN_SECONDS:g} seconds {', '.join(left)} had not read all that was stored")
        running.wait(LOOK_SECONDS)


def verify_views(app: "App", session: "SparkSession", data: Path, address: str, board: Board) -> "Verdict":
    """Adds up the accounts, and recomputes every view from the log."""
    from headwater.demo.verdict import Verdict
    from headwater.flow.proof.proofs import prove

    views = sorted(name for name, one in app.outputs.items() if one.kind == "view")
    proofs = []
    for view in views:
        note(f"recomputing {view}")
        proofs.append(prove(app, view, session, data, address, direct=True))
    return Verdict(board.accounts(), proofs, frozenset(views))


def report(arguments: argparse.Namespace, verdict: "Verdict", traffic: "Traffic") -> None:
    stored = sum(traffic.stored.values())
    if arguments.json:
        write_json({"event": "summary", "records": stored, **verdict.to_json()})
    else:
        rows: list[list[Cell]] = [
            [
                name, account.rows_in, account.rows_out, account.filtered, account.late, account.poisoned,
                "balanced" if account.balanced else "does not add up",
            ]
            for name, account in verdict.accounts.items()
        ]  # fmt: skip
        write_table(["output", "rows in", "out", "filtered", "late", "poisoned", "account"], rows)
        say("")
        proofs: list[list[Cell]] = [
            [one.view, one.rows, f"{one.different:,} differ" if one.different else _as_the_log_says(one)]
            for one in verdict.proofs
        ]
        write_table(["view", "rows", "recomputed"], proofs)
        say("")
    if not verdict.good:
        wrong = [
            *(f"the account of {one}" for one in verdict.out_of_balance),
            *(f"view {one}" for one in verdict.unproved),
        ]
        raise Failure(f"{counted(stored, 'record')} were stored, and the books are not in order: {', '.join(wrong)}")
    show(
        arguments,
        f"{counted(stored, 'record')} stored: the accounts of {counted(len(verdict.accounts), 'output')} balance, "
        f"{verdict.views_in_words()}.",
    )


def _as_the_log_says(proof: "Verified") -> str:
    return f"as the log says without {proof.late:,} late" if proof.otherwise else "as the log says"
