from typing import Any

import pytest

from tests.waiting import wait_until
from tests.wire.group_requests import JOINING, Caller, versions_of


def beat(caller: Caller, member: Any, version: int = 4, generation: int = 1, instance: str | None = None) -> str:
    answer = caller.ask(
        "heartbeat", version, group_id="g", generation_id=generation, member_id=member.member_id,
        group_instance_id=instance,
    )  # fmt: skip
    name: str = answer.error_code.name
    return name


@pytest.mark.parametrize("version", versions_of("heartbeat"))
def test_a_member_lives(version: int, caller: Caller) -> None:
    assert beat(caller, caller.stable_member(), version) == "none"


@pytest.mark.parametrize("version", versions_of("heartbeat"))
def test_a_member_learns_of_a_rebalance(version: int, caller: Caller, second_caller: Caller) -> None:
    member = caller.stable_member()
    second_caller.ask_and_go_on("join_group", 3, group_id="g", member_id="", **JOINING)
    wait_until(lambda: beat(caller, member, version) == "rebalance_in_progress", "it learns of the rebalance")


def test_an_id_that_was_only_given_out_disturbs_no_member(caller: Caller, second_caller: Caller) -> None:
    member = caller.stable_member()
    assert second_caller.join().error_code.name == "member_id_required"
    assert beat(caller, member) == "none"


def test_who_left_is_unknown(caller: Caller) -> None:
    member = caller.stable_member()
    caller.ask("leave_group", group_id="g", members=[{"member_id": member.member_id}])
    assert beat(caller, member) == "unknown_member_id"


def test_another_generation_is_refused(caller: Caller) -> None:
    assert beat(caller, caller.stable_member(), generation=7) == "illegal_generation"


def test_a_former_self_is_fenced(caller: Caller) -> None:
    first = caller.join(group_instance_id="red")
    caller.sync(first, group_instance_id="red")
    caller.join(group_instance_id="red")
    assert beat(caller, first, instance="red") == "fenced_instance_id"
