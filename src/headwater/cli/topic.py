"""headwater topic: create, list, describe, alter, delete."""

import argparse

from headwater.cli.arguments import (
    Actions,
    Run,
    add_action,
    add_actions,
    add_connection,
    add_json,
    checked,
    positive,
    setting,
)
from headwater.cli.client import Client
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.output import counted, say, write_json, write_table
from headwater.log.topic import INTERNAL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    create = _action(actions, "create", "create a topic", run_create, named=True)
    create.add_argument("--partitions", metavar="N", type=checked(positive), default=1, help="how many (default: 1)")
    _add_config(create)

    listing = _action(actions, "list", "list topics", run_list, named=False)
    listing.add_argument("--internal", action="store_true", help="also those that headwater keeps for itself")

    _action(actions, "describe", "show a topic's partitions and settings", run_describe, named=True)

    alter = _action(actions, "alter", "change a topic's settings or add partitions", run_alter, named=True)
    alter.add_argument("--partitions", metavar="N", type=checked(positive), help="grow to this many")
    _add_config(alter)
    alter.add_argument(
        "--unset", metavar="NAME", action="append", default=[], help="back to the default; may be repeated"
    )

    _action(actions, "delete", "delete a topic and all its records", run_delete, named=True)


def run_create(arguments: argparse.Namespace) -> int:
    with reach(arguments, create=True) as address:
        configs = dict(arguments.config)
        Client(address).create_topic(arguments.topic, partitions=arguments.partitions, configs=configs)
    if arguments.json:
        write_json({"topic": arguments.topic, "partitions": arguments.partitions, "configs": configs})
    else:
        say(f'created topic "{arguments.topic}" with {counted(arguments.partitions, "partition")}')
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        found = Client(address).topics()
    shown = {name: count for name, count in found.items() if arguments.internal or name not in INTERNAL}
    if arguments.json:
        write_json([{"topic": name, "partitions": count} for name, count in shown.items()])
    elif shown:
        write_table(["topic", "partitions"], [(name, count or "offline") for name, count in shown.items()])
    else:
        say('there are no topics yet; make one with "headwater topic create NAME"')
    return 0


def run_describe(arguments: argparse.Namespace) -> int:
    topic = arguments.topic
    with reach(arguments) as address:
        client = Client(address)
        partitions = client.partitions(topic)
        first = client.firsts(topic, partitions)
        end = client.ends(topic, partitions)
        settings = client.settings(topic)
    if arguments.json:
        write_json(
            {
                "topic": topic,
                "partitions": [{"partition": n, "first": first[n], "end": end[n]} for n in partitions],
                "configs": {s.name: s.value for s in settings if s.chosen},
                "defaults": {s.name: s.value for s in settings if not s.chosen},
            }
        )
        return 0
    held = sum(end[n] - first[n] for n in partitions)
    say(f'topic "{topic}": {counted(len(partitions), "partition")}, {counted(held, "offset")} held\n')
    write_table(["partition", "first offset", "end offset"], [[n, first[n], end[n]] for n in partitions])
    say("")
    write_table(
        ["setting", "value", "set by"], [[s.name, s.value, "topic" if s.chosen else "default"] for s in settings]
    )
    return 0


def run_alter(arguments: argparse.Namespace) -> int:
    topic, configs = arguments.topic, dict(arguments.config)
    if arguments.partitions is None and not configs and not arguments.unset:
        raise Failure("there is nothing to change: give --partitions, --config or --unset")
    with reach(arguments) as address:
        client = Client(address)
        client.partitions(topic)
        if configs or arguments.unset:
            client.alter_topic(topic, configs=configs, unset=arguments.unset)
        if arguments.partitions is not None:
            client.add_partitions(topic, arguments.partitions)
        count = len(client.partitions(topic))
    if arguments.json:
        write_json({"topic": topic, "partitions": count, "set": configs, "unset": arguments.unset})
    else:
        say(f'changed topic "{topic}"')
    return 0


def run_delete(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        Client(address).delete_topic(arguments.topic)
    if arguments.json:
        write_json({"deleted": arguments.topic})
    else:
        say(f'deleted topic "{arguments.topic}"')
    return 0


def _action(actions: Actions, name: str, summary: str, run: Run, *, named: bool) -> argparse.ArgumentParser:
    parser = add_action(actions, name, summary, run)
    if named:
        parser.add_argument("topic", metavar="NAME", help="the topic")
    add_connection(parser)
    add_json(parser)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        type=checked(setting),
        action="append",
        default=[],
        help="a topic setting, such as cleanup.policy=compact; may be repeated",
    )
