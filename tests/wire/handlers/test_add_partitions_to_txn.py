import pytest

from headwater.record import TopicPartition
from tests.wire.group_requests import versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import SEVERAL_FROM, Producer

VERSIONS = versions_of("add_partitions_to_txn")
SEVERAL = [version for version in VERSIONS if version >= SEVERAL_FROM]
BOTH = {"orders": [0, 1]}


def partitions_of(server: RunningServer) -> set[TopicPartition]:
    return set(server.log.transactions.describe("payments").partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_begins_with_its_first_partitions(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    assert producer.add(BOTH, version) == {("orders", 0): "none", ("orders", 1): "none"}
    assert group_server.log.transactions.describe("payments").state.value == "Ongoing"
    assert partitions_of(group_server) == {("orders", 0), ("orders", 1)}
    assert producer.add({"orders": [1]}, version) == {("orders", 1): "none"}, "it is in it already"
    assert producer.write(partition=1) == "none"


@pytest.mark.parametrize("version", VERSIONS)
def test_none_is_added_if_one_is_wrong(version: int, producer: Producer, group_server: RunningServer) -> None:
    assert producer.add({"orders": [0, 9], "nowhere": [0]}, version) == {
        ("orders", 0): "operation_not_attempted",
        ("orders", 9): "unknown_topic_or_partition",
        ("nowhere", 0): "unknown_topic_or_partition",
    }
    assert group_server.log.transactions.describe("payments").state.value == "Empty"
    assert producer.write() == "invalid_txn_state"


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_of_the_server_are_not_for_clients(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    group_server.log.create_topic("__consumer_offsets")
    assert producer.add({"__consumer_offsets": [0], "orders": [0]}, version) == {
        ("__consumer_offsets", 0): "topic_authorization_failed",
        ("orders", 0): "operation_not_attempted",
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_that_is_not_the_newest_is_fenced(
    version: int, producer: Producer, second_client: RawClient
) -> None:
    Producer(second_client)
    fenced = "producer_fenced" if version >= 2 else "invalid_producer_epoch"
    assert producer.add({"orders": [0]}, version) == {("orders", 0): fenced}


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_id_that_was_registered_is_served(version: int, producer: Producer) -> None:
    wrong = {("orders", 0): "invalid_producer_id_mapping"}
    assert producer.add({"orders": [0]}, version, producer_id=producer.id + 1) == wrong
    assert producer.add({"orders": [0]}, version, transactional_id="never registered") == wrong
    assert producer.add({"orders": [0]}, version, transactional_id="") == {("orders", 0): "invalid_request"}


@pytest.mark.parametrize("version", SEVERAL)
def test_a_broker_may_only_ask_whether_partitions_are_in_the_transaction(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    producer.add({"orders": [0]})
    assert producer.add(BOTH, version, verify_only=True) == {
        ("orders", 0): "none",
        ("orders", 1): "transaction_abortable",
    }
    assert partitions_of(group_server) == {("orders", 0)}


@pytest.mark.parametrize("version", SEVERAL)
def test_a_question_about_what_is_not_there_is_refused(
    version: int, producer: Producer, second_client: RawClient
) -> None:
    producer.add({"orders": [0]})
    assert producer.add({"orders": [0, 9]}, version, verify_only=True) == {
        ("orders", 0): "operation_not_attempted",
        ("orders", 9): "unknown_topic_or_partition",
    }
    nameless = producer.add({"orders": [0]}, version, verify_only=True, transactional_id="")
    assert nameless == {("orders", 0): "invalid_request"}
    Producer(second_client)
    assert producer.add({"orders": [0]}, version, verify_only=True) == {("orders", 0): "producer_fenced"}


@pytest.mark.parametrize("version", SEVERAL)
def test_one_request_speaks_for_several_producers(
    version: int, producer: Producer, second_client: RawClient, group_server: RunningServer
) -> None:
    refunds = Producer(second_client, "refunds")
    topics = [{"name": "orders", "partitions": [0]}]
    asked = [
        {**producer.identity, "verify_only": False, "topics": topics},
        {**refunds.identity, "verify_only": False, "topics": topics, "producer_epoch": 7},
    ]
    results = producer.ask("add_partitions_to_txn", version, transactions=asked).results_by_transaction
    codes = {one.transactional_id: one.topic_results[0].results_by_partition[0].partition_error_code for one in results}
    assert {id: code.name for id, code in codes.items()} == {"payments": "none", "refunds": "producer_fenced"}
    assert group_server.log.transactions.describe("refunds").state.value == "Empty"
