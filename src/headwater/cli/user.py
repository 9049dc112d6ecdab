"""headwater user: who may log in. A password is read from the terminal, standard input or a file alone."""

import argparse
import getpass
import sys
from pathlib import Path

from headwater.access.scram import MECHANISMS
from headwater.cli.access_client import AccessClient
from headwater.cli.arguments import add_action, add_actions, add_connection, add_json
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.output import say, write_json, write_table

PASSWORD_LENGTH_MIN = 8
PASSWORD_LENGTH_MAX = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    adding = add_action(actions, "add", "add a user, or give one another password", run_add)
    listing = add_action(actions, "list", "list users", run_list)
    removing = add_action(actions, "remove", "remove a user", run_remove)
    for child in (adding, removing):
        child.add_argument("name", metavar="NAME", help="what the user is called")
    adding.add_argument(
        "--password-file", metavar="FILE", help="a file with the password, - for standard input (default: ask for it)"
    )
    adding.add_argument(
        "--mechanism",
        choices=[*MECHANISMS],
        action="append",
        default=[],
        help="for which the password is kept, hashed; PLAIN uses either (default: both)",
    )
    for child in (adding, listing, removing):
        add_connection(child)
        add_json(child)


def run_add(arguments: argparse.Namespace) -> int:
    password = read_password(arguments.password_file)
    mechanisms = tuple(arguments.mechanism) or tuple(MECHANISMS)
    with reach(arguments, create=True) as address:
        AccessClient(address).set_password(arguments.name, password, mechanisms)
    if arguments.json:
        write_json({"user": arguments.name, "mechanisms": list(mechanisms)})
    else:
        say(f"user {arguments.name} can log in with {', '.join(mechanisms)}")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        found = AccessClient(address).users()
    if arguments.json:
        write_json([{"user": name, "mechanisms": mechanisms} for name, mechanisms in found.items()])
    elif found:
        write_table(["user", "mechanisms"], [[name, ", ".join(mechanisms)] for name, mechanisms in found.items()])
    else:
        say('there are no users. Add one with "headwater user add NAME"')
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        if not AccessClient(address).remove_user(arguments.name):
            raise Failure(f'there is no user {arguments.name[:80]!r}; "headwater user list" shows them')
    if arguments.json:
        write_json({"removed": arguments.name})
    else:
        say(f"removed user {arguments.name}; connections that are logged in stay until they end")
    return 0


def read_password(file: str | None) -> str:
    if file == "-":
        said = sys.stdin.readline().rstrip("\r\n")
    elif file is not None:
        said = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    elif sys.stdin.isatty():
        said = getpass.getpass("password: ")
        if getpass.getpass("again: ") != said:
            raise Failure("the two passwords are not the same")
    else:
        raise Failure("say where the password is: --password-file FILE, or --password-file - for standard input")
    if not PASSWORD_LENGTH_MIN <= len(said) <= PASSWORD_LENGTH_MAX:
        raise Failure(f"a password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters, this one {len(said)}")
    return said
