import pytest

from tests.wire.group_requests import Caller, versions_of


@pytest.mark.parametrize("version", versions_of("describe_quorum"))
def test_the_node_is_the_only_voter(version: int, caller: Caller) -> None:
    asked = [{"topic_name": name, "partitions": [{"partition_index": 0}]} for name in ("__cluster_metadata", "orders")]
    answer = caller.ask("describe_quorum", version, topics=asked)
    node = caller.node()
    (metadata,), (orders,) = (topic.partitions for topic in answer.topics)
    assert (metadata.error_code, metadata.leader_id) == (0, node.broker_id)
    assert [one.replica_id for one in metadata.current_voters] == [node.broker_id]
    assert orders.error_code.name == "unknown_topic_or_partition"
    if version >= 2:
        assert [(one.node_id, one.listeners[0].port) for one in answer.nodes] == [(node.broker_id, node.port)]
