from datetime import timedelta
from typing import Any

import pytest

from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("alter_partition_reassignments")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("number", "replicas", "code"),
    [
        (0, "here", "none"),
        (0, None, "no_reassignment_in_progress"),
        (0, (77,), "invalid_replica_assignment"),
        (0, (), "invalid_replica_assignment"),
        (99, "here", "unknown_topic_or_partition"),
    ],
)
def test_a_partition_stays_on_its_node(
    version: int, number: int, replicas: Any, code: str, caller: Caller, group_server: RunningServer
) -> None:
    if replicas == "here":
        replicas = (caller.node().broker_id,)
    topics = [{"name": "orders", "partitions": [{"partition_index": number, "replicas": replicas}]}]
    answer = caller.ask("alter_partition_reassignments", version, topics=topics, timeout=timedelta(seconds=1),
                        allow_replication_factor_change=True)  # fmt: skip
    (partition,) = answer.responses[0].partitions
    assert (answer.error_code, partition.partition_index, partition.error_code.name) == (0, number, code)
