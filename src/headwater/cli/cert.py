"""headwater cert: an authority of one's own, and certificates of servers and clients that it signs."""

import argparse
from pathlib import Path

from headwater.access.authority import Authority
from headwater.cli.arguments import add_action, add_actions, add_json, checked, positive
from headwater.cli.output import say, write_json
from headwater.clock import SystemClock

DAYS = 397
"""The longest time for which browsers and other clients believe in a server's certificate."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    authority = add_action(actions, "authority", "make an authority", run_authority)
    server = add_action(actions, "server", "make a certificate for a node", run_server)
    client = add_action(actions, "client", "make a certificate for a client", run_client)
    server.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name or address under which clients reach the node; may be repeated (default: localhost, 127.0.0.1)",
    )
    for child, default in ((server, "server"), (client, None)):
        about = "what the files and the certificate are called"
        if default is None:
            child.add_argument("name", metavar="NAME", help=f"{about}; the node knows the client as User:CN=NAME")
        else:
            child.add_argument("--name", metavar="NAME", default=default, help=f"{about} (default: {default})")
        child.add_argument(
            "--days", metavar="N", type=checked(positive), default=DAYS, help=f"how long it is valid (default: {DAYS})"
        )
    for child in (authority, server, client):
        child.add_argument(
            "--folder", metavar="DIR", type=Path, default=Path("certificates"),
            help="where the files are (default: certificates in the current folder)",
        )  # fmt: skip
        add_json(child)


def run_authority(arguments: argparse.Namespace) -> int:
    return _said(Authority(arguments.folder, SystemClock()).make(), arguments)


def run_server(arguments: argparse.Namespace) -> int:
    hosts = tuple(arguments.host) or ("localhost", "127.0.0.1")
    authority = Authority(arguments.folder, SystemClock())
    return _said(authority.issue(arguments.name, hosts, days=arguments.days, client=False), arguments)


def run_client(arguments: argparse.Namespace) -> int:
    authority = Authority(arguments.folder, SystemClock())
    return _said(authority.issue(arguments.name, days=arguments.days, client=True), arguments)


def _said(path: Path, arguments: argparse.Namespace) -> int:
    key = path.with_suffix(".key")
    if arguments.json:
        write_json({"certificate": str(path), "key": str(key)})
    else:
        say(f"wrote {path}, and its private key to {key}")
    return 0
