from typing import Any

import pytest

from headwater.access import quotas
from headwater.access.quotas import FETCH, PRODUCE
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("describe_client_quotas")
EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.fixture(autouse=True)
def some_quotas(group_server: RunningServer) -> None:
    store = group_server.security.store
    store.change_quota(quotas.entity(user="alice"), {PRODUCE: 1000.0, FETCH: 2000.0})
    store.change_quota(quotas.entity(user=None), {PRODUCE: 10.0})
    store.change_quota(quotas.entity(user="alice", client_id="shop"), {PRODUCE: 500.0})
    store.change_quota(quotas.entity(client_id="shop"), {FETCH: 50.0})


ALICE, ANY_USER = "user=alice consumer_byte_rate=2000.0 producer_byte_rate=1000.0", "user=None producer_byte_rate=10.0"
SHOP_OF_ALICE = "client-id=shop user=alice producer_byte_rate=500.0"
SHOP = "client-id=shop consumer_byte_rate=50.0"


def component(kind: str, match_type: int = EXACT, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match_type, "match": match}


def describe(caller: Caller, version: int, *components: dict[str, Any], strict: bool = False) -> set[str]:
    answer = caller.ask("describe_client_quotas", version, components=list(components), strict=strict)
    assert (answer.error_code.name, answer.error_message) == ("none", None)
    return {
        " ".join(
            [f"{part.entity_type}={part.entity_name}" for part in entry.entity]
            + [f"{one.key}={one.value}" for one in entry.values]
        )
        for entry in answer.entries
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_without_components_is_every_quota(version: int, caller: Caller) -> None:
    assert describe(caller, version) == {ALICE, ANY_USER, SHOP_OF_ALICE, SHOP}
    assert describe(caller, version, strict=True) == set(), "of nothing at all"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_component_matches_a_name_the_default_or_both(version: int, caller: Caller) -> None:
    alice, default, users = component("user", EXACT, "alice"), component("user", DEFAULT), component("user", ANY)
    assert describe(caller, version, alice) == {ALICE, SHOP_OF_ALICE}
    assert describe(caller, version, default) == {ANY_USER}
    assert describe(caller, version, users) == {ALICE, ANY_USER, SHOP_OF_ALICE}
    assert describe(caller, version, alice, component("client-id", ANY)) == {SHOP_OF_ALICE}
    assert describe(caller, version, component("user", EXACT, "bob")) == set()
    assert describe(caller, version, component("ip", ANY)) == set(), "Kafka has such quotas"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_strict_filter_names_every_part(version: int, caller: Caller) -> None:
    assert describe(caller, version, component("user", ANY), strict=True) == {ALICE, ANY_USER}
    assert describe(caller, version, component("client-id", EXACT, "shop"), strict=True) == {SHOP}


WRONG = [
    ([component("user", EXACT, None)], "invalid_request"),
    ([component("user", DEFAULT, "alice")], "invalid_request"),
    ([component("user", ANY, "alice")], "invalid_request"),
    ([component("user", 9)], "invalid_request"),
    ([component("user", ANY), component("user", DEFAULT)], "invalid_request"),
    ([component("user", ANY), component("ip", ANY)], "invalid_request"),
    ([component("", ANY)], "invalid_request"),
    ([component("planet", ANY)], "unsupported_version"),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_that_cannot_match_is_refused(version: int, caller: Caller) -> None:
    answers = [
        caller.ask("describe_client_quotas", version, components=components, strict=False) for components, _ in WRONG
    ]
    assert [(one.error_code.name, one.entries) for one in answers] == [(code, None) for _, code in WRONG]
    assert all(one.error_message for one in answers)
