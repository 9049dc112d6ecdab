from dataclasses import asdict
from typing import Any

import pytest

from headwater.access import quotas
from headwater.access.quotas import FETCH, PRODUCE, REQUEST
from tests.wire.access_requests import entity
from tests.wire.group_requests import Caller, request, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer

VERSIONS = versions_of("alter_client_quotas")


def setting(key: str, value: float) -> dict[str, Any]:
    return {"key": key, "value": value, "remove": False}


def removal(key: str) -> dict[str, Any]:
    return {"key": key, "value": 0.0, "remove": True}


def alter(
    caller: Caller, version: int, *ops: dict[str, Any], whom: list[dict[str, Any]] | None = None, dry: bool = False
) -> str:
    """Of User:alice, if nothing else is given."""
    entry = {"entity": entity(user="alice") if whom is None else whom, "ops": list(ops)}
    (answer,) = caller.ask("alter_client_quotas", version, entries=[entry], validate_only=dry).entries
    assert [asdict(part) for part in answer.entity] == entry["entity"]
    assert bool(answer.error_message) == (answer.error_code != 0)
    return str(answer.error_code.name)


def kept(server: RunningServer) -> dict[Any, dict[str, float]]:
    return server.security.store.quotas()


@pytest.mark.parametrize("version", VERSIONS)
def test_quotas_are_set_and_removed_one_by_one(version: int, caller: Caller, group_server: RunningServer) -> None:
    alice = quotas.entity(user="alice")
    assert alter(caller, version, setting(PRODUCE, 1000.0), setting(REQUEST, 12.5)) == "none"
    assert kept(group_server) == {alice: {PRODUCE: 1000.0, REQUEST: 12.5}}
    assert alter(caller, version, setting(PRODUCE, 2000.0), removal(REQUEST)) == "none"
    assert kept(group_server) == {alice: {PRODUCE: 2000.0}}
    assert alter(caller, version, removal(PRODUCE)) == "none"
    assert kept(group_server) == {}
    assert alter(caller, version, removal(PRODUCE), removal("never_heard_of")) == "none", "they are not there"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_quota_is_for_a_user_a_client_or_both(version: int, caller: Caller, group_server: RunningServer) -> None:
    both, clients = {"user": None, "client_id": "shop"}, {"client_id": None}
    assert alter(caller, version, setting(FETCH, 1.0), whom=entity(**both)) == "none"
    assert alter(caller, version, setting(FETCH, 2.0), whom=entity(**clients)) == "none"
    assert kept(group_server) == {quotas.entity(**both): {FETCH: 1.0}, quotas.entity(**clients): {FETCH: 2.0}}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_only_validated_is_not_kept(version: int, caller: Caller, group_server: RunningServer) -> None:
    assert alter(caller, version, setting(PRODUCE, 1000.0), dry=True) == "none"
    assert alter(caller, version, setting(PRODUCE, -1.0), dry=True) == "invalid_request"
    assert kept(group_server) == {}


WRONG = [
    [setting("never_heard_of", 1.0)],
    [setting(PRODUCE, 0.0)],
    [setting(PRODUCE, float("nan"))],
    [setting(REQUEST, float("inf"))],
    [setting(PRODUCE, 0.5)],
    [setting(PRODUCE, 1.0), removal(PRODUCE)],
]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_wrong_value_keeps_all_of_an_entity_from_changing(
    version: int, caller: Caller, group_server: RunningServer
) -> None:
    assert [alter(caller, version, setting(FETCH, 5.0), *ops) for ops in WRONG] == ["invalid_request"] * len(WRONG)
    assert kept(group_server) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_entity_that_is_none_is_refused(version: int, caller: Caller) -> None:
    wrong = [[], entity(user=""), entity(planet="mars"), entity(ip="192.0.2.9"), entity(user="a") + entity(user="b")]
    assert {alter(caller, version, setting(PRODUCE, 1.0), whom=whom) for whom in wrong} == {"invalid_request"}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_entity_has_its_own_answer(version: int, caller: Caller, group_server: RunningServer) -> None:
    entries = [
        {"entity": entity(user="bob"), "ops": [setting(PRODUCE, -1.0)]},
        {"entity": entity(user="alice"), "ops": [setting(PRODUCE, 1.0)]},
    ]
    answers = caller.ask("alter_client_quotas", version, entries=entries, validate_only=False).entries
    assert [(one.entity[0].entity_name, one.error_code.name) for one in answers] == [
        ("bob", "invalid_request"),
        ("alice", "none"),
    ]
    assert list(kept(group_server)) == [quotas.entity(user="alice")]


def test_two_administrators_who_set_different_quotas_at_once_lose_none(group_server: RunningServer) -> None:
    version, users = VERSIONS[-1], [f"user-{number}" for number in range(50)]

    def asked(user: str, key: str) -> Any:
        entries = [{"entity": entity(user=user), "ops": [setting(key, 1.0)]}]
        return request("alter_client_quotas", version, entries=entries, validate_only=False)

    host, port = group_server.host, group_server.port
    with RawClient(host, port) as one, RawClient(host, port) as other:
        for user in users:
            one.send_request(asked(user, PRODUCE))
            other.call(asked(user, FETCH))
            one.receive_frame()
    assert kept(group_server) == {quotas.entity(user=user): {PRODUCE: 1.0, FETCH: 1.0} for user in users}
