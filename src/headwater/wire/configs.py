"""Configuration as clients see it: topics' own settings, and how this node was started. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.log.queues.settings import DEFINITIONS as QUEUE_DEFINITIONS
from headwater.log.topic import Topic
from headwater.log.topic_settings import DEFINITIONS
from headwater.settings import LogSettings, WireSettings, milliseconds
from headwater.wire.context import Node

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32

# Where a value comes from, by Kafka's numbers.
SET_ON_TOPIC = 1
SET_AT_START = 4
DEFAULT = 5
SET_ON_GROUP = 8

KINDS = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}

# What Kafka calls the node-wide default of a topic setting, where that is not "log." and the same name.
_NODE_NAMES = {
    "max.message.bytes": "message.max.bytes",
    "segment.ms": "log.roll.ms",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "min.insync.replicas": "min.insync.replicas",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "headwater.full.policy": "headwater.full.policy",
    "headwater.append.policy": "headwater.append.policy",
    "remote.storage.enable": "remote.log.storage.enable",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}


class Synonym(NamedTuple):
    name: str
    value: str
    source: int


class Entry(NamedTuple):
    """One setting with its value, where that comes from, and what it would fall back to."""

    name: str
    value: str
    source: int
    read_only: bool
    kind: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def topic_entries(topic: Topic, defaults: Mapping[str, str]) -> list[Entry]:
    """Every setting of a topic. `defaults` are those the node was started with."""
    entries = []
    for name, definition in DEFINITIONS.items():
        synonyms = []
        if name in topic.configs:
            synonyms.append(Synonym(name, topic.configs[name], SET_ON_TOPIC))
        if name in defaults:
            synonyms.append(Synonym(node_name(name), defaults[name], SET_AT_START))
        synonyms.append(Synonym(node_name(name), definition.default, DEFAULT))
        _, value, source = synonyms[0]
        entries.append(
            Entry(name, value, source, False, KINDS[definition.kind], definition.documentation, tuple(synonyms))
        )
    return entries


def group_entries(configs: Mapping[str, str]) -> list[Entry]:
    """Every setting of a share group."""
    entries = []
    for name, definition in QUEUE_DEFINITIONS.items():
        synonyms = [Synonym(name, configs[name], SET_ON_GROUP)] if name in configs else []
        synonyms.append(Synonym(name, definition.default, DEFAULT))
        _, value, source = synonyms[0]
        kind = KINDS[definition.kind]
        entries.append(Entry(name, value, source, False, kind, definition.documentation, tuple(synonyms)))
    return entries


def node_name(topic_setting: str) -> str:
    """
    >>> node_name("retention.ms"), node_name("max.message.bytes")
    ('log.retention.ms', 'message.max.bytes')
    """
    return _NODE_NAMES.get(topic_setting, f"log.{topic_setting}")


def node_entries(wire: WireSettings, log: LogSettings, node: Node, *, directory: str) -> list[Entry]:
    """How this node runs: all of it is decided at its start."""
    address = f"PLAINTEXT://{node.host}:{node.port}"
    rows = [
        ("broker.id", "int", str(node.id), "The number of this node."),
        ("node.id", "int", str(node.id), "The number of this node."),
        ("listeners", "list", f"PLAINTEXT://{wire.host}:{node.port}", "Where the node listens."),
        ("advertised.listeners", "list", address, "The address that clients connect to."),
        ("log.dirs", "list", directory, "Where the records are."),
        ("num.partitions", "int", str(wire.default_partitions), "Partitions of a topic that does not say how many."),
        ("default.replication.factor", "int", "1", "Copies of a partition: there is one node."),
        ("auto.create.topics.enable", "boolean", _text(wire.auto_create_topics), "Make topics when first asked for."),
        ("delete.topic.enable", "boolean", "true", "Topics can be deleted."),
        ("socket.request.max.bytes", "int", str(wire.request_bytes_max), "The largest request."),
        ("queued.max.request.bytes", "long", str(wire.buffered_request_bytes_max), "Bytes of all requests under way."),
        ("max.connections", "int", str(wire.connections_max), "Connections at a time."),
        ("max.connections.per.ip", "int", str(wire.connections_per_address_max), "Connections from one address."),
        ("connections.max.idle.ms", "long", str(milliseconds(wire.idle_connection_timeout)), "Then an idle one ends."),
        ("group.initial.rebalance.delay.ms", "int", str(milliseconds(wire.group_initial_delay)), "A new group waits."),
        ("group.min.session.timeout.ms", "int", str(milliseconds(wire.group_session_timeout_min)), "The shortest."),
        ("group.max.session.timeout.ms", "int", str(milliseconds(wire.group_session_timeout_max)), "The longest."),
        ("group.consumer.session.timeout.ms", "int", str(milliseconds(wire.group_consumer_session_timeout)),
         "Of members of the consumer protocol."),
        ("group.consumer.heartbeat.interval.ms", "int", str(milliseconds(wire.group_consumer_heartbeat_interval)),
         "Between heartbeats of such members."),
        ("group.consumer.max.size", "int", str(wire.group_members_max), "Members of a group."),
        ("group.consumer.assignors", "list", "uniform,range", "How partitions are assigned to such members."),
        ("group.consumer.migration.policy", "string", "bidirectional", "Groups change their protocol both ways."),
        ("group.coordinator.rebalance.protocols", "list", "classic,consumer,share", "Protocols of groups."),
        ("group.max.size", "int", str(wire.group_members_max), "Members of a group."),
        ("offsets.retention.minutes", "int", str(milliseconds(wire.offsets_retention) // 60_000), "Of empty groups."),
        ("offsets.topic.num.partitions", "int", str(log.offsets_partitions), "Partitions of the offsets' topic."),
        ("producer.id.expiration.ms", "int", str(milliseconds(log.producer_expiry)), "Then a silent one is forgotten."),
        ("log.retention.check.interval.ms", "long", str(milliseconds(log.maintenance_interval)), "Between upkeeps."),
        ("log.cleaner.enable", "boolean", "true", "Compacted topics are compacted."),
        ("log.cleaner.dedupe.buffer.size", "long", str(log.compaction_memory_bytes), "Memory of a compaction."),
    ]  # fmt: skip
    fixed = [_node_entry(name, kind, value, SET_AT_START, text) for name, kind, value, text in rows]
    return fixed + [_default_entry(name, dict(log.topic_defaults)) for name in DEFINITIONS]


def _default_entry(topic_setting: str, defaults: Mapping[str, str]) -> Entry:
    definition = DEFINITIONS[topic_setting]
    value = defaults.get(topic_setting, definition.default)
    source = SET_AT_START if topic_setting in defaults else DEFAULT
    return _node_entry(node_name(topic_setting), definition.kind, value, source, definition.documentation)


def _node_entry(name: str, kind: str, value: str, source: int, documentation: str) -> Entry:
    return Entry(name, value, source, True, KINDS[kind], documentation, (Synonym(name, value, source),))


def _text(value: bool) -> str:
    return "true" if value else "false"
