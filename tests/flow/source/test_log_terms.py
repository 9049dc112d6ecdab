"""A log that is not the one that was read any more is noticed, although its offsets look right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import LogTruncated, TopicRecreated
from headwater.flow.kafka.client import Client
from headwater.flow.source.batch_plan.log_terms import UNKNOWN_TERMS, LogTerms, check_epoch_ends, check_ids, doubtful
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.flow.source.options import parse_options
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.testing import running_node

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data") as node:
        node.log.create_topic("orders")
        node.log.append("orders", [Record(b"{}")] * 3)
        yield node


@pytest.fixture
def planner(node: Node) -> Iterator[BatchPlanner]:
    planner = BatchPlanner(parse_options({"address": node.kafka_address, "topic": "orders"}))
    yield planner
    planner.close()


def made_again(node: Node, records: int) -> None:
    node.log.delete_topic("orders")
    node.log.create_topic("orders")
    node.log.append("orders", [Record(b'{"other": 1}')] * records)


def test_a_topic_that_was_made_again_is_refused_although_it_is_longer_than_what_was_read(
    node: Node, planner: BatchPlanner
) -> None:
    made = planner.next(planner.beginning(), rows_max=None, bytes_max=None)
    made_again(node, 5)
    with pytest.raises(TopicRecreated, match='"orders" was deleted and made again'):
        planner.next(made.ends, rows_max=None, bytes_max=None)


def test_a_batch_is_not_run_again_over_another_topic_of_the_name(node: Node, planner: BatchPlanner) -> None:
    made = planner.next(planner.beginning(), rows_max=None, bytes_max=None)
    terms = planner.terms
    planner.check(made.ends, terms)
    made_again(node, 3)
    with pytest.raises(TopicRecreated):
        planner.check(made.ends, terms)


def test_plans_of_releases_without_terms_go_on(node: Node, planner: BatchPlanner) -> None:
    planner.check({ORDERS: 2}, UNKNOWN_TERMS)
    assert planner.next({ORDERS: 2}, rows_max=None, bytes_max=None).ends == {ORDERS: 3}


def test_a_node_says_ids_and_epochs(node: Node) -> None:
    with Client(node.kafka_address) as client:
        first = client.topic_ids(["orders", "nowhere"])
        assert set(first) == {"orders"}
        end = client.ends([ORDERS])[ORDERS]
        assert end.offset == 3
        assert client.epoch_ends({ORDERS: end.epoch}) == {ORDERS: 3}
        made_again(node, 1)
        assert client.topic_ids(["orders"]) != first


def test_only_partitions_with_a_new_leader_are_doubted() -> None:
    one, two, three = (TopicPartition("t", number) for number in range(3))
    before = LogTerms(epochs={one: 4, two: 4, three: -1})
    assert doubtful(before, {one: 4, two: 5, three: 5}) == {two: 4}
    assert doubtful(before, {one: -1}) == {}


def test_records_of_a_former_leader_that_end_before_what_was_read_are_named() -> None:
    check_epoch_ends({ORDERS: 10}, {ORDERS: 10})
    check_epoch_ends({ORDERS: 10}, {ORDERS: -1})
    with pytest.raises(LogTruncated, match=r'"orders/0" was cut off at offset 7 .* 3 offsets'):
        check_epoch_ends({ORDERS: 10}, {ORDERS: 7})


def test_a_topic_of_which_nothing_was_known_has_any_id() -> None:
    check_ids(UNKNOWN_TERMS, {"orders": "a"})
    check_ids(LogTerms({"orders": "a"}), {"orders": "a"})
    check_ids(LogTerms({"orders": "a"}), {})
    with pytest.raises(TopicRecreated):
        check_ids(LogTerms({"orders": "a"}), {"orders": "b"})
