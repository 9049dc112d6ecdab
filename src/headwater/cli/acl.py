"""headwater acl: who may do what."""

import argparse

from headwater.access.acls import (
    CLUSTER_NAME,
    EVERY_USER,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    ResourceType,
    problem_of,
)
from headwater.cli.access_client import AccessClient
from headwater.cli.arguments import add_action, add_actions, add_connection, add_json
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, counted, say, write_json, write_table

OWN_KINDS = ("view", "schema", "flow", "capture")
"""What Kafka does not know stands among the topics, under a name that no topic can have."""

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {one.name.lower().replace("_", "-"): one for one in Operation if one > Operation.ANY}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    adding = add_action(actions, "add", "allow principals something, or deny it", run_add)
    listing = add_action(actions, "list", "list ACLs", run_list)
    removing = add_action(actions, "remove", "remove ACLs", run_remove)
    adding.add_argument(
        "principal", metavar="PRINCIPAL", help=f"who, such as User:alice, or {EVERY_USER} for every user"
    )
    for child in (listing, removing):
        child.add_argument("--principal", metavar="PRINCIPAL", help="only those of this principal")
    for child in (adding, listing, removing):
        _add_resource(child)
        child.add_argument(
            "--operation", choices=[*OPERATIONS], action="append", default=[], help="what is done; may be repeated"
        )
        child.add_argument("--deny", action="store_true", help="deny it: that counts before whatever is allowed")
        child.add_argument("--host", metavar="ADDRESS", help="from this address alone (default: any)")
        add_connection(child)
        add_json(child)


def _add_resource(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    for name in (*RESOURCES, *OWN_KINDS):
        group.add_argument(f"--{name}", metavar="NAME", help=f"a {name.replace('-', ' ')}, or * for all")
    group.add_argument("--cluster", action="store_true", help="the node itself")
    parser.add_argument("--prefix", action="store_true", help="all whose name begins so")


def run_add(arguments: argparse.Namespace) -> int:
    kind, name, pattern = _resource(arguments)
    if name is None:
        raise Failure("say what it is about: --topic NAME, --group NAME, --view NAME, --cluster or another")
    if not arguments.operation:
        raise Failure(f"say what may be done: --operation {', '.join(OPERATIONS)}")
    permission = Permission.DENY if arguments.deny else Permission.ALLOW
    acls = [
        Acl(kind, pattern, name, arguments.principal, arguments.host or WILDCARD, OPERATIONS[one], permission)
        for one in dict.fromkeys(arguments.operation)
    ]
    for acl in acls:
        if why := problem_of(acl):
            raise Failure(f"this cannot be an ACL: {why}")
    with reach(arguments, create=True) as address:
        AccessClient(address).add_acls(acls)
    _show(acls, arguments, "added")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        found = [acl for one in _filters(arguments) for acl in AccessClient(address).acls(one)]
    _show(found, arguments, "there are")
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    wanted = _filters(arguments)
    if wanted == [AclFilter()]:
        raise Failure("say which: without --principal, a resource or --operation all ACLs would go")
    with reach(arguments) as address:
        client = AccessClient(address)
        found = [acl for one in wanted for acl in client.remove_acls(one)]
    _show(found, arguments, "removed")
    return 0


def _resource(arguments: argparse.Namespace) -> tuple[ResourceType, str | None, Pattern]:
    pattern = Pattern.PREFIXED if arguments.prefix else Pattern.LITERAL
    if arguments.cluster:
        return ResourceType.CLUSTER, CLUSTER_NAME, Pattern.LITERAL
    for name, kind in RESOURCES.items():
        if (said := getattr(arguments, name.replace("-", "_"))) is not None:
            return kind, said, pattern
    for name in OWN_KINDS:
        if (said := getattr(arguments, name)) is not None:
            # All views are those whose name begins with nothing.
            return (ResourceType.TOPIC, f"{name}:" if said == WILDCARD else f"{name}:{said}",
                    Pattern.PREFIXED if said == WILDCARD else pattern)  # fmt: skip
    return ResourceType.ANY, None, Pattern.ANY


def _filters(arguments: argparse.Namespace) -> list[AclFilter]:
    kind, name, pattern = _resource(arguments)
    permission = Permission.DENY if arguments.deny else Permission.ANY
    operations = [OPERATIONS[one] for one in dict.fromkeys(arguments.operation)] or [Operation.ANY]
    return [
        AclFilter(kind, pattern, name, arguments.principal, arguments.host, operation, permission)
        for operation in operations
    ]


def _show(acls: list[Acl], arguments: argparse.Namespace, what: str) -> None:
    if arguments.json:
        write_json([_said(acl) for acl in acls])
    elif not acls:
        say(f"{what} no ACLs")
    else:
        if what != "there are":
            say(f"{what} {counted(len(acls), 'ACL')}")
        rows: list[list[Cell]] = [[*_said(acl).values()] for acl in acls]
        write_table([*_said(acls[0])], rows)


def _said(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower().replace("_", "-"),
        "resource": acl.resource_type.name.lower().replace("_", "-"),
        "name": acl.resource,
        "pattern": acl.pattern.name.lower(),
        "host": acl.host,
    }
