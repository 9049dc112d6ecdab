"""Topic configuration: DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from collections.abc import Callable

import pytest

from tests.clients.client import INVALID_CONFIG, UNKNOWN_TOPIC, Client, Refused
from tests.clients.parametrize import for_clients
from tests.waiting import wait_until

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "segment.bytes": "1073741824",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "86400000",
}


def settles(client: Client, topic: str, name: str, value: str) -> None:
    """Kafka applies a change a moment after it has answered."""
    wait_until(lambda: client.describe_configs(topic)[name] == value, f"{name}={value} on {topic}")


@for_clients("describe_configs")
def test_a_topic_has_the_defaults_of_kafka(client: Client, topic: str) -> None:
    configs = client.describe_configs(topic)
    assert {name: configs[name] for name in KAFKA_DEFAULTS} == KAFKA_DEFAULTS


@for_clients("alter_configs", "describe_configs")
def test_altering_sets_a_value(client: Client, topic: str) -> None:
    client.alter_configs(topic, {"retention.ms": "777"})
    settles(client, topic, "retention.ms", "777")


@for_clients("alter_configs", "describe_configs")
def test_altering_resets_what_it_does_not_name(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(retention_ms="777", segment_bytes="1048576")
    client.alter_configs(topic, {"segment.bytes": "2097152"})
    settles(client, topic, "segment.bytes", "2097152")
    settles(client, topic, "retention.ms", "604800000")


@for_clients("incremental_alter_configs", "describe_configs")
def test_an_incremental_change_leaves_the_rest(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(retention_ms="777")
    client.incremental_alter_configs(topic, [("segment.bytes", "set", "2097152")])
    settles(client, topic, "segment.bytes", "2097152")
    settles(client, topic, "retention.ms", "777")


@for_clients("incremental_alter_configs", "describe_configs")
def test_an_incremental_delete_brings_the_default_back(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(retention_ms="777")
    client.incremental_alter_configs(topic, [("retention.ms", "delete", None)])
    settles(client, topic, "retention.ms", "604800000")


@for_clients("incremental_alter_configs", "describe_configs")
def test_a_list_can_be_appended_to_and_subtracted_from(client: Client, topic: str) -> None:
    client.incremental_alter_configs(topic, [("cleanup.policy", "append", "compact")])
    settles(client, topic, "cleanup.policy", "delete,compact")
    client.incremental_alter_configs(topic, [("cleanup.policy", "subtract", "delete")])
    settles(client, topic, "cleanup.policy", "compact")


@for_clients("incremental_alter_configs")
@pytest.mark.parametrize(
    ("setting", "value"), [("retention.ms", "soon"), ("cleanup.policy", "shred"), ("no.such.setting", "1")]
)
def test_a_bad_change_is_refused(client: Client, topic: str, setting: str, value: str) -> None:
    with pytest.raises(Refused) as refused:
        client.incremental_alter_configs(topic, [(setting, "set", value)])
    assert refused.value.code == INVALID_CONFIG


@for_clients("alter_configs")
def test_a_bad_value_is_refused(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.alter_configs(topic, {"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG


@for_clients("create_topic")
def test_a_topic_with_a_bad_setting_is_not_created(client: Client, admin: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(name, 1, {"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG
    assert name not in admin.topics()


@for_clients("incremental_alter_configs")
def test_an_unknown_topic_cannot_be_altered(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.incremental_alter_configs(name, [("retention.ms", "set", "777")])
    assert refused.value.code == UNKNOWN_TOPIC
