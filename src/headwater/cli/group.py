"""headwater group: list, describe, reset."""

import argparse
from collections.abc import Mapping
from typing import NamedTuple

from headwater.cli.arguments import add_action, add_actions, add_connection, add_json, checked, number, start
from headwater.cli.client import Client, Group
from headwater.cli.connection import reach
from headwater.cli.output import counted, say, write_json, write_table
from headwater.errors import GroupNotEmpty, OffsetOutOfRange


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "list consumer groups", run_list)
    describe = add_action(actions, "describe", "show a group's members, offsets and lag", run_describe)
    reset = add_action(actions, "reset", "set the offsets of a group that has no members", run_reset)
    for parser_of_one in (describe, reset):
        parser_of_one.add_argument("group", metavar="NAME", help="the group")
    reset.add_argument("--topic", metavar="NAME", required=True, help="the topic whose offsets move")
    reset.add_argument(
        "--to",
        metavar="WHERE",
        required=True,
        type=checked(start("earliest", "latest")),
        help="earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z or 1700000000000ms",
    )
    reset.add_argument("--partition", metavar="N", type=checked(number), help="move only this partition")
    reset.add_argument("--dry-run", action="store_true", help="only show what would change")
    for child in (listing, describe, reset):
        add_connection(child)
        add_json(child)


def run_list(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        client = Client(address)
        groups = client.groups(client.group_names())
    if arguments.json:
        write_json([{"group": g.name, "type": g.kind, "state": g.state, "members": len(g.members)} for g in groups])
    elif groups:
        write_table(["group", "type", "state", "members"], [[g.name, g.kind, g.state, len(g.members)] for g in groups])
    else:
        say("there are no groups yet; a consumer makes one by joining it")
    return 0


class Progress(NamedTuple):
    """How far a group has come in one partition."""

    topic: str
    partition: int
    committed: int | None
    end: int | None  # None: the partition was deleted
    member: str | None

    @property
    def lag(self) -> int | None:
        """Records between what was committed and the end; unknown while nothing was committed."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


def run_describe(arguments: argparse.Namespace) -> int:
    with reach(arguments) as address:
        client = Client(address)
        group = client.group(arguments.group)
        partitions = progress_of(client, group)
    if arguments.json:
        members = [
            {"id": m.id, "client": m.client_id, "host": m.host, "partitions": m.partitions} for m in group.members
        ]
        described = [{**one._asdict(), "lag": one.lag} for one in partitions]
        said = {"group": group.name, "type": group.kind, "state": group.state, "assignor": group.protocol}
        write_json({**said, "members": members, "partitions": described})
        return 0
    lag = sum(one.lag or 0 for one in partitions)
    say(f'{group.kind} group "{group.name}" is {group.state}: {counted(len(group.members), "member")}, lag {lag:,}')
    if partitions:
        say("")
        rows = [[one.topic, one.partition, one.committed, one.end, one.lag, one.member] for one in partitions]
        write_table(["topic", "partition", "committed", "end", "lag", "member"], rows)
    return 0


def progress_of(client: Client, group: Group) -> list[Progress]:
    """Every partition that the group has committed in or that one of its members reads."""
    committed = client.committed(group.name)
    readers = {partition: member.id for member in group.members for partition in member.partitions}
    counts = client.topics()
    partitions = sorted(committed.keys() | readers.keys())
    ends: dict[tuple[str, int], int] = {}
    for topic in sorted({topic for topic, _ in partitions}):
        numbers = [n for name, n in partitions if name == topic and n < counts.get(topic, 0)]
        found = client.ends(topic, numbers)
        ends |= {(topic, n): offset for n, offset in found.items()}
    return [Progress(*one, committed.get(one), ends.get(one), readers.get(one)) for one in partitions]


def run_reset(arguments: argparse.Namespace) -> int:
    name, topic = arguments.group, arguments.topic
    with reach(arguments) as address:
        client = Client(address)
        partitions = client.partitions(topic, arguments.partition)
        if any(group.members for group in client.groups([name])):
            raise GroupNotEmpty(name)
        before = client.committed(name)
        after = client.offsets(topic, partitions, arguments.to)
        check_inside(client, topic, after)
        if not arguments.dry_run:
            client.commit(name, topic, after)
    moves = [(topic, n, before.get((topic, n)), after[n]) for n in partitions]
    if arguments.json:
        listed = [{"topic": t, "partition": n, "from": old, "to": new} for t, n, old, new in moves]
        write_json({"group": name, "dry_run": arguments.dry_run, "partitions": listed})
        return 0
    say(f'group "{name}" {"would move" if arguments.dry_run else "has moved"}\n')
    write_table(["topic", "partition", "from", "to"], moves)
    return 0


def check_inside(client: Client, topic: str, offsets: Mapping[int, int]) -> None:
    first = client.firsts(topic, offsets)
    end = client.ends(topic, offsets)
    for n, offset in offsets.items():
        if not first[n] <= offset <= end[n]:
            raise OffsetOutOfRange(topic, n, offset, first=first[n], end=end[n])
