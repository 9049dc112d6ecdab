from typing import Any

import pytest

from tests.wire.group_requests import Caller
from tests.wire.running import RunningServer


def beat(caller: Caller, member: str = "m", epoch: int = 0, topics: Any = ("orders",), **fields: Any) -> Any:
    asked = {"group_id": "g", "rack_id": None, **fields}
    return caller.ask(
        "share_group_heartbeat", member_id=member, member_epoch=epoch, subscribed_topic_names=topics, **asked
    )


def partitions(answer: Any) -> list[int]:
    return [number for topic in answer.assignment.topic_partitions for number in topic.partitions]


def test_a_member_is_given_partitions_and_an_interval(caller: Caller, group_server: RunningServer) -> None:
    answer = beat(caller)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 1)
    assert partitions(answer) == [0, 1]
    assert answer.heartbeat_interval.total_seconds() == 5
    assert beat(caller, epoch=1, topics=None).assignment is None


def test_members_share_partitions_and_may_have_the_same(caller: Caller) -> None:
    beat(caller, "a")
    assert partitions(beat(caller, "b")) == [1]
    assert partitions(beat(caller, "a", 1, None)) == [0]
    assert sorted(partitions(beat(caller, "c"))) == [0]


def test_a_member_leaves(caller: Caller) -> None:
    beat(caller)
    assert beat(caller, epoch=-1, topics=None).member_epoch == -1
    assert beat(caller, epoch=-1, topics=None).error_code.name in ("unknown_member_id", "group_id_not_found")


def test_one_that_is_not_known_has_to_join_again(caller: Caller) -> None:
    beat(caller, "other")
    assert beat(caller, epoch=3, topics=None).error_code.name == "unknown_member_id"
    assert beat(caller, "other", epoch=7, topics=None).error_code.name == "fenced_member_epoch"


def test_a_group_of_another_kind_is_not_joined(caller: Caller) -> None:
    caller.stable_member()
    assert beat(caller).error_code.name == "group_id_not_found"


def test_a_consumer_does_not_join_a_share_group(caller: Caller) -> None:
    beat(caller)
    assert caller.join(version=5).error_code.name == "inconsistent_group_protocol"


@pytest.mark.parametrize("wrong", [{"member": ""}, {"epoch": -2}, {"topics": ()}, {"group_id": " "}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], caller: Caller) -> None:
    assert beat(caller, **wrong).error_code.name == "invalid_request"
