import uuid

from headwater.log.topic import Topic
from headwater.log.topic_settings import DEFINITIONS, TopicSettings
from headwater.settings import LogSettings, WireSettings
from headwater.wire.configs import DEFAULT, SET_AT_START, SET_ON_TOPIC, Entry, node_entries, topic_entries
from headwater.wire.context import Node


def topic(**configs: str) -> Topic:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return Topic("orders", uuid.uuid4(), 1, named, TopicSettings.from_configs(named))


def entry(entries: list[Entry], name: str) -> Entry:
    return next(entry for entry in entries if entry.name == name)


def test_every_setting_of_a_topic_is_listed() -> None:
    assert [entry.name for entry in topic_entries(topic(), {})] == list(DEFINITIONS)


def test_the_nearest_value_counts_and_the_others_are_listed() -> None:
    found = entry(topic_entries(topic(retention_ms="1000"), {"retention.ms": "2000"}), "retention.ms")
    assert (found.value, found.source) == ("1000", SET_ON_TOPIC)
    assert [synonym[1:] for synonym in found.synonyms] == [
        ("1000", SET_ON_TOPIC),
        ("2000", SET_AT_START),
        ("604800000", DEFAULT),
    ]


def test_without_a_value_of_its_own_a_topic_has_the_default() -> None:
    found = entry(topic_entries(topic(), {}), "retention.ms")
    assert (found.value, found.source) == ("604800000", DEFAULT)


def test_the_node_reports_read_only_settings() -> None:
    settings = LogSettings(topic_defaults=(("retention.ms", "5000"),))
    entries = node_entries(WireSettings(), settings, Node(7, "127.0.0.1", 9092), directory="data")
    assert entry(entries, "broker.id").value == "7"
    assert entry(entries, "num.partitions").value == "1"
    assert entry(entries, "log.retention.ms")[1:3] == ("5000", SET_AT_START)
    assert entry(entries, "log.segment.bytes").source == DEFAULT
    assert all(entry.read_only and entry.documentation for entry in entries)
    assert len({entry.name for entry in entries}) == len(entries)
