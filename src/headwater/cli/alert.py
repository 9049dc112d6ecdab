"""headwater alert: alerts that apps declare, and what they hold now."""

import argparse
from typing import Any

from headwater.alerts.evaluating import alerts_told
from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.output import Cell, ago, say, write_json, write_table
from headwater.clock import SystemClock

KEYS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "name all alerts, and the keys that meet their conditions", run_list)
    listing.add_argument("--raised", action="store_true", help="only those that are raised")
    add_data(listing)
    add_json(listing)


def run_list(arguments: argparse.Namespace) -> int:
    found = [one for one in alerts_told(arguments.data) if one["state"] == "raised" or not arguments.raised]
    if arguments.json:
        write_json(found)
    elif not found:
        say("no alert is raised" if arguments.raised else "there are no alerts: app.alert(...) declares one")
    else:
        now_ms = SystemClock().now_ms()
        write_table(
            ["alert", "view", "state", "key", "for", "told", "says"],
            [row for one in found for row in _rows(one, now_ms)],
        )
    return 0


def _rows(alert: dict[str, Any], now_ms: int) -> list[list[Cell]]:
    """A row for each key, or one that says that there is none."""
    if not alert["keys"]:
        return [[alert["name"], alert["view"], alert["state"], None, None, None, alert["said"] or None]]
    return [
        [alert["name"], alert["view"], one["state"], _key(one["key"]), ago(max(0, now_ms - one["since_ms"])),
         one["told"], alert["said"] or None]
        for one in alert["keys"][:KEYS_SHOWN]
    ]  # fmt: skip


def _key(key: dict[str, Any]) -> str:
    """
    >>> _key({"url": "/", "country": "DE"})
    'url=/, country=DE'
    """
    return ", ".join(f"{name}={value}" for name, value in key.items()) or "all"
