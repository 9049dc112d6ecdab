from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("list_groups")


@pytest.fixture
def two_groups(caller: Caller, group_server: RunningServer) -> None:
    """Group "a" has a member, group "b" has only committed."""
    caller.stable_member("a")
    group_server.log.group_offsets.commit("b", {TopicPartition("orders", 0): CommittedOffset(1)})


def names(answer: Any) -> list[str]:
    return [group.group_id for group in answer.groups]


@pytest.mark.usefixtures("two_groups")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_group_is_listed(version: int, caller: Caller) -> None:
    answer = caller.ask("list_groups", version)
    assert answer.error_code == 0
    assert [(group.group_id, group.protocol_type) for group in answer.groups] == [("a", "consumer"), ("b", "")]


@pytest.mark.usefixtures("two_groups")
@pytest.mark.parametrize("version", VERSIONS[4:])
def test_groups_are_listed_by_state(version: int, caller: Caller) -> None:
    assert names(caller.ask("list_groups", version, states_filter=["Stable"])) == ["a"]
    assert names(caller.ask("list_groups", version, states_filter=["empty"])) == ["b"]
    assert names(caller.ask("list_groups", version, states_filter=["Empty", "Stable"])) == ["a", "b"]
    states = [group.group_state for group in caller.ask("list_groups", version).groups]
    assert states == ["Stable", "Empty"]


@pytest.mark.usefixtures("two_groups")
def test_groups_are_listed_by_type(caller: Caller) -> None:
    assert names(caller.ask("list_groups", types_filter=["Classic"])) == ["a", "b"]
    assert names(caller.ask("list_groups", types_filter=["consumer"])) == []
    assert {group.group_type for group in caller.ask("list_groups").groups} == {"classic"}
