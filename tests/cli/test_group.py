from unittest.mock import MagicMock

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from headwater import Node, Record
from headwater.cli.client import Client
from headwater.cli.failure import Failure
from tests.cli.conftest import Terminal
from tests.waiting import wait_until


@pytest.fixture
def warehouse(terminal: Terminal, node: Node) -> Node:
    """A group that has read two of five orders."""
    node.log.create_topic("orders")
    node.log.append("orders", [Record(b"%d" % n, timestamp_ms=1000 * n) for n in range(5)])
    terminal.type("consume", "orders", "--group", "warehouse", "--count", "2")
    return node


def test_groups_are_listed_with_their_state(terminal: Terminal, warehouse: Node) -> None:
    listed = {"group": "warehouse", "type": "classic", "state": "empty", "members": 0}
    assert terminal.type("group", "list", "--json").json == [listed]
    words = ["group", "type", "state", "members", "warehouse", "classic", "empty", "0"]
    assert terminal.type("group", "list").output.split() == words


def test_a_group_of_the_consumer_protocol_shows_as_one(terminal: Terminal, warehouse: Node) -> None:
    settings = {"bootstrap.servers": warehouse.kafka_address, "group.id": "modern", "group.protocol": "consumer"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe(["orders"])
        wait_until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "an assignment")
        listed = terminal.type("group", "list", "--json").json
        assert [(one["group"], one["type"], one["members"]) for one in listed] == [
            ("modern", "consumer", 1), ("warehouse", "classic", 0)
        ]  # fmt: skip
        said = terminal.type("group", "describe", "modern", "--json").json
        assert (said["type"], said["state"], said["assignor"]) == ("consumer", "stable", "uniform")
        assert said["members"][0]["partitions"] == [["orders", 0]]
        assert 'consumer group "modern" is stable: 1 member' in terminal.type("group", "describe", "modern").output
    finally:
        consumer.close()


def test_no_groups_is_said_in_words(terminal: Terminal, node: Node) -> None:
    assert "no groups yet" in terminal.type("group", "list").output


def test_describe_shows_what_is_left_to_read(terminal: Terminal, warehouse: Node) -> None:
    said = terminal.type("group", "describe", "warehouse", "--json").json
    assert said["state"] == "empty"
    assert said["partitions"] == [
        {"topic": "orders", "partition": 0, "committed": 2, "end": 5, "member": None, "lag": 3}
    ]
    assert 'group "warehouse" is empty: 0 members, lag 3' in terminal.type("group", "describe", "warehouse").output


def test_an_unknown_group_is_named_with_a_way_out(terminal: Terminal, node: Node) -> None:
    said = terminal.type("group", "describe", "warehuose")
    assert said.code == 1
    assert said.errors == 'headwater: there is no group "warehuose". List what exists with "headwater group list".\n'


@pytest.mark.parametrize(
    "where, left",
    [("earliest", "0 1 2 3 4"), ("latest", ""), ("1", "1 2 3 4"), ("1970-01-01T00:00:03Z", "3 4")],
)
def test_a_reset_group_reads_from_its_new_offset(terminal: Terminal, warehouse: Node, where: str, left: str) -> None:
    assert terminal.type("group", "reset", "warehouse", "--topic", "orders", "--to", where).code == 0
    assert terminal.type("consume", "orders", "--group", "warehouse").output.split() == left.split()


def test_a_dry_run_shows_and_changes_nothing(terminal: Terminal, warehouse: Node) -> None:
    words = ("group", "reset", "warehouse", "--topic", "orders", "--to", "earliest", "--dry-run")
    assert terminal.type(*words, "--json").json == {
        "group": "warehouse",
        "dry_run": True,
        "partitions": [{"topic": "orders", "partition": 0, "from": 2, "to": 0}],
    }
    assert terminal.type("consume", "orders", "--group", "warehouse", "--count", "1").output == "2\n"


def test_an_offset_outside_the_partition_is_refused(terminal: Terminal, warehouse: Node) -> None:
    said = terminal.type("group", "reset", "warehouse", "--topic", "orders", "--to", "6")
    assert said.code == 1
    assert "is outside 0..5" in said.errors


def test_a_group_with_members_is_not_moved(terminal: Terminal, warehouse: Node) -> None:
    consumer = Consumer({"bootstrap.servers": warehouse.kafka_address, "group.id": "warehouse"})
    consumer.subscribe(["orders"])
    assert consumer.consume(1, 30)
    said = terminal.type("group", "reset", "warehouse", "--topic", "orders", "--to", "latest")
    described = terminal.type("group", "describe", "warehouse", "--json").json
    consumer.close()
    assert said.code == 1
    assert said.errors == 'headwater: group "warehouse" still has members. Stop its consumers first.\n'
    assert described["state"] == "stable"
    assert described["members"][0]["partitions"] == [["orders", 0]]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_broker_that_cannot_list_its_groups_yet_is_one_sentence(wrapped: bool) -> None:
    error = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    listed = MagicMock(errors=[KafkaException(error) if wrapped else error])
    client = Client("127.0.0.1:1")
    client._admin = MagicMock()
    client._admin.list_consumer_groups().result.return_value = listed
    with pytest.raises(Failure, match="Coordinator load in progress"):
        client.group_names()
