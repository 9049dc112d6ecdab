from typing import Any

from kio.schema.describe_topic_partitions.v0.request import Cursor

from tests.wire.group_requests import Caller
from tests.wire.running import RunningServer


def ask(caller: Caller, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    topics = [{"name": name} for name in names]
    return caller.ask("describe_topic_partitions", topics=topics, response_partition_limit=limit, cursor=cursor)


def test_topics_are_described_in_the_order_of_their_names(caller: Caller, group_server: RunningServer) -> None:
    group_server.log.create_topic("bills")
    answer = ask(caller, "orders", "bills", "missing")
    assert [(one.name, one.error_code.name) for one in answer.topics] == [
        ("bills", "none"), ("missing", "unknown_topic_or_partition"), ("orders", "none")
    ]  # fmt: skip
    (partition,) = answer.topics[0].partitions
    node = caller.node().broker_id
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (node, (node,), (node,))
    assert answer.next_cursor is None
    assert answer.topics[0].topic_id == group_server.log.topic("bills").id


def test_without_names_all_topics_are_described(caller: Caller) -> None:
    assert "orders" in [topic.name for topic in ask(caller).topics]


def test_pages_follow_one_another(caller: Caller, group_server: RunningServer) -> None:
    group_server.log.create_topic("a", partitions=3)
    group_server.log.create_topic("b", partitions=2)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        answer = ask(caller, "a", "b", limit=2, cursor=cursor)
        seen += [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        cursor, pages = answer.next_cursor, pages + 1
        if cursor is not None:
            cursor = Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)
    assert (seen, pages) == ([("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)], 3)
