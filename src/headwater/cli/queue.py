"""headwater queue: list, describe, peek, retry, purge, replay, move."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from headwater.cli.arguments import (
    Actions,
    Run,
    Start,
    add_action,
    add_actions,
    add_data,
    add_json,
    checked,
    number,
    start,
)
from headwater.cli.connection import http_url, reach
from headwater.cli.failure import Failure
from headwater.cli.output import ago, counted, say, write_json, write_table
from headwater.client import RemoteNode, connect
from headwater.clock import SystemClock
from headwater.settings import LOCAL_TOKEN_FILE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    _action(actions, "list", "list queues and share groups, and how much waits in them", run_list, named=False)
    _action(actions, "describe", "show a queue's books, consumers and settings", run_describe)
    peek = _action(actions, "peek", "show the messages that are delivered next, and leave them there", run_peek)
    retry = _action(actions, "retry", "append messages that were put aside to their topics again", run_retry)
    _action(actions, "purge", "be done with all messages that wait", run_purge)
    replay = _action(actions, "replay", "make a new queue of the same messages, from a time on", run_replay)
    replay.add_argument("new", metavar="NEW", help="the name of the new queue")
    replay.add_argument(
        "--from", dest="begin", metavar="WHEN", type=checked(start("earliest")), default=Start(end="earliest"),
        help="earliest, or a time such as 2026-01-31T12:00:00Z or 1700000000000ms (default: earliest)",
    )  # fmt: skip
    move = _action(actions, "move", "append messages that wait to another topic, and acknowledge them", run_move)
    move.add_argument("topic", metavar="TOPIC", help="the topic they go to")
    for action in (peek, retry, move):
        action.add_argument(
            "--limit", metavar="N", type=checked(number), default=100, help="so many at most (default: 100)"
        )


def _action(actions: Actions, name: str, summary: str, run: Run, *, named: bool = True) -> argparse.ArgumentParser:
    action = add_action(actions, name, summary, run)
    if named:
        action.add_argument("queue", metavar="NAME", help="the queue, or share group")
    add_data(action)
    add_json(action)
    return action


@contextmanager
def _node(arguments: argparse.Namespace) -> Iterator[RemoteNode]:
    """The HTTP port of the node on the data directory; one is started where none runs."""
    arguments.kafka = None
    with reach(arguments, http=True):
        url, token = http_url(arguments.data), arguments.data / LOCAL_TOKEN_FILE
        if not url:
            raise Failure(f"the node on {arguments.data} has no HTTP port. Start it with --http")
        yield connect(url, token=token.read_text(encoding="utf-8").strip() if token.exists() else "")


def _path(arguments: argparse.Namespace, rest: str = "") -> str:
    return f"/queues/{quote(arguments.queue, safe='')}{rest}"


def run_list(arguments: argparse.Namespace) -> int:
    with _node(arguments) as node:
        found = node.get("/queues")
    if arguments.json:
        write_json(found)
    elif not found:
        say("there are no queues yet; a queue is made by its first consumer")
    else:
        columns = ["queue", "topics", "depth", "in flight", "oldest", "redelivered", "dead", "consumers"]
        write_table(columns, [
            [one["name"], ", ".join(one["topics"]), one["depth"], one["in_flight"], _age(one), one["redelivered"],
             one["dead"], len(one["consumers"])]
            for one in found
        ])  # fmt: skip
    return 0


def run_describe(arguments: argparse.Namespace) -> int:
    with _node(arguments) as node:
        found = node.get(_path(arguments))
    if arguments.json:
        write_json(found)
        return 0
    say(
        f'queue "{found["name"]}" on {", ".join(found["topics"]) or "no topic"}: '
        f"{counted(found['depth'], 'message')} not done, {found['in_flight']:,} in flight; "
        f"{found['acknowledged']:,} acknowledged, {found['redelivered']:,} redelivered, {found['dead']:,} dead"
    )
    say("")
    columns = ["topic", "partition", "start", "end", "depth", "in_flight"]
    write_table(["topic", "partition", "start", "end", "depth", "in flight"],
                [[one[name] for name in columns] for one in found["partitions"]])  # fmt: skip
    if found["consumers"]:
        say("")
        write_table(["consumer", "in flight"], [[one["id"], one["in_flight"]] for one in found["consumers"]])
    if found["settings"]:
        say("")
        write_table(["setting", "value"], [[name, value] for name, value in sorted(found["settings"].items())])
    return 0


def run_peek(arguments: argparse.Namespace) -> int:
    with _node(arguments) as node:
        found = node.get(_path(arguments, "/messages"), {"limit": arguments.limit})
    if arguments.json:
        write_json(found)
    elif not found:
        say("nothing waits")
    else:
        columns = ["topic", "partition", "offset", "deliveries", "key", "value"]
        write_table(columns, [[one[name] for name in columns] for one in found])
    return 0


def run_retry(arguments: argparse.Namespace) -> int:
    said = _asked(arguments, "retry", {"limit": arguments.limit})
    return _said(arguments, said, f"{counted(said['retried'], 'message')} appended again")


def run_purge(arguments: argparse.Namespace) -> int:
    said = _asked(arguments, "purge", {})
    return _said(arguments, said, f"{counted(said['purged'], 'message')} dropped; their topics keep them")


def run_replay(arguments: argparse.Namespace) -> int:
    if arguments.begin.offset is not None:
        raise Failure("an offset is one of a partition, and a queue may have several. Say a time, or earliest")
    said = _asked(arguments, "replay", {"name": arguments.new, "time_ms": arguments.begin.time_ms})
    return _said(arguments, said, f'queue "{said["name"]}" has {counted(said["depth"], "message")}')


def run_move(arguments: argparse.Namespace) -> int:
    said = _asked(arguments, "move", {"topic": arguments.topic, "limit": arguments.limit})
    return _said(arguments, said, f"{counted(said['moved'], 'message')} moved to {said['topic']}")


def _asked(arguments: argparse.Namespace, what: str, said: Mapping[str, object]) -> dict[str, Any]:
    with _node(arguments) as node:
        found: dict[str, Any] = node.post(_path(arguments, f"/{what}"), said)
    return found


def _said(arguments: argparse.Namespace, said: Mapping[str, Any], sentence: str) -> int:
    if arguments.json:
        write_json(said)
    else:
        say(sentence)
    return 0


def _age(queue: Mapping[str, Any]) -> str | None:
    oldest_ms = queue["oldest_ms"]
    return None if oldest_ms is None else ago(max(0, SystemClock().now_ms() - oldest_ms))
