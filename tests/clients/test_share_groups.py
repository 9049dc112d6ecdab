"""Share groups, as their consumers and those who look after them see them. The same on every broker."""

from collections.abc import Callable, Iterator

import pytest

from tests.clients.adapters.java import Java
from tests.clients.client import Client, Refused
from tests.clients.conftest import GetClient
from tests.clients.message import Message
from tests.clients.parametrize import for_clients
from tests.clients.sharing import Shared, Sharing, polled, texts
from tests.waiting import Deadline

LOCK_MS = "15000"
"""Apache Kafka allows no shorter one."""
PATIENCE_S = 60
GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, INVALID_CONFIG, INVALID_RECORD_STATE = 69, 68, 40, 121

OpenMember = Callable[..., Sharing]


@pytest.fixture
def manager(get_client: GetClient) -> Java:
    """Who looks after share groups: of the clients only Java's can."""
    client = get_client("java")
    assert isinstance(client, Java)
    return client


@pytest.fixture
def group(manager: Java, name: str) -> str:
    """A share group that begins with the first message of a topic, and whose locks end soon."""
    configs = {
        "share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": LOCK_MS,
        "share.isolation.level": "read_committed",
    }  # fmt: skip
    manager.configure_group(f"g-{name}", configs)
    return f"g-{name}"


@pytest.fixture
def member(client: Client, group: str, topic: str) -> Iterator[OpenMember]:
    opened: list[Sharing] = []

    def start(**how: object) -> Sharing:
        opened.append(client.share_consumer(group, topic, **how))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def write(admin: Client, topic: str, count: int, *, first: int = 0) -> None:
    admin.produce(topic, [Message(b"m%d" % number, partition=0) for number in range(first, first + count)])


def settled(answer: Callable[[], object], expected: object) -> None:
    """What a broker knows a moment after it has answered."""
    deadline = Deadline(PATIENCE_S)
    while (found := answer()) != expected:
        assert not deadline.passed, f"{found} instead of {expected}"


def lag_of(manager: Java, group: str) -> int:
    """Apache Kafka's start offset may be an older one, while its lag counts what was acknowledged since."""
    (found,) = manager.share_offsets(group).values()
    assert found is not None
    return found[1]


@for_clients("share_consumer")
def test_every_message_is_delivered_once_and_counted(admin: Client, topic: str, member: OpenMember) -> None:
    write(admin, topic, 10)
    consumer = member()
    found = polled(consumer, 10)
    assert texts(found) == sorted(f"m{number}" for number in range(10))
    assert {message.deliveries for message in found} == {1}
    for message in found:
        consumer.acknowledge(message, "accept")
    assert set(consumer.commit().values()) == {0}
    assert consumer.poll(1) == []


@for_clients("share_consumer")
def test_members_share_one_partition(admin: Client, topic: str, member: OpenMember) -> None:
    write(admin, topic, 20)
    one, other = member(records_max=5), member(records_max=5)
    found: list[Shared] = []
    deadline = Deadline(PATIENCE_S)
    while len(found) < 20:
        for consumer in (one, other):
            batch = consumer.poll()
            for message in batch:
                consumer.acknowledge(message, "accept")
            consumer.commit()
            found += batch
        assert not deadline.passed, texts(found)
    assert texts(found) == sorted(f"m{number}" for number in range(20))


@for_clients("share_consumer")
def test_a_released_message_comes_again_and_a_rejected_one_does_not(
    admin: Client, topic: str, member: OpenMember
) -> None:
    write(admin, topic, 3)
    consumer = member()
    first = sorted(polled(consumer, 3), key=lambda message: message.offset)
    for message, kind in zip(first, ("release", "reject", "accept"), strict=True):
        consumer.acknowledge(message, kind)
    consumer.commit()
    again = polled(consumer, 1)
    assert [(message.offset, message.deliveries) for message in again] == [(first[0].offset, 2)]


@for_clients("share_consumer")
def test_after_five_deliveries_a_message_is_not_delivered_again(admin: Client, topic: str, member: OpenMember) -> None:
    write(admin, topic, 1)
    consumer = member()
    for attempt in range(1, 6):
        (message,) = polled(consumer, 1)
        assert message.deliveries == attempt
        consumer.acknowledge(message, "release")
        consumer.commit()
    write(admin, topic, 1, first=1)
    assert texts(polled(consumer, 1)) == ["m1"]


@for_clients("share_consumer")
def test_messages_of_a_member_that_leaves_go_to_another(admin: Client, topic: str, member: OpenMember) -> None:
    write(admin, topic, 4)
    leaving = member()
    polled(leaving, 4)
    leaving.close()
    assert texts(polled(member(), 4)) == ["m0", "m1", "m2", "m3"]


