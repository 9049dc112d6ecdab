import socket
from contextlib import closing
from pathlib import Path

import pytest

from headwater.errors import UnavailableError
from headwater.flow.source.reach import Reach, address_of_node
from headwater.testing import running_node


def test_a_data_directory_says_where_its_node_is(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        assert address_of_node(tmp_path) == node.kafka_address


def test_a_data_directory_without_a_node_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="headwater start --data"):
        address_of_node(tmp_path)


def test_a_node_that_was_restarted_on_another_port_is_found_again(tmp_path: Path) -> None:
    with closing(Reach(None, tmp_path)) as reach:
        with running_node(tmp_path) as node:
            node.log.create_topic("orders")
            first = node.kafka_address
            assert reach.ask(lambda client: client.partitions(["orders"])) == {"orders": 1}
        # Somebody else has the old port.
        with socket.create_server(("127.0.0.1", int(first.rpartition(":")[2]))), running_node(tmp_path):
            assert reach.ask(lambda client: client.partitions(["orders"])) == {"orders": 1}


def test_patience_has_an_end(tmp_path: Path) -> None:
    with closing(Reach(None, tmp_path, patience_seconds=0.3)) as reach, pytest.raises(UnavailableError):
        reach.ask(lambda client: client.topics())
