from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.log.groups.conversation import subscription
from tests.wire.group_requests import Caller
from tests.wire.running import RunningServer

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def committed(group_server: RunningServer) -> None:
    group_server.log.group_offsets.commit("g", {ORDERS: CommittedOffset(7)})


def delete(caller: Caller, *partitions: tuple[str, int], group: str = "g") -> Any:
    topics = [{"name": topic, "partitions": [{"partition_index": number}]} for topic, number in partitions]
    return caller.ask("offset_delete", group_id=group, topics=topics)


def codes(answer: Any) -> list[str]:
    return [one.error_code.name for topic in answer.topics for one in topic.partitions]


@pytest.mark.usefixtures("committed")
def test_offsets_are_forgotten(caller: Caller, group_server: RunningServer) -> None:
    answer = delete(caller, ORDERS, ("orders", 1), ("nowhere", 0))
    assert (answer.error_code, codes(answer)) == (0, ["none", "none", "unknown_topic_or_partition"])
    assert group_server.log.group_offsets.fetch("g") == {}


@pytest.mark.usefixtures("committed")
def test_offsets_of_a_topic_that_is_read_stay(caller: Caller, group_server: RunningServer) -> None:
    caller.stable_member(protocols=[{"name": "range", "metadata": subscription("orders")}])
    answer = delete(caller, ORDERS)
    assert codes(answer) == ["group_subscribed_to_topic"]
    assert ORDERS in group_server.log.group_offsets.fetch("g")


@pytest.mark.usefixtures("committed")
def test_offsets_of_a_topic_that_is_no_longer_read_can_go(caller: Caller, group_server: RunningServer) -> None:
    caller.stable_member(protocols=[{"name": "range", "metadata": subscription("clicks")}])
    assert codes(delete(caller, ORDERS)) == ["none"]
    assert group_server.log.group_offsets.fetch("g") == {}


def test_members_of_other_kinds_must_leave_first(caller: Caller) -> None:
    caller.stable_member(protocol_type="connect")
    assert delete(caller, ORDERS).error_code.name == "non_empty_group"


def test_an_unknown_group_is_not_found(caller: Caller) -> None:
    assert delete(caller, ORDERS, group="x").error_code.name == "group_id_not_found"
