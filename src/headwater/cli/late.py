"""headwater late: show late rows, and replay them into their windows."""

import argparse
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_action, add_actions, add_connection, add_json, checked, positive
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.flows import FLOWS, add_spark, load, remembered, spark
from headwater.cli.output import Cell, counted, note, say, write_json, write_table
from headwater.cli.run import refuse_if_running

if TYPE_CHECKING:
    from headwater.flow.deploy.inventory import KeptJob
    from headwater.flow.late.late_topic import LateRow
    from headwater.flow.late.replay_batches import ReplayedLate

ROWS_SHOWN = 20
COLUMNS = ["operator", "record", "time", "watermark", "window", "status"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    showing = add_action(actions, "show", "show late rows, and why they are late", run_show)
    replaying = add_action(actions, "replay", "replay late rows into the windows of a stopped app", run_replay)
    showing.add_argument("name", metavar="APP[.JOB]", nargs="?", default="", help="which (default: all)")
    showing.add_argument(
        "--limit", metavar="N", type=checked(positive), default=ROWS_SHOWN,
        help=f"show the newest N (default: {ROWS_SHOWN}; --json: all)",
    )  # fmt: skip
    add_connection(showing)
    replaying.add_argument("name", metavar="APP[.JOB]", nargs="?", default="", help="which, if there are several")
    replaying.add_argument("--file", metavar="APP.py", type=Path, help="the app's file, if it is not where it last ran")
    add_spark(replaying)
    for child in (showing, replaying):
        add_json(child)


# -- show --------------------------------------------------------------------------------------------------------------


def run_show(arguments: argparse.Namespace) -> int:
    from headwater.flow.kafka.client import Client
    from headwater.flow.late.late_topic import late_rows_reported

    jobs = jobs_of(arguments)
    with reach(arguments) as address, Client(address) as client:
        rows = [row for job in jobs for row in late_rows_reported(client, job)]
    if arguments.json:
        write_json([row.to_json() for row in rows])
    elif rows:
        show(rows, arguments.limit)
    else:
        say("no row is late")
    return 0


def jobs_of(arguments: argparse.Namespace) -> "list[KeptJob]":
    from headwater.flow.deploy.inventory import chosen

    if not arguments.data.is_dir():
        raise Failure(f"there is no data directory {arguments.data}. Say where the data is with --data DIR")
    return chosen(arguments.data, arguments.name)[0]


def show(rows: "list[LateRow]", limit: int) -> None:
    write_table(COLUMNS, [cells(row) for row in rows[-limit:]])
    left = Counter((f"{row.app}.{row.job}", row.operator) for row in rows if row.admitted is None)
    back = sum(row.admitted is not None for row in rows)
    for (job, operator), count in left.items():
        reason = next(row.reason for row in reversed(rows) if row.operator == operator and row.admitted is None)
        say(f"{counted(count, 'row')} late for {operator} of {job}; the newest: {reason}")
    if back:
        say(f"{counted(back, 'row')} replayed")


def cells(row: "LateRow") -> list[Cell]:
    window = f"{row.window['start']} to {row.window['end']}" if row.window else "-"
    status = "late" if row.admitted is None else f"replayed in batch {row.admitted}"
    record = f"{row.topic}/{row.partition}@{row.offset}"
    return [f"{row.app}.{row.job}.{row.operator}", record, row.time, row.watermark, window, status]


# -- replay ------------------------------------------------------------------------------------------------------------


def run_replay(arguments: argparse.Namespace) -> int:
    arguments.data = arguments.data.absolute()
    only = find_app(arguments)
    app = load(arguments)
    refuse_if_running(arguments.data / FLOWS / app.name)
    with ExitStack() as stack:
        from headwater.flow.declare.topology.registered import asks_the_node

        address = stack.enter_context(reach(arguments, http=asks_the_node(app)))
        session = stack.enter_context(spark(arguments, app.name))
        from headwater.flow.run.running_app import RunningApp, RunSettings

        settings = RunSettings(arguments.data, address, direct=arguments.kafka is None)
        running = RunningApp(app, session, settings, report=note)
        stack.callback(running.stop)
        taken = running.replay_late(only)
    show_replay(app.name, taken, as_json=arguments.json)
    return 0


def find_app(arguments: argparse.Namespace) -> str:
    """Set the name of the app and its file; returns the job, if one is named."""
    known = remembered(arguments.data)
    name: str = arguments.name
    app = next((one for one in known if name == one or name.startswith(f"{one}.")), "")
    if arguments.file is None and not app:
        if not known:
            raise Failure(f'no app has run on {arguments.data} yet. Run one with "headwater run APP.py"')
        if name or len(known) > 1:
            what = f"no app {name} has run here" if name else "several apps have run here"
            raise Failure(f"{what}. There are: {', '.join(known)}")
        app = next(iter(known))
    arguments.app = app or name.partition(".")[0]
    arguments.file = arguments.file or known[app].file
    return name.removeprefix(arguments.app).removeprefix(".")


def show_replay(app: str, taken: "dict[str, ReplayedLate]", *, as_json: bool) -> None:
    if as_json:
        write_json(
            {
                job: {
                    "batch": one.batch,
                    "taken_back": one.rows,
                    "left": {name: {"rows": count, "why": why} for name, (count, why) in one.left.items()},
                }
                for job, one in taken.items()
            }
        )
        return
    for job, one in taken.items():
        for operator, count in one.rows.items():
            say(f"{app}.{job}: {counted(count, 'row')} replayed into {operator}, in batch {one.batch}")
        for operator, (count, why) in one.left.items():
            say(f"{app}.{job}: {counted(count, 'row')} still late for {operator}: {why}")
        if not one.rows and not one.left:
            say(f"{app}.{job}: no row is late")
