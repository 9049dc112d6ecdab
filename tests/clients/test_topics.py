"""Topics: what every client may ask of Metadata, CreateTopics, CreatePartitions and DeleteTopics."""

from collections.abc import Callable

import pytest

from tests.clients.client import INVALID_PARTITIONS, INVALID_TOPIC, TOPIC_EXISTS, UNKNOWN_TOPIC, Client, Refused
from tests.clients.leaders import wait_for_leaders
from tests.clients.message import Message, contents, numbered
from tests.clients.parametrize import for_clients
from tests.waiting import wait_until


@for_clients("topics")
def test_metadata_lists_a_topic_with_its_partitions(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3)
    assert client.topics()[topic] == 3


@for_clients("create_topic", "topics")
def test_a_created_topic_is_there(client: Client, name: str) -> None:
    client.create_topic(name, 5)
    wait_until(lambda: client.topics().get(name) == 5, "the new topic in the metadata")


@for_clients("create_topic", "describe_configs")
def test_a_topic_is_created_with_its_configuration(client: Client, admin: Client, name: str) -> None:
    client.create_topic(name, 1, {"retention.ms": "123456", "cleanup.policy": "compact"})
    wait_for_leaders(admin, name, 1)
    configs = client.describe_configs(name)
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("123456", "compact")


@for_clients("create_topic")
def test_a_topic_cannot_be_created_twice(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(topic)
    assert refused.value.code == TOPIC_EXISTS


@for_clients("create_topic")
def test_a_name_outside_the_rule_is_refused(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic("not/a topic")
    assert refused.value.code == INVALID_TOPIC


@for_clients("create_topic")
def test_a_topic_needs_a_partition(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(name, 0)
    assert refused.value.code == INVALID_PARTITIONS


@for_clients("create_topic", "topics")
def test_validating_a_topic_creates_nothing(client: Client, name: str) -> None:
    client.create_topic(name, validate_only=True)
    assert name not in client.topics()


@for_clients("create_topic")
def test_validating_finds_what_is_wrong(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(topic, validate_only=True)
    assert refused.value.code == TOPIC_EXISTS


@for_clients("delete_topic", "topics")
def test_a_deleted_topic_is_not_found(client: Client, topic: str) -> None:
    client.delete_topic(topic)
    wait_until(lambda: topic not in client.topics(), "the topic to leave the metadata")


@for_clients("delete_topic")
def test_a_topic_created_again_is_empty(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(5))
    client.delete_topic(topic)
    wait_until(lambda: topic not in admin.topics(), "the topic to leave the metadata")
    admin.create_topic(topic)
    wait_until(lambda: topic in admin.topics(), "the topic in the metadata")
    assert admin.offset_at(topic, 0, "latest") == 0


@for_clients("delete_topic")
def test_deleting_an_unknown_topic_says_so(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.delete_topic(name)
    assert refused.value.code == UNKNOWN_TOPIC


@for_clients("create_partitions", "topics")
def test_partitions_can_be_added_and_records_stay(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(3))
    client.create_partitions(topic, 4)
    wait_until(lambda: client.topics()[topic] == 4, "four partitions in the metadata")
    admin.produce(topic, [Message(b"new", partition=3)])
    assert contents(admin.fetch(topic, 0, 0, 3)) == numbered(3)
    assert contents(admin.fetch(topic, 3, 0, 1)) == [Message(b"new", partition=3)]


@for_clients("create_partitions")
def test_partitions_cannot_be_taken_away(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3)
    with pytest.raises(Refused) as refused:
        client.create_partitions(topic, 2)
    assert refused.value.code == INVALID_PARTITIONS


@for_clients("create_partitions")
def test_partitions_of_an_unknown_topic_cannot_be_added(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_partitions(name, 2)
    assert refused.value.code == UNKNOWN_TOPIC


@for_clients("describe_topic")
def test_every_partition_has_a_leader_that_is_its_replica(client: Client, make_topic: Callable[..., str]) -> None:
    described = client.describe_topic(make_topic(partitions=2))
    leader = described.leaders[0]
    assert described.leaders == {0: leader, 1: leader}
    assert described.replicas == described.in_sync == {0: [leader], 1: [leader]}


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "java"], indirect=True)
def test_describing_an_unknown_topic_does_not_create_it(client: Client, admin: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.describe_topic(name)
    assert refused.value.code == UNKNOWN_TOPIC
    assert name not in admin.topics()


@pytest.mark.parametrize("client", ["kcat"], indirect=True)
def test_reading_an_unknown_topic_says_so(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.fetch(name, 0, 0, 1)
    assert refused.value.code == UNKNOWN_TOPIC


@for_clients("produce")
def test_writing_to_a_topic_that_does_not_exist_creates_it(client: Client, admin: Client, name: str) -> None:
    client.produce(name, [Message(b"first")])
    assert contents(admin.fetch(name, 0, 0, 1)) == [Message(b"first")]
