from collections.abc import Iterator
from typing import Any

import pytest

from headwater.clock import ManualClock
from tests.wire.group_requests import Caller, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import Producer

VERSIONS = versions_of("list_transactions")
BY_DURATION = [version for version in VERSIONS if version >= 1]


@pytest.fixture
def clock(group_server: RunningServer) -> ManualClock:
    """Of the log, from here on."""
    clock = ManualClock(true_ms=group_server.log.clock.elapsed_ms())
    group_server.log.clock = clock
    return clock


@pytest.fixture
def producers(group_server: RunningServer) -> Iterator[dict[str, Producer]]:
    """One with an open transaction, one that committed, one that has only registered."""
    with RawClient(group_server.host, group_server.port) as client:
        found = {id: Producer(client, id) for id in ("open", "committed", "registered")}
        found["open"].begin(0)
        found["committed"].begin(1)
        found["committed"].end()
        yield found


def listed(caller: Caller, version: int, **filters: Any) -> dict[str, str]:
    answer = caller.ask(
        "list_transactions", version,
        **{"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters},
    )  # fmt: skip
    assert (answer.error_code.name, answer.unknown_state_filters) == ("none", ())
    return {one.transactional_id: one.transaction_state for one in answer.transaction_states}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_transactional_id_is_listed(version: int, caller: Caller, producers: dict[str, Producer]) -> None:
    states = {"open": "Ongoing", "committed": "CompleteCommit", "registered": "Empty"}
    assert listed(caller, version) == states
    answer = caller.ask("list_transactions", version, state_filters=[], producer_id_filters=[], duration_filter=-1)
    ids = {one.transactional_id: one.producer_id for one in answer.transaction_states}
    assert ids == {id: one.id for id, one in producers.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_states_and_producers_are_filters_that_must_both_hold(
    version: int, caller: Caller, producers: dict[str, Producer]
) -> None:
    assert list(listed(caller, version, state_filters=["Ongoing", "Empty"])) == ["open", "registered"]
    assert list(listed(caller, version, producer_id_filters=[producers["committed"].id, 77])) == ["committed"]
    both = {"state_filters": ["Ongoing"], "producer_id_filters": [producers["committed"].id]}
    assert listed(caller, version, **both) == {}
    assert listed(caller, version, state_filters=["Dead", "PrepareEpochFence"]) == {}, "Kafka has these states"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_state_that_does_not_exist_is_named_in_the_answer(
    version: int, caller: Caller, producers: dict[str, Producer]
) -> None:
    filters = {"producer_id_filters": [], "duration_filter": -1}
    answer = caller.ask("list_transactions", version, state_filters=["Sleeping"], **filters)
    assert (answer.error_code.name, answer.transaction_states) == ("none", ())
    assert answer.unknown_state_filters == ("Sleeping",)
    answer = caller.ask("list_transactions", version, state_filters=["Sleeping", "Ongoing"], **filters)
    assert [one.transactional_id for one in answer.transaction_states] == ["open"]


@pytest.mark.parametrize("version", BY_DURATION)
def test_transactions_that_have_been_open_for_longer_are_found(
    version: int, clock: ManualClock, caller: Caller, producers: dict[str, Producer]
) -> None:
    clock.advance(5000)
    assert list(listed(caller, version, duration_filter=4999)) == ["open"]
    assert listed(caller, version, duration_filter=5000) == {}, "longer, not as long"
    producers["open"].end()
    assert listed(caller, version, duration_filter=0) == {}
