"""Queues from the command line, with a node that runs and with none."""

from collections.abc import Iterator

import pytest

from headwater import Log, Node, NodeSettings, WireSettings
from headwater.record import Record
from headwater.settings import HttpSettings
from tests.cli.conftest import Terminal


@pytest.fixture
def log(terminal: Terminal) -> Iterator[Log]:
    """Of a node that runs, with a queue of five messages: one is done, one is dead, three wait."""
    settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))
    with Node(terminal.data, settings) as node:
        fill(node.log)
        yield node.log


def fill(log: Log) -> None:
    log.create_topic("mail")
    log.append("mail", [Record(b"m%d" % number, b"k") for number in range(5)])
    with log.queue("mail") as queue:
        queue.take()[0].ack()
        queue.take()[0].reject("no such address")


def test_queues_are_listed_with_their_depth(terminal: Terminal, log: Log) -> None:
    said = terminal.type("queue", "list")
    assert said.code == 0, said.errors
    assert said.output.splitlines()[1].split()[:4] == ["mail", "mail", "3", "0"]
    (found,) = terminal.type("queue", "list", "--json").json
    assert (found["depth"], found["acknowledged"], found["dead"], found["in_flight"]) == (3, 1, 1, 0)


def test_a_queue_is_described_with_its_consumers(terminal: Terminal, log: Log) -> None:
    with log.queue("mail") as queue:
        queue.take(2)
        said = terminal.type("queue", "describe", "mail")
        found = terminal.type("queue", "describe", "mail", "--json").json
    assert (
        'queue "mail" on mail: 3 messages not done, 2 in flight; 1 acknowledged, 0 redelivered, 1 dead' in said.output
    )
    assert [one["in_flight"] for one in found["consumers"]] == [2]


def test_messages_are_looked_at_and_stay(terminal: Terminal, log: Log) -> None:
    found = terminal.type("queue", "peek", "mail", "--limit", "2", "--json").json
    assert [(one["offset"], one["value"], one["deliveries"]) for one in found] == [(2, "m2", 0), (3, "m3", 0)]
    assert terminal.type("queue", "list", "--json").json[0]["depth"] == 3


def test_what_was_put_aside_is_tried_again_once(terminal: Terminal, log: Log) -> None:
    assert terminal.type("queue", "retry", "mail").output == "1 message appended again\n"
    assert terminal.type("queue", "retry", "mail").output == "0 messages appended again\n"
    again = list(log.read("mail"))[-1]
    assert (again.value, again.key, list(again.headers)) == (b"m1", b"k", [])


def test_a_queue_is_purged_and_replayed(terminal: Terminal, log: Log) -> None:
    assert terminal.type("queue", "purge", "mail").output == "3 messages dropped; their topics keep them\n"
    assert terminal.type("queue", "list", "--json").json[0]["depth"] == 0
    assert terminal.type("queue", "replay", "mail", "again").output == 'queue "again" has 5 messages\n'
    with log.queue("again") as queue:
        assert [one.value for one in queue.take(10)] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    said = terminal.type("queue", "replay", "mail", "again")
    assert (said.code, "there is a queue of this name already" in said.errors) == (1, True)


def test_a_replay_begins_at_a_time(terminal: Terminal, log: Log) -> None:
    said = terminal.type("queue", "replay", "mail", "later", "--from", "2999-01-01T00:00:00Z", "--json")
    assert said.json == {"queue": "mail", "name": "later", "depth": 0}


def test_messages_are_moved_to_another_topic(terminal: Terminal, log: Log) -> None:
    log.create_topic("slow-mail")
    said = terminal.type("queue", "move", "mail", "slow-mail", "--limit", "2")
    assert said.output == "2 messages moved to slow-mail\n", said.errors
    assert [record.value for record in log.read("slow-mail")] == [b"m2", b"m3"]


def test_a_queue_that_does_not_exist_is_named(terminal: Terminal, log: Log) -> None:
    said = terminal.type("queue", "describe", "none")
    assert (said.code, said.output) == (1, "")
    assert 'there is no queue "none"' in said.errors


def test_a_node_is_started_where_none_runs(terminal: Terminal) -> None:
    with Log.open(terminal.data) as log:
        fill(log)
    assert terminal.type("queue", "list", "--json").json[0]["name"] == "mail"
