import pytest

from headwater.log.groups.journal import TOPIC as OFFSETS_TOPIC
from tests.wire.group_requests import versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import Producer

VERSIONS = versions_of("add_offsets_to_txn")


def add_offsets(producer: Producer, version: int, **fields: object) -> str:
    return str(producer.ask("add_offsets_to_txn", version, **{"group_id": "g", **fields}).error_code.name)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_partition_of_the_group_becomes_part_of_the_transaction(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    assert add_offsets(producer, version) == "none"
    assert add_offsets(producer, version) == "none", "it is in it already"
    transaction = group_server.log.transactions.describe("payments")
    assert transaction.state.value == "Ongoing"
    assert transaction.partitions == {group_server.log.group_offsets.place_of("g")}
    assert {place.topic for place in transaction.partitions} == {OFFSETS_TOPIC}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_that_is_not_the_newest_is_fenced(
    version: int, producer: Producer, second_client: RawClient
) -> None:
    Producer(second_client)
    assert add_offsets(producer, version) == ("producer_fenced" if version >= 2 else "invalid_producer_epoch")


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_id_that_was_registered_is_served(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    assert add_offsets(producer, version, producer_id=producer.id + 1) == "invalid_producer_id_mapping"
    assert add_offsets(producer, version, transactional_id="never registered") == "invalid_producer_id_mapping"
    assert add_offsets(producer, version, transactional_id="") == "invalid_request"
    assert group_server.log.transactions.describe("payments").state.value == "Empty"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_needs_a_name(version: int, producer: Producer, group_server: RunningServer) -> None:
    assert add_offsets(producer, version, group_id="") == "invalid_group_id"
    assert group_server.log.transactions.describe("payments").state.value == "Empty"
