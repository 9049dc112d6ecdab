import pytest

from headwater.log.partition import Partition
from tests.wire.group_requests import versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import Producer, aborted, undecided

VERSIONS = versions_of("end_txn")
NEW_EPOCHS = [version for version in VERSIONS if version >= 5]
KEPT_EPOCHS = [version for version in VERSIONS if version < 5]


@pytest.fixture
def orders(group_server: RunningServer) -> Partition:
    return group_server.log.partition("orders", 0)


def state_of(server: RunningServer) -> str:
    return server.log.transactions.describe("payments").state.value


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit, state", [(True, "CompleteCommit"), (False, "CompleteAbort")])
def test_a_transaction_ends_as_its_producer_says(
    version: int, commit: bool, state: str, producer: Producer, group_server: RunningServer, orders: Partition
) -> None:
    producer.begin()
    assert undecided(orders) == 1
    assert producer.end(version, commit=commit).error_code.name == "none"
    assert (state_of(group_server), undecided(orders), aborted(orders)) == (state, 0, int(not commit))
    assert orders.end_offset == 2, "the record and the marker"


@pytest.mark.parametrize("version", NEW_EPOCHS)
def test_newer_clients_go_on_with_the_epoch_in_the_answer(version: int, producer: Producer, orders: Partition) -> None:
    producer.begin()
    answer = producer.end(version)
    assert (answer.producer_id, answer.producer_epoch) == (producer.id, producer.epoch + 1)
    again = producer.end(version)
    assert (again.error_code.name, again.producer_epoch) == ("none", producer.epoch + 1), "it missed the answer"
    assert producer.end(version, commit=False).error_code.name == "invalid_txn_state"
    assert orders.end_offset == 2, "one marker"
    assert producer.end(version, producer_epoch=producer.epoch + 2).error_code.name == "producer_fenced"


@pytest.mark.parametrize("version", NEW_EPOCHS)
def test_newer_clients_abort_also_what_they_never_began(version: int, producer: Producer) -> None:
    answer = producer.end(version, commit=False)
    assert (answer.error_code.name, answer.producer_epoch) == ("none", producer.epoch + 1)


@pytest.mark.parametrize("version", KEPT_EPOCHS)
@pytest.mark.parametrize("commit", [True, False])
def test_older_clients_may_end_again_in_the_same_way_only(version: int, commit: bool, producer: Producer) -> None:
    producer.begin()
    producer.end(version, commit=commit)
    assert producer.end(version, commit=commit).error_code.name == "none"
    assert producer.end(version, commit=not commit).error_code.name == "invalid_txn_state"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_never_begun_is_not_committed(version: int, producer: Producer, group_server: RunningServer) -> None:
    answer = producer.end(version)
    assert answer.error_code.name == "invalid_txn_state"
    assert version < 5 or (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert state_of(group_server) == "Empty"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_that_is_not_the_newest_is_fenced(
    version: int, producer: Producer, second_client: RawClient, orders: Partition
) -> None:
    producer.begin()
    Producer(second_client)
    assert aborted(orders) == 1, "by the producer that took over"
    assert producer.end(version).error_code.name == ("producer_fenced" if version >= 2 else "invalid_producer_epoch")
    assert orders.end_offset == 2


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_is_fenced_before_the_newest_one_has_begun(
    version: int, commit: bool, producer: Producer, second_client: RawClient
) -> None:
    Producer(second_client)
    answer = producer.end(version, commit=commit)
    assert answer.error_code.name == ("producer_fenced" if version >= 2 else "invalid_producer_epoch")


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_id_that_was_registered_is_served(version: int, producer: Producer, orders: Partition) -> None:
    producer.begin()
    assert producer.end(version, producer_id=producer.id + 1).error_code.name == "invalid_producer_id_mapping"
    assert producer.end(version, transactional_id="unknown").error_code.name == "invalid_producer_id_mapping"
    assert producer.end(version, transactional_id="").error_code.name == "invalid_request"
    assert undecided(orders) == 1
