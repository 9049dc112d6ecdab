"""headwater hook: endpoints that accept signed webhooks."""

import argparse
import sys
from pathlib import Path

from headwater.capture.http.hooks import Hook, Hooks
from headwater.capture.http.signatures import SCHEMES
from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, say, write_json, write_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    adding = add_action(actions, "add", "accept signed webhooks into a topic, or change a hook", run_add)
    listing = add_action(actions, "list", "list hooks", run_list)
    removing = add_action(actions, "remove", "remove a hook", run_remove)
    for child in (adding, removing):
        child.add_argument("name", metavar="NAME", help="the last part of its address, /hooks/NAME")
    adding.add_argument("--topic", metavar="TOPIC", required=True, help="where its records go; it must exist")
    adding.add_argument("--scheme", choices=[*SCHEMES], default="standard", help="how it is signed (default: standard)")
    adding.add_argument(
        "--secret-file",
        metavar="FILE",
        required=True,
        help="has the secret that the sender signs with, or several, one in each line; - is standard input",
    )
    adding.add_argument("--key", metavar="PROPERTY", default="", help="the property whose value is the record's key")
    for child in (adding, listing, removing):
        add_data(child)
        add_json(child)


def run_add(arguments: argparse.Namespace) -> int:
    file = arguments.secret_file
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    secrets = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not secrets:
        raise Failure(f"{file} has no secret in it")
    hook = Hook(name=arguments.name, topic=arguments.topic, scheme=arguments.scheme, secrets=secrets, key=arguments.key)
    Hooks(arguments.data).put(hook)
    if arguments.json:
        write_json(_shown(hook))
    else:
        say(f'webhooks posted to /hooks/{hook.name} on the HTTP port of the node go to topic "{hook.topic}"')
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    hooks = Hooks(arguments.data)
    found = [hooks.get(name) for name in hooks.names()]
    if arguments.json:
        write_json([_shown(hook) for hook in found])
    elif not found:
        say('there are no hooks. Make one with "headwater hook add NAME --topic TOPIC --secret-file FILE"')
    else:
        rows: list[list[Cell]] = [[hook.name, hook.topic, hook.scheme, hook.key] for hook in found]
        write_table(["hook", "topic", "scheme", "key"], rows)
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    Hooks(arguments.data).remove(arguments.name)
    if arguments.json:
        write_json({"removed": arguments.name})
    else:
        say(f"removed hook {arguments.name}")
    return 0


def _shown(hook: Hook) -> dict[str, str]:
    """Without its secrets."""
    return {"hook": hook.name, "topic": hook.topic, "scheme": hook.scheme, "key": hook.key}
