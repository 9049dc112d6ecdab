"""headwater token: who may use the HTTP port from other machines."""

import argparse

from headwater.cli.arguments import add_action, add_actions, add_data, add_json
from headwater.cli.output import Cell, say, write_json, write_table
from headwater.serve.tokens import SCOPES, Tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    adding = add_action(actions, "add", "create a token; it is shown once", run_add)
    listing = add_action(actions, "list", "list tokens", run_list)
    removing = add_action(actions, "remove", "revoke a token", run_remove)
    for child in (adding, removing):
        child.add_argument("name", metavar="NAME", help="what the token is called")
    adding.add_argument(
        "--scope",
        choices=[*SCOPES],
        action="append",
        default=[],
        help="what it allows: " + "; ".join(f"{name}: {about}" for name, about in SCOPES.items()) + "; may be repeated "
        "(default: read)",
    )
    adding.add_argument(
        "--principal", metavar="PRINCIPAL", default="",
        help="whom it stands for where logins are on, such as User:alice; it may do what the principal may, within its "
        "scopes (default: Token:NAME)",
    )  # fmt: skip
    for child in (adding, listing, removing):
        add_data(child)
        add_json(child)


def run_add(arguments: argparse.Namespace) -> int:
    scopes = tuple(dict.fromkeys(arguments.scope)) or ("read",)
    made = Tokens(arguments.data).add(arguments.name, scopes, arguments.principal)
    if arguments.json:
        write_json({"name": arguments.name, "scopes": list(scopes), "token": made})
    else:
        say(made)
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    found = Tokens(arguments.data).all()
    if arguments.json:
        write_json([{"name": one.name, "scopes": list(one.scopes), "principal": str(one.principal)} for one in found])
    elif not found:
        say('there are no tokens. Make one with "headwater token add NAME"')
    else:
        rows: list[list[Cell]] = [[one.name, ", ".join(one.scopes), str(one.principal)] for one in found]
        write_table(["token", "scopes", "principal"], rows)
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    Tokens(arguments.data).remove(arguments.name)
    if arguments.json:
        write_json({"removed": arguments.name})
    else:
        say(f"removed token {arguments.name}")
    return 0
