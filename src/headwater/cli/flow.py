"""headwater flow: flows that have run on a data directory, and what can be asked of them."""

import argparse
from functools import partial

from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.output import Cell, say, write_json, write_table

ASKED = {
    "pause": "stands still after the batch under way",
    "resume": "goes on",
    "restart": "starts anew after the batch under way",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "name all flows and how far they are", run_list)
    asking = [
        add_action(actions, "pause", "let a flow stand still after the batch under way", partial(run_ask, "pause")),
        add_action(actions, "resume", "let a flow go on", partial(run_ask, "resume")),
        add_action(actions, "restart", "start a flow anew, from the batch it has come to", partial(run_ask, "restart")),
    ]
    for child in asking:
        child.add_argument("name", metavar="NAME", help="the flow, as APP.JOB, or an app for all its flows")
    for child in (listing, *asking):
        add_data(child)
        add_json(child)


def run_list(arguments: argparse.Namespace) -> int:
    from headwater.flow.job.controlling import control_of
    from headwater.flow.job.folder import LOCK
    from headwater.flow.job.inventory import jobs_in
    from headwater.log.locks import locked

    rows: list[list[Cell]] = []
    for job in jobs_in(arguments.data):
        last, running = job.last_batch(), locked(job.path / LOCK)
        state = "paused" if control_of(job.path).paused else "running" if running else "stopped"
        rows.append([str(job), state, last.record.batch if last else None])
    if arguments.json:
        write_json([{"name": name, "state": state, "batch": batch} for name, state, batch in rows])
    elif not rows:
        say('no flow has run here yet. "headwater run APP.py" runs those of an app')
    else:
        write_table(["flow", "state", "batch"], rows)
    return 0


def run_ask(what: str, arguments: argparse.Namespace) -> int:
    from headwater.flow.job.controlling import ask

    flows = ask(arguments.data, arguments.name, what)
    if arguments.json:
        write_json({"asked": what, "flows": flows})
    else:
        for flow in flows:
            say(f"{flow} {ASKED[what]}")
    return 0