@for_clients("share_consumer")
def test_a_poll_acknowledges_what_the_one_before_returned(
    admin: Client, topic: str, group: str, member: OpenMember, manager: Java
) -> None:
    write(admin, topic, 3)
    consumer = member(explicit=False)
    polled(consumer, 3)
    consumer.poll()
    settled(lambda: lag_of(manager, group), 0)


@for_clients("share_consumer")
def test_records_of_aborted_transactions_are_not_delivered(
    admin: Client, topic: str, member: OpenMember, get_client: GetClient, name: str
) -> None:
    producer = get_client("librdkafka").transactional(name)
    for value, end in ((b"aborted", producer.abort), (b"committed", producer.commit)):
        producer.begin()
        producer.send(topic, [value])
        end()
    write(admin, topic, 1)
    assert texts(polled(member(), 2)) == ["committed", "m0"]


@for_clients("share_consumer")
def test_deleted_records_are_stepped_over(admin: Client, topic: str, member: OpenMember) -> None:
    write(admin, topic, 5)
    admin.delete_records(topic, 0, 3)
    assert texts(polled(member(), 2)) == ["m3", "m4"]


@for_clients("share_consumer")
def test_a_new_group_begins_with_what_comes_after_its_first_member(
    client: Client, admin: Client, topic: str, name: str
) -> None:
    write(admin, topic, 3)
    consumer = client.share_consumer(f"late-{name}", topic)
    found: list[Shared] = []
    deadline, written = Deadline(PATIENCE_S), 3
    while not found:
        found = consumer.poll()
        write(admin, topic, 1, first=written)
        written += 1
        assert not deadline.passed
    assert min(message.offset for message in found) >= 3
    consumer.close()


@for_clients("configure_group")
def test_a_renewed_message_stays_with_its_member(admin: Client, topic: str, group: str, member: OpenMember) -> None:
    write(admin, topic, 1)
    consumer, other = member(), member()
    (message,) = polled(consumer, 1)
    consumer.acknowledge(message, "renew")
    assert set(consumer.commit().values()) == {0}
    assert other.poll(1) == []
    (again,) = polled(consumer, 1)  # the client gives it once more, without asking the broker
    assert (again.offset, again.deliveries) == (message.offset, 1)
    consumer.acknowledge(again, "accept")
    assert set(consumer.commit().values()) == {0}


@for_clients("configure_group")
def test_a_lock_that_ended_gives_the_message_to_another_and_refuses_the_first(
    admin: Client, topic: str, member: OpenMember
) -> None:
    write(admin, topic, 1)
    slow, other = member(), member()
    (message,) = polled(slow, 1)
    (again,) = polled(other, 1)
    assert again.deliveries == 2
    slow.acknowledge(message, "accept")
    assert set(slow.commit().values()) == {INVALID_RECORD_STATE}
    other.acknowledge(again, "accept")
    assert set(other.commit().values()) == {0}


@for_clients("configure_group")
def test_a_share_group_is_listed_described_and_deleted(
    admin: Client, topic: str, group: str, member: OpenMember, manager: Java
) -> None:
    write(admin, topic, 2)
    consumer = member()
    polled(consumer, 2)
    assert manager.share_groups()[group] == "Stable"
    assert manager.describe_share_group(group) == ("Stable", [1])
    with pytest.raises(Refused) as refused:
        manager.delete_share_group(group)
    assert refused.value.code == NON_EMPTY_GROUP
    consumer.close()
    settled(lambda: manager.share_groups()[group], "Empty")
    manager.delete_share_group(group)
    assert group not in manager.share_groups()


@for_clients("configure_group")
def test_offsets_of_a_share_group_are_described_altered_and_deleted(
    admin: Client, topic: str, group: str, member: OpenMember, manager: Java
) -> None:
    write(admin, topic, 5)
    consumer = member()
    for message in polled(consumer, 5)[:2]:
        consumer.acknowledge(message, "accept")
    consumer.commit()
    settled(lambda: lag_of(manager, group), 3)
    with pytest.raises(Refused) as refused:
        manager.alter_share_offsets(group, topic, {0: 0})
    assert refused.value.code == NON_EMPTY_GROUP
    consumer.close()
    settled(lambda: manager.share_groups()[group], "Empty")
    manager.alter_share_offsets(group, topic, {0: 4})
    assert texts(polled(member(), 1)) == ["m4"]


def test_settings_of_a_group_are_checked_and_shown(group: str, manager: Java) -> None:
    manager.configure_group(group, {"share.delivery.count.limit": "3"})
    assert manager.group_configs(group)["share.delivery.count.limit"] == "3"
    with pytest.raises(Refused) as refused:
        manager.configure_group(group, {"share.delivery.count.limit": "many"})
    assert refused.value.code == INVALID_CONFIG


def test_a_group_that_does_not_exist_is_not_found(manager: Java, name: str) -> None:
    with pytest.raises(Refused) as refused:
        manager.describe_share_group(f"none-{name}")
    assert refused.value.code == GROUP_ID_NOT_FOUND
