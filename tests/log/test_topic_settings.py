import pytest

from headwater.errors import InvalidSetting
from headwater.log.topic_settings import DEFINITIONS, KEPT, TopicSettings

ACCEPTED = [
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", " delete , compact "),
    ("retention.ms", "-1"),
    ("retention.bytes", "0"),
    ("segment.bytes", "14"),
    ("segment.bytes", str(2**31 - 1)),
    ("max.message.bytes", "0"),
    ("message.timestamp.type", "LogAppendTime"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("remote.storage.enable", "TRUE"),
    ("local.retention.ms", "-2"),
    ("headwater.full.policy", "block"),
    ("compression.type", "zstd"),
    ("compression.gzip.level", "-1"),
    ("min.insync.replicas", "2"),
    ("leader.replication.throttled.replicas", "*"),
    ("follower.replication.throttled.replicas", "0:1, 1:1"),
]
REFUSED = [
    ("cleanup.policy", ""),
    ("cleanup.policy", "archive"),
    ("cleanup.policy", "compact,archive"),
    ("retention.ms", "-2"),
    ("retention.ms", "soon"),
    ("retention.ms", ""),
    ("retention.ms", "1.5"),
    ("retention.ms", str(2**63)),
    ("segment.bytes", "13"),
    ("segment.bytes", str(2**31)),
    ("segment.ms", "0"),
    ("message.timestamp.type", "createtime"),
    ("min.cleanable.dirty.ratio", "1.1"),
    ("min.cleanable.dirty.ratio", "nan"),
    ("min.cleanable.dirty.ratio", "-0.1"),
    ("compression.type", "brotli"),
    ("compression.gzip.level", "0"),
    ("min.insync.replicas", "0"),
    ("leader.replication.throttled.replicas", "all"),
    ("remote.storage.enable", "maybe"),
    ("headwater.full.policy", "explode"),
    ("no.such.setting", "1"),
]


@pytest.mark.parametrize("name, value", ACCEPTED)
def test_a_setting_is_taken(name: str, value: str) -> None:
    TopicSettings.from_configs({name: value})


@pytest.mark.parametrize("name, value", REFUSED)
def test_a_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as error:
        TopicSettings.from_configs({name: value})
    assert (error.value.name, error.value.value) == (name, value)


def test_defaults_are_those_of_kafka() -> None:
    settings = TopicSettings.from_configs({})
    week = 7 * 24 * 3600 * 1000
    assert (settings.retention_ms, settings.segment_ms, settings.retention_bytes) == (week, week, -1)
    assert (settings.segment_bytes, settings.max_message_bytes, settings.index_interval_bytes) == (2**30, 1048588, 4096)
    assert settings.deleted
    assert not settings.compacted
    assert not settings.append_time


def test_every_definition_has_a_field_a_default_that_it_takes_and_a_sentence() -> None:
    settings = TopicSettings.from_configs({})
    for name, definition in DEFINITIONS.items():
        assert hasattr(settings, name.replace(".", "_")) is (name not in KEPT)
        assert definition.documentation.startswith("Kept and shown") is (name in KEPT)
        definition.parse(definition.default)
        assert definition.documentation.endswith(".")
        assert definition.kind in {"int", "long", "double", "boolean", "string", "list"}


def test_a_compacted_topic_seals_its_segments_in_time_for_compaction() -> None:
    configs = {"segment.ms": "1000", "max.compaction.lag.ms": "300"}
    assert TopicSettings.from_configs(configs).segment_age_max_ms == 1000
    assert TopicSettings.from_configs(configs | {"cleanup.policy": "compact"}).segment_age_max_ms == 300
