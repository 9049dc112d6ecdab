"""What a stream reads of topics that a capture writes: against a node, without Spark."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from headwater.capture.appender import LogAppender
from headwater.capture.commit_points import CommitPoints
from headwater.flow.kafka.client import Client
from headwater.flow.source.batch_plan import planner
from headwater.flow.source.batch_plan.commit_history import CommitHistories
from headwater.flow.source.data_source import StreamReader
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.testing import running_node

PLACES = [TopicPartition("accounts", number) for number in range(2)]
SCHEMA = StructType([StructField("id", LongType())])


@pytest.fixture
def node() -> Iterator[Node]:
    with running_node() as node:
        yield node


class Capture:
    """Writes as a runner does, one step at a time."""

    def __init__(self, node: Node, name: str = "bank", topic: str = "accounts") -> None:
        self.appender, self.topic = LogAppender(node.log), topic
        self.appender.ensure_topic(topic, partitions=2, configs={})
        self.points = CommitPoints(self.appender, name)
        self.points.land(topic, 2)

    def append(self, *counts: int) -> None:
        self.points.announce([self.topic])
        for partition, count in enumerate(counts):
            records = [Record(b'{"id": 1}') for _ in range(count)]
            end = self.appender.append(self.topic, partition, records) if count else 0
            self.points.appended(TopicPartition(self.topic, partition), end, count)
        self.appender.sync()

    def commit(self) -> None:
        self.points.mark({})
        self.points.write()


def reader(node: Node, topics: str = "accounts") -> StreamReader:
    return StreamReader({"address": node.kafka_address, "topic": topics, "poisoned": "drop"}, SCHEMA)


def position(offset: dict[str, Any]) -> dict[str, list[int]]:
    return {topic: [parts[number] for number in sorted(parts)] for topic, parts in offset.items()}


def test_a_stream_reads_up_to_the_last_commit_point_and_leaves_what_is_behind_it(node: Node) -> None:
    capture, stream = Capture(node), reader(node)
    capture.append(3, 1)
    start = stream.initialOffset()
    assert position(stream.latestOffset(start, ReadAllAvailable())) == {"accounts": [0, 0]}
    capture.append(0, 4)
    capture.commit()
    capture.append(5, 0)
    assert position(stream.latestOffset(start, ReadAllAvailable())) == {"accounts": [3, 5]}
    stream.stop()


def test_a_limit_is_met_at_the_last_commit_point_before_it_among_many(node: Node) -> None:
    capture, stream = Capture(node), reader(node)
    for _ in range(100):
        capture.append(1, 2)
        capture.commit()
    ends, offset = list[list[int]](), stream.initialOffset()
    while position(offset) != {"accounts": [100, 200]}:
        offset = stream.latestOffset(offset, ReadMaxRows(35))
        ends.append(position(offset)["accounts"])
    assert all(2 * one == other for one, other in ends)
    assert all(0 < one - before <= 11 for before, one in pairwise([0, *(one for one, _ in ends)]))
    stream.stop()


def test_all_there_is_takes_what_was_committed_and_leaves_the_rest_for_the_next_time(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "COMMIT_LOOK_SECONDS", 0.001)
    capture, stream = Capture(node), reader(node)
    capture.append(3, 3)
    capture.commit()
    capture.append(2, 0)
    stream.prepareForTriggerAvailableNow()
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert position(first) == {"accounts": [3, 3]}
    capture.commit()
    assert stream.latestOffset(first, ReadAllAvailable())["accounts"] == {"0": 5, "1": 3}
    stream.stop()


def test_topics_of_two_captures_are_cut_each_at_its_own_and_plain_ones_as_ever(node: Node) -> None:
    bank, shop = Capture(node), Capture(node, "shop", "orders")
    node.log.create_topic("clicks")
    node.log.append("clicks", [Record(b'{"id": 1}')] * 7)
    bank.append(2, 2)
    shop.append(4, 4)
    shop.commit()
    shop.append(1, 0)
    stream = reader(node, "accounts,orders,clicks")
    ends = position(stream.latestOffset(stream.initialOffset(), ReadAllAvailable()))
    assert ends == {"accounts": [0, 0], "orders": [4, 4], "clicks": [7]}
    stream.stop()


def test_a_capture_that_was_removed_holds_nothing_back(node: Node) -> None:
    capture, stream = Capture(node), reader(node)
    capture.append(3, 1)
    CommitPoints(capture.appender, "bank").remove()
    assert position(stream.latestOffset(stream.initialOffset(), ReadAllAvailable())) == {"accounts": [3, 1]}
    stream.stop()


def test_a_topic_that_no_capture_has_named_has_no_commit_points(node: Node) -> None:
    with Client(node.kafka_address) as client:
        assert CommitHistories().of(client, PLACES) == []
        Capture(node).append(1, 1)
        assert CommitHistories().of(client, [TopicPartition("clicks", 0)]) == []
        assert [one.places for one in CommitHistories().of(client, PLACES)] == [frozenset(PLACES)]


def test_commit_points_that_were_deleted_are_done_without(node: Node) -> None:
    capture, stream = Capture(node), reader(node)
    for _ in range(10):
        capture.append(1, 1)
        capture.commit()
    node.log.partition("__headwater_commit_points", 0).delete_records(8)
    offset = stream.initialOffset()
    seen = list[list[int]]()
    while not seen or seen[-1] != [10, 10]:
        offset = stream.latestOffset(offset, ReadMaxRows(3))
        seen.append(position(offset)["accounts"])
    assert [8, 8] in seen
    stream.stop()
