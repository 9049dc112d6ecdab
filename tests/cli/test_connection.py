import argparse
import json

import pytest

from headwater import Log, Node
from headwater.cli import connection
from tests.cli.conftest import Terminal


def test_a_command_finds_the_node_through_its_data_directory(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=3)
    assert terminal.type("topic", "list", "--json").json == [{"topic": "orders", "partitions": 3}]


def test_a_command_talks_to_the_address_it_is_given(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    said = terminal.type("topic", "list", "--json", "--data", "nowhere", "--kafka", node.kafka_address)
    assert said.json == [{"topic": "orders", "partitions": 1}]


def test_where_no_node_runs_a_command_starts_one_for_itself(terminal: Terminal) -> None:
    assert terminal.type("topic", "create", "orders").code == 0
    assert terminal.type("topic", "list", "--json").json == [{"topic": "orders", "partitions": 1}]
    with Log.open(terminal.data) as log:
        assert log.clean_start


def test_reading_never_makes_a_data_directory(terminal: Terminal) -> None:
    said = terminal.type("topic", "list")
    assert said.code == 1
    assert said.errors.startswith("headwater: there is no data directory data. Say where the data is with --data")
    assert not terminal.data.exists()


def test_an_address_where_nothing_listens_is_a_sentence(terminal: Terminal) -> None:
    said = terminal.type("topic", "list", "--kafka", "127.0.0.1:1")
    assert said.code == 1
    assert said.errors.startswith("headwater: nothing answers at 127.0.0.1:1.")


def test_a_directory_that_a_program_has_open_is_left_to_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.2)
    with Log.open(terminal.data):
        said = terminal.type("topic", "list")
    assert said.code == 1
    assert "is in use by process" in said.errors


@pytest.mark.parametrize(
    "said", ['{"kafka": 9092', '{"kafka": 9092, "process": 7}', '{"kafka": "127.0.0.1:1"}', "[]", "{}"]
)
def test_a_node_file_that_makes_no_sense_is_no_address(terminal: Terminal, said: str) -> None:
    terminal.data.mkdir()
    (terminal.data / ".lock").write_text("7\n")
    (terminal.data / "node.json").write_text(said)
    assert connection.read_node_file(terminal.data) is None


def test_a_node_file_of_another_process_than_the_owner_is_not_believed(terminal: Terminal, node: Node) -> None:
    said = json.loads((terminal.data / "node.json").read_text())
    assert connection.read_node_file(terminal.data) is not None
    (terminal.data / "node.json").write_text(json.dumps({**said, "process": said["process"] + 1}))
    assert connection.read_node_file(terminal.data) is None


def test_a_lock_is_seen_without_being_taken(terminal: Terminal, node: Node) -> None:
    assert connection.locked(terminal.data / ".lock")
    node.stop()
    assert not connection.locked(terminal.data / ".lock")
    assert not connection.locked(terminal.data / "nothing")


def test_where_locks_are_not_shown_the_node_is_found_all_the_same(
    terminal: Terminal, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.log.create_topic("orders")
    monkeypatch.setattr(connection, "locked", lambda path: False)
    assert terminal.type("topic", "list", "--json").json == [{"topic": "orders", "partitions": 1}]


def test_a_node_that_was_killed_is_known_by_what_it_left(terminal: Terminal) -> None:
    assert connection.left_behind(terminal.data) == ""
    terminal.data.mkdir()
    (terminal.data / "node.json").write_text('{"kafka": "127.0.0.1:9092", "process": 7}')
    said: list[connection.OwnNode] = []
    with connection.reach(argparse.Namespace(kafka=None, data=terminal.data), started=said.append) as address:
        assert said == [connection.OwnNode(address, "process 7 at 127.0.0.1:9092")]
    assert connection.left_behind(terminal.data) == "", "a node that is stopped leaves nothing"
