from typing import Any

from tests.wire.group_requests import Caller
from tests.wire.handlers.test_describe_share_group_offsets import begun, offsets
from tests.wire.handlers.test_share_group_heartbeat import beat
from tests.wire.running import RunningServer


def deleted(caller: Caller) -> Any:
    return caller.ask("delete_share_group_offsets", group_id="g", topics=[{"topic_name": "orders"}])


def test_a_group_without_members_forgets_a_topic(caller: Caller, group_server: RunningServer) -> None:
    begun(caller, group_server)
    answer = deleted(caller)
    assert (answer.error_code, answer.responses[0].error_code) == (0, 0)
    assert offsets(caller).error_code.name == "group_id_not_found"


def test_one_with_members_does_not(caller: Caller, group_server: RunningServer) -> None:
    begun(caller, group_server)
    beat(caller)
    assert deleted(caller).error_code.name == "non_empty_group"


def test_a_group_is_deleted_with_all_its_state(caller: Caller, group_server: RunningServer) -> None:
    begun(caller, group_server)
    assert caller.ask("delete_groups", groups_names=("g",)).results[0].error_code == 0
    assert group_server.log.queues.names() == []
