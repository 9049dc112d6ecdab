"""headwater alert: alerts that apps declare, and what they hold now."""

import argparse
from typing import Any

from headwater.alerts.definition import AppAlerts, Definitions, alerts_topic
from headwater.alerts.evaluation import alert_reports
from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, ago, counted, say, write_json, write_table
from headwater.clock import SystemClock

KEYS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "list alerts, and the keys that meet their conditions", run_list)
    listing.add_argument("--raised", action="store_true", help="only raised alerts")
    removing = add_action(actions, "remove", "resolve the alerts of an app that was removed", run_remove)
    removing.add_argument("app", metavar="APP", help="the app that declared them")
    for action in (listing, removing):
        add_data(action)
        add_json(action)


def run_list(arguments: argparse.Namespace) -> int:
    found = [one for one in alert_reports(arguments.data) if one["state"] == "raised" or not arguments.raised]
    if arguments.json:
        write_json(found)
    elif not found:
        say("no alert is raised" if arguments.raised else "there are no alerts: app.alert(...) declares one")
    else:
        now_ms = SystemClock().now_ms()
        write_table(
            ["alert", "view", "state", "key", "for", "notified", "says"],
            [row for one in found for row in _rows(one, now_ms)],
        )
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    """Its views stay, and so do its topics: what they hold was true."""
    app, definitions = arguments.app, Definitions(arguments.data)
    names = [one["alert"] for one in alert_reports(arguments.data) if one["app"] == app]
    if not names:
        apps = ", ".join(sorted({one["app"] for one in alert_reports(arguments.data)})) or "none"
        raise Failure(f'no alert of an app "{app}" is declared in {arguments.data}; apps that have alerts: {apps}')
    if flows := _running(arguments):
        raise Failure(
            f"{', '.join(flows)} of {app} is running, and its code declares the alerts; take them out there and run "
            "it again, or stop it first"
        )
    definitions.declare(AppAlerts(app, ()))
    if arguments.json:
        write_json({"app": app, "removed": names})
    else:
        say(f"removed {counted(len(names), 'alert')} of {app}: {', '.join(names)}")
        say(f"the node resolves open alerts, notifies their targets, and records them in {alerts_topic(app)}")
    return 0


def _running(arguments: argparse.Namespace) -> list[str]:
    from headwater.flow.commit.job_folder import LOCK
    from headwater.flow.deploy.inventory import jobs_in
    from headwater.log.locks import locked

    jobs = [one for one in jobs_in(arguments.data) if one.app == arguments.app]
    return [str(one) for one in jobs if locked(one.path / LOCK)]


def _rows(alert: dict[str, Any], now_ms: int) -> list[list[Cell]]:
    """A row for each key, or one that says that there is none."""
    if not alert["keys"]:
        return [[alert["name"], alert["view"], alert["state"], None, None, None, alert["said"] or None]]
    return [
        [alert["name"], alert["view"], one["state"], _key(one["key"]), ago(max(0, now_ms - one["since_ms"])),
         one["notifications"], alert["said"] or None]
        for one in alert["keys"][:KEYS_SHOWN]
    ]  # fmt: skip


def _key(key: dict[str, Any]) -> str:
    """
    >>> _key({"url": "/", "country": "DE"})
    'url=/, country=DE'
    """
    return ", ".join(f"{name}={value}" for name, value in key.items()) or "all"
