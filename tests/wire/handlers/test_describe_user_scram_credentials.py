from typing import Any

import pytest

from headwater.access.scram import ITERATIONS_MIN, SHA256, SHA512
from tests.wire.access_requests import add_user
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("describe_user_scram_credentials")


@pytest.fixture(autouse=True)
def some_users(group_server: RunningServer) -> None:
    add_user(group_server, "alice", SHA256)
    add_user(group_server, "alice", SHA512)
    add_user(group_server, "bob", SHA512)


def describe(caller: Caller, version: int, *names: str) -> dict[str, Any]:
    users = [{"name": name} for name in names]
    answer = caller.ask("describe_user_scram_credentials", version, users=users)
    assert (answer.error_code.name, answer.error_message) == ("none", None)
    assert [bool(one.error_message) for one in answer.results] == [one.error_code != 0 for one in answer.results]
    return {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos] or one.error_code.name
        for one in answer.results
    }


OF_ALICE = [(SHA256.number, ITERATIONS_MIN), (SHA512.number, ITERATIONS_MIN)]
OF_BOB = [(SHA512.number, ITERATIONS_MIN)]


@pytest.mark.parametrize("version", VERSIONS)
def test_mechanisms_and_iterations_are_described_and_nothing_secret(version: int, caller: Caller) -> None:
    assert describe(caller, version, "alice", "bob") == {"alice": OF_ALICE, "bob": OF_BOB}


@pytest.mark.parametrize("version", VERSIONS)
def test_who_asks_for_no_user_is_answered_with_all(version: int, caller: Caller) -> None:
    assert describe(caller, version) == {"alice": OF_ALICE, "bob": OF_BOB}
    null = caller.ask("describe_user_scram_credentials", version, users=None)
    assert [one.user for one in null.results] == ["alice", "bob"]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_user_has_their_own_answer(version: int, caller: Caller) -> None:
    found = describe(caller, version, "alice", "carol", "bob", "bob")
    assert found == {"alice": OF_ALICE, "carol": "resource_not_found", "bob": "duplicate_resource"}
