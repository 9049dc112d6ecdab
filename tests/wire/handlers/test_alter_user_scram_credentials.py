from typing import Any

import pytest

from headwater.access.scram import SHA256, SHA512
from tests.wire.access_requests import add_user, has_password, upsertion
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("alter_user_scram_credentials")


def deletion(name: str, mechanism: int = SHA256.number) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter(
    caller: Caller, version: int, *upsertions: dict[str, Any], deletions: tuple[dict[str, Any], ...] = ()
) -> dict[str, str]:
    """The name of the code for each user."""
    answer = caller.ask(
        "alter_user_scram_credentials", version, deletions=list(deletions), upsertions=list(upsertions)
    )  # fmt: skip
    assert [bool(one.error_message) for one in answer.results] == [one.error_code != 0 for one in answer.results]
    assert len({one.user for one in answer.results}) == len(answer.results), "one answer for each user"
    return {one.user: one.error_code.name for one in answer.results}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mechanism", [SHA256, SHA512], ids=lambda one: one.name)
def test_a_password_is_set_and_replaced(
    version: int, mechanism: Any, caller: Caller, group_server: RunningServer
) -> None:
    assert alter(caller, version, upsertion("alice", mechanism)) == {"alice": "none"}
    assert has_password(group_server, "alice", mechanism)
    assert alter(caller, version, upsertion("alice", mechanism, "battery staple")) == {"alice": "none"}
    assert has_password(group_server, "alice", mechanism, "battery staple")
    assert not has_password(group_server, "alice", mechanism)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_password_is_forgotten_for_one_mechanism(version: int, caller: Caller, group_server: RunningServer) -> None:
    assert alter(caller, version, upsertion("alice", SHA256), upsertion("alice", SHA512)) == {"alice": "none"}
    assert alter(caller, version, deletions=(deletion("alice"),)) == {"alice": "none"}
    assert not has_password(group_server, "alice", SHA256)
    assert has_password(group_server, "alice", SHA512)
    assert alter(caller, version, deletions=(deletion("alice"),)) == {"alice": "resource_not_found"}
    assert alter(caller, version, deletions=(deletion("carol"),)) == {"carol": "resource_not_found"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "fields, code",
    [
        ({"name": ""}, "unacceptable_credential"),
        ({"name": "x" * 1000}, "unacceptable_credential"),
        ({"iterations": 4095}, "unacceptable_credential"),
        ({"iterations": 16385}, "unacceptable_credential"),
        ({"salt": b""}, "unacceptable_credential"),
        ({"salted_password": b""}, "unacceptable_credential"),
        ({"mechanism": 0}, "unsupported_sasl_mechanism"),
        ({"mechanism": 3}, "unsupported_sasl_mechanism"),
    ],
    ids=["no name", "long name", "few iterations", "many iterations", "no salt", "no hash", "mechanism 0", "and 3"],
)
def test_what_is_no_credential_is_refused_and_the_rest_set(
    version: int, fields: dict[str, Any], code: str, caller: Caller, group_server: RunningServer
) -> None:
    wrong = {**upsertion("mallory"), **fields}
    assert alter(caller, version, wrong, upsertion("bob")) == {wrong["name"]: code, "bob": "none"}
    assert group_server.security.store.user_names() == ["bob"]


@pytest.mark.parametrize("version", VERSIONS)
def test_of_a_user_all_changes_are_made_or_none(version: int, caller: Caller, group_server: RunningServer) -> None:
    add_user(group_server, "alice", SHA512)
    few = upsertion("alice", SHA256, iterations=1)
    found = alter(caller, version, few, deletions=(deletion("alice", SHA512.number),))
    assert found == {"alice": "unacceptable_credential"}
    assert has_password(group_server, "alice", SHA512), "it would have been left without any"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_credential_is_not_altered_twice_in_one_request(
    version: int, caller: Caller, group_server: RunningServer
) -> None:
    add_user(group_server, "alice")
    twice = [upsertion("alice", SHA256, "battery staple"), upsertion("bob"), upsertion("bob")]
    found = alter(caller, version, *twice, deletions=(deletion("alice"),))
    assert found == {"alice": "duplicate_resource", "bob": "duplicate_resource"}
    assert has_password(group_server, "alice")
    assert group_server.security.store.user_names() == ["alice"]
