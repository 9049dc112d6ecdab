"""Waiting for a log that grows."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.flow.kafka.client import Client
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.flow.source.options import parse_options
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.testing import running_node

FOR_EVER_MS = 60_000
ORDERS = [TopicPartition("orders", number) for number in (0, 1)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data") as node:
        node.log.create_topic("orders", partitions=2)
        node.log.append("orders", [Record(b"{}")] * 3, partition=0)
        yield node


@pytest.fixture
def planner(node: Node) -> Iterator[BatchPlanner]:
    planner = BatchPlanner(parse_options({"address": node.kafka_address, "topic": "orders"}))
    yield planner
    planner.close()


def test_a_wait_ends_when_any_partition_grows(node: Node, planner: BatchPlanner) -> None:
    made = planner.next(planner.beginning(), rows_max=None, bytes_max=None)
    waiting = threading.Thread(target=planner.wait, args=[FOR_EVER_MS])
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive(), "nothing has come"
    node.log.append("orders", Record(b"{}"), partition=1)
    waiting.join(FOR_EVER_MS / 2000)
    assert not waiting.is_alive()
    assert planner.next(made.ends, rows_max=None, bytes_max=None).ends == dict(zip(ORDERS, (3, 1), strict=True))


def test_rows_that_were_seen_and_not_taken_do_not_end_a_wait(node: Node, planner: BatchPlanner) -> None:
    """Else a loop whose limit, or a transaction that is open, holds rows back would never rest."""
    planner.next(planner.beginning(), rows_max=1, bytes_max=None)
    begun = time.monotonic()
    planner.wait(300)
    assert time.monotonic() - begun >= 0.29  # the clocks of both sides are not one


def test_a_wait_over_a_topic_that_is_gone_ends_with_its_time(node: Node, planner: BatchPlanner) -> None:
    planner.next(planner.beginning(), rows_max=None, bytes_max=None)
    node.log.delete_topic("orders")
    planner.wait(1)


def test_a_client_waits_at_the_end_of_all_partitions_at_once(node: Node) -> None:
    with Client(node.kafka_address) as client:
        client.wait_beyond(dict.fromkeys(ORDERS, 0), wait_ms=FOR_EVER_MS)
        client.wait_beyond({ORDERS[0]: 3, ORDERS[1]: 0}, wait_ms=1)
        client.wait_beyond({}, wait_ms=1)


def test_whoever_stops_does_not_wait_for_a_log_that_is_away(tmp_path: Path) -> None:
    stopping = threading.Event()
    planner = BatchPlanner(parse_options({"data": str(tmp_path), "topic": "orders"}), stopping=stopping)
    stopping.set()
    with pytest.raises(Exception, match="no node runs"):
        planner.beginning()
