"""headwater flow: flows that have run on a data directory, and what can be asked of them."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.output import Cell, say, write_json, write_table
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.flow.deploy.inventory import KeptJob
    from headwater.flow.run.supervision import Condition

ASKED = {
    "pause": "pauses after its current batch",
    "resume": "resumes",
    "restart": "restarts after its current batch",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "list flows and their progress", run_list)
    asking = [
        add_action(actions, "pause", "pause a flow after its current batch", partial(run_ask, "pause")),
        add_action(actions, "resume", "resume a paused flow", partial(run_ask, "resume")),
        add_action(actions, "restart", "restart a flow from its current batch", partial(run_ask, "restart")),
    ]
    for child in asking:
        child.add_argument("name", metavar="NAME", help="the flow, as APP.JOB, or an app for all its flows")
    for child in (listing, *asking):
        add_data(child)
        add_json(child)


def run_list(arguments: argparse.Namespace) -> int:
    from headwater.flow.deploy.inventory import jobs_in
    from headwater.flow.run.health import condition_of

    found = [(str(job), _batch(job), condition_of(job.path)) for job in jobs_in(arguments.data)]
    if arguments.json:
        write_json([{"name": name, "batch": batch, **condition.to_json()} for name, batch, condition in found])
    elif not found:
        say('no flow has run here yet. "headwater run APP.py" runs those of an app')
    else:
        rows: list[list[Cell]] = [[name, str(condition.state), batch] for name, batch, condition in found]
        write_table(["flow", "state", "batch"], rows)
        for name, _, condition in found:
            for line in _troubles(condition):
                say(f"{name}: {line}")
    return 0


def _batch(job: "KeptJob") -> int | None:
    """None too if its folder is damaged: a list names every flow."""
    try:
        last = job.last_batch()
    except (HeadwaterError, OSError, ValueError, KeyError):
        return None
    return last.record.batch if last else None


def _troubles(condition: "Condition") -> Iterator[str]:
    said = condition.to_json()
    if condition.reason:
        times = f"{said['failed_count']} times from {_time(said['failed_first_ms'])} to {_time(said['failed_last_ms'])}"
        again = said["next_attempt_ms"]
        after = f"; tried again at {_time(again)}" if again is not None and condition.state == "retrying" else ""
        yield f"{condition.reason}{f' ({times}{after})' if said['failed_count'] else ''}"
    elif said["healed_ms"] is not None:
        yield f"runs again since {_time(said['healed_ms'])}; it had failed {said['failed_count']} times"
    for one in condition.health.warnings:
        yield f"warning: {one.text}"


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def run_ask(what: str, arguments: argparse.Namespace) -> int:
    from headwater.flow.run.control import ask

    flows = ask(arguments.data, arguments.name, what)
    if arguments.json:
        write_json({"asked": what, "flows": flows})
    else:
        for flow in flows:
            say(f"{flow} {ASKED[what]}")
    return 0
