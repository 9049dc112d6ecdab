from typing import Any

from tests.wire.group_requests import Caller
from tests.wire.handlers.test_describe_share_group_offsets import begun, offsets
from tests.wire.handlers.test_share_group_heartbeat import beat
from tests.wire.running import RunningServer


def altered(caller: Caller, topic: str = "orders", partition: int = 0) -> Any:
    partitions = [{"partition_index": partition, "start_offset": 4}]
    topics = [{"topic_name": topic, "partitions": partitions}]
    return caller.ask("alter_share_group_offsets", group_id="g", topics=topics)


def test_a_group_without_members_goes_on_elsewhere(caller: Caller, group_server: RunningServer) -> None:
    begun(caller, group_server)
    answer = altered(caller)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    (topic,) = offsets(caller).topics
    assert (topic.partitions[0].start_offset, topic.partitions[0].lag) == (4, 1)


def test_one_with_members_does_not(caller: Caller, group_server: RunningServer) -> None:
    begun(caller, group_server)
    beat(caller)
    assert altered(caller).error_code.name == "non_empty_group"


def test_what_does_not_exist_is_named(caller: Caller, group_server: RunningServer) -> None:
    assert altered(caller).error_code.name == "group_id_not_found"
    begun(caller, group_server)
    answers = [altered(caller, "none"), altered(caller, partition=9)]
    codes = {one.responses[0].partitions[0].error_code.name for one in answers}
    assert codes == {"unknown_topic_or_partition"}
