from datetime import timedelta
from typing import Any

import pytest

from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import Producer

VERSIONS = versions_of("describe_transactions")


def describe(caller: Caller, version: int, *ids: str) -> Any:
    return caller.ask("describe_transactions", version, transactional_ids=list(ids)).transaction_states


@pytest.mark.parametrize("version", VERSIONS)
def test_an_open_transaction_is_described_with_its_partitions(
    version: int, caller: Caller, producer: Producer, group_server: RunningServer
) -> None:
    group_server.log.create_topic("refunds", partitions=4)
    producer.add({"refunds": [3, 0, 2, 1], "orders": [1, 0]})
    (one,) = describe(caller, version, "payments")
    assert (one.error_code.name, one.transactional_id, one.transaction_state) == ("none", "payments", "Ongoing")
    assert (one.producer_id, one.producer_epoch) == (producer.id, producer.epoch)
    assert one.transaction_timeout == timedelta(seconds=60)
    begun_ms = group_server.log.transactions.describe("payments").started_ms
    assert round(one.transaction_start_time.timestamp() * 1000) == begun_ms
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [
        ("orders", (0, 1)),
        ("refunds", (0, 1, 2, 3)),
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit, state", [(True, "CompleteCommit"), (False, "CompleteAbort")])
def test_what_has_ended_has_no_partitions(
    version: int, commit: bool, state: str, caller: Caller, producer: Producer
) -> None:
    (fresh,) = describe(caller, version, "payments")
    assert (fresh.transaction_state, fresh.transaction_start_time, fresh.topics) == ("Empty", None, ())
    producer.begin()
    producer.end(commit=commit)
    (ended,) = describe(caller, version, "payments")
    assert (ended.transaction_state, ended.topics) == (state, ())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_that_was_never_registered_is_not_found(version: int, caller: Caller, producer: Producer) -> None:
    unknown, known, empty = describe(caller, version, "unknown", producer.transactional_id, "")
    assert (unknown.transactional_id, unknown.error_code.name) == ("unknown", "transactional_id_not_found")
    assert (unknown.transaction_state, unknown.topics) == ("", ())
    assert known.error_code.name == "none"
    assert empty.error_code.name == "invalid_request"
