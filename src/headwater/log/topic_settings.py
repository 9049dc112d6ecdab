"""Configuration of a topic: Kafka's names, defaults and meanings, and a few of our own.

One table, DEFINITIONS, says all there is: what a setting is called, what it takes, what it means. Configuration travels
as strings (as in Kafka's own requests); TopicSettings is its checked form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.errors import InvalidSetting

FOREVER = 2**63 - 1


class Definition(NamedTuple):
    name: str
    kind: str  # int, long, double, boolean, string, list
    default: str
    documentation: str
    parse: Callable[[str], Any]


def _integer(low: int, high: int = FOREVER) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"it must lie between {low} and {high}")
        return value

    return parse


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("it must lie between 0 and 1")
    return value


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return text

    return parse


def _boolean(text: str) -> bool:
    return _choice("true", "false")(text.lower()) == "true"


def _policies(text: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not policies or not policies <= {"delete", "compact"}:
        raise ValueError("it must be delete, compact, or both with a comma between")
    return policies


_TABLE = (
    Definition("cleanup.policy", "list", "delete", "What happens to old records: delete, compact, or both.", _policies),
    Definition(
        "retention.ms", "long", "604800000",
        "How long after its arrival a record is kept; -1 is for ever.",
        _integer(-1),
    ),
    Definition("retention.bytes", "long", "-1", "How large a partition may grow; -1 is without bound.", _integer(-1)),
    Definition(
        "segment.bytes", "int", "1073741824",
        "Size at which a new segment file is begun.",
        _integer(14, 2**31 - 1),
    ),
    Definition("segment.ms", "long", "604800000", "Age at which a new segment file is begun.", _integer(1)),
    Definition("index.interval.bytes", "int", "4096", "Bytes between two entries of an index.", _integer(0, 2**31 - 1)),
    Definition(
        "max.message.bytes", "int", "1048588",
        "Largest batch that is accepted, as sent.",
        _integer(0, 2**31 - 1),
    ),
    Definition(
        "max.decompressed.message.bytes", "int", "33554432",
        "Largest content of a compressed batch that is accepted, but at least max.message.bytes; and not more than "
        "1,100 times the batch, where that is more than max.message.bytes.",
        _integer(1, 128 * 1024**2),
    ),
    Definition(
        "message.timestamp.type", "string", "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the log's (LogAppendTime).",
        _choice("CreateTime", "LogAppendTime"),
    ),
    Definition(
        "message.timestamp.before.max.ms", "long", str(FOREVER),
        "How far in the past a producer's timestamp may lie.",
        _integer(0),
    ),
    Definition(
        "message.timestamp.after.max.ms", "long", "3600000",
        "How far in the future a producer's timestamp may lie.",
        _integer(0),
    ),
    Definition(
        "min.cleanable.dirty.ratio", "double", "0.5",
        "Share of uncompacted bytes from which compaction starts.",
        _ratio,
    ),
    Definition("min.compaction.lag.ms", "long", "0", "How long a record stays uncompacted at least.", _integer(0)),
    Definition(
        "max.compaction.lag.ms", "long", str(FOREVER),
        "How long a record stays uncompacted at most.",
        _integer(1),
    ),
    Definition(
        "delete.retention.ms", "long", "86400000",
        "How long tombstones stay after the compaction that first met them.",
        _integer(0),
    ),
    Definition(
        "compression.type", "string", "producer",
        "Batches are stored as sent: only producer.",
        _choice("producer"),
    ),
    Definition("min.insync.replicas", "int", "1", "There is one copy on one machine: only 1.", _integer(1, 1)),
    Definition(
        "remote.storage.enable", "boolean", "false",
        "Move sealed segments to the archive, where they stay readable.",
        _boolean,
    ),
    Definition(
        "local.retention.ms", "long", "-2",
        "How long an archived segment also stays on the local disk; -2 is as long as retention.ms.",
        _integer(-2),
    ),
    Definition(
        "local.retention.bytes", "long", "-2",
        "How many bytes stay on the local disk beside the archive; -2 is as many as retention.bytes.",
        _integer(-2),
    ),
    Definition(
        "headwater.full.policy", "string", "drop-oldest",
        "What a partition at retention.bytes does: drop-oldest, block (producers wait) or reject.",
        _choice("drop-oldest", "block", "reject"),
    ),
)  # fmt: skip

DEFINITIONS: dict[str, Definition] = {definition.name: definition for definition in _TABLE}


@dataclass(frozen=True)
class TopicSettings:
    cleanup_policy: frozenset[str]
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    max_message_bytes: int
    max_decompressed_message_bytes: int
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    compression_type: str
    min_insync_replicas: int
    remote_storage_enable: bool
    local_retention_ms: int
    local_retention_bytes: int
    headwater_full_policy: str

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deleted(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def archived(self) -> bool:
        """Compacted topics stay out of the archive, also where it is the default for all others."""
        return self.remote_storage_enable and not self.compacted

    @property
    def segment_age_max_ms(self) -> int:
        """How long a segment is written at most: what is never sealed is never compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    @property
    def append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def from_configs(cls, configs: Mapping[str, str]) -> "TopicSettings":
        """Check every value; InvalidSetting names the first that is unknown or wrong.

        >>> TopicSettings.from_configs({"retention.ms": "1000"}).retention_ms
        1000
        """
        for name in configs:
            if name not in DEFINITIONS:
                raise InvalidSetting(name, configs[name], "no topic setting has this name")
        values = {name.replace(".", "_"): _parsed(d, configs.get(name, d.default)) for name, d in DEFINITIONS.items()}
        return cls(**values)


def _parsed(definition: Definition, text: str) -> Any:
    try:
        return definition.parse(text)
    except ValueError as error:
        why = str(error)
        if why.startswith(("invalid literal", "could not convert")):
            why = "it must be a number"
        raise InvalidSetting(definition.name, text, why) from None
