"""Configuration of a topic: Kafka's names, defaults and meanings, and a few of our own.

One table, DEFINITIONS, says all there is: what a setting is called, what it takes, what it means. Configuration travels
as strings (as in Kafka's own requests); TopicSettings is its checked form.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from headwater.errors import InvalidSetting
from headwater.log.compression import CODECS

GZIP_USUAL_LEVEL = -1
FOREVER = 2**63 - 1


class Definition(NamedTuple):
    name: str
    kind: str  # int, long, double, boolean, string, list
    default: str
    documentation: str
    parse: Callable[[str], Any]


def integer(low: int, high: int = FOREVER) -> Callable[[str], int]:
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


def choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return text

    return parse


def boolean(text: str) -> bool:
    return choice("true", "false")(text.lower()) == "true"


def _gzip_level(text: str) -> int:
    level = int(text)
    if level != GZIP_USUAL_LEVEL and not 1 <= level <= 9:
        raise ValueError("it must lie between 1 and 9, or be -1")
    return level


def _throttled_replicas(text: str) -> tuple[str, ...]:
    replicas = tuple(part.strip() for part in text.split(",") if part.strip())
    if replicas != ("*",) and not all(re.fullmatch(r"[0-9]+:[0-9]+", one) for one in replicas):
        raise ValueError("it must be *, or partition:broker pairs with commas between")
    return replicas


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
        integer(-1),
    ),
    Definition("retention.bytes", "long", "-1", "How large a partition may grow; -1 is without bound.", integer(-1)),
    Definition(
        "segment.bytes", "int", "1073741824",
        "Size at which a new segment file is begun.",
        integer(14, 2**31 - 1),
    ),
    Definition("segment.ms", "long", "604800000", "Age at which a new segment file is begun.", integer(1)),
    Definition("index.interval.bytes", "int", "4096", "Bytes between two entries of an index.", integer(0, 2**31 - 1)),
    Definition(
        "max.message.bytes", "int", "1048588",
        "Largest batch that is accepted, as sent.",
        integer(0, 2**31 - 1),
    ),
    Definition(
        "max.decompressed.message.bytes", "int", "33554432",
        "Largest content of a compressed batch that is accepted, but at least max.message.bytes; and not more than "
        "1,100 times the batch, where that is more than max.message.bytes.",
        integer(1, 128 * 1024**2),
    ),
    Definition(
        "message.timestamp.type", "string", "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the log's (LogAppendTime).",
        choice("CreateTime", "LogAppendTime"),
    ),
    Definition(
        "message.timestamp.before.max.ms", "long", str(FOREVER),
        "How far in the past a producer's timestamp may lie.",
        integer(0),
    ),
    Definition(
        "message.timestamp.after.max.ms", "long", "3600000",
        "How far in the future a producer's timestamp may lie.",
        integer(0),
    ),
    Definition(
        "min.cleanable.dirty.ratio", "double", "0.5",
        "Share of uncompacted bytes from which compaction starts.",
        _ratio,
    ),
    Definition("min.compaction.lag.ms", "long", "0", "How long a record stays uncompacted at least.", integer(0)),
    Definition(
        "max.compaction.lag.ms", "long", str(FOREVER),
        "How long a record stays uncompacted at most.",
        integer(1),
    ),
    Definition(
        "delete.retention.ms", "long", "86400000",
        "How long tombstones stay after the compaction that first met them.",
        integer(0),
    ),
    Definition(
        "compression.type", "string", "producer",
        "How batches are stored: as sent (producer), or compressed again as gzip, snappy, lz4, zstd or uncompressed.",
        choice("producer", "uncompressed", *CODECS[1:]),
    ),
    Definition(
        "compression.gzip.level", "int", "-1",
        "Level of gzip where compression.type is gzip: 1 to 9; -1 is its usual one.",
        _gzip_level,
    ),
    Definition(
        "compression.zstd.level", "int", "3",
        "Level of zstd where compression.type is zstd.",
        integer(-131072, 22),
    ),
    Definition(
        "remote.storage.enable", "boolean", "false",
        "Move sealed segments to the archive, where they stay readable.",
        boolean,
    ),
    Definition(
        "remote.log.copy.disable", "boolean", "false",
        "Move nothing more to the archive; what is there stays readable.",
        boolean,
    ),
    Definition(
        "local.retention.ms", "long", "-2",
        "How long an archived segment also stays on the local disk; -2 is as long as retention.ms.",
        integer(-2),
    ),
    Definition(
        "local.retention.bytes", "long", "-2",
        "How many bytes stay on the local disk beside the archive; -2 is as many as retention.bytes.",
        integer(-2),
    ),
    Definition(
        "headwater.full.policy", "string", "drop-oldest",
        "What a partition at retention.bytes does: drop-oldest, block (producers wait) or reject.",
        choice("drop-oldest", "block", "reject"),
    ),
    Definition(
        "headwater.append.policy", "string", "any",
        "Who may append: any producer, or conditional appends only, which check versions of streams.",
        choice("any", "conditional"),
    ),
)  # fmt: skip

# Settings of Kafka's that change nothing on one node. They are checked, kept and shown, so that tools which copy the
# settings of a topic keep all of them.
_KEPT = (
    Definition(
        "compression.lz4.level", "int", "9",
        "Kept and shown: the lz4 of this node has one level, the quick one.",
        integer(1, 17),
    ),
    Definition(
        "min.insync.replicas", "int", "1",
        "Kept and shown: there is one copy on one machine, and acks=all waits for its disk.",
        integer(1, 2**31 - 1),
    ),
    Definition(
        "flush.messages", "long", str(FOREVER),
        "Kept and shown: a record sent with acks=all is synced before its answer, all others at each upkeep.",
        integer(1),
    ),
    Definition("flush.ms", "long", str(FOREVER), "Kept and shown, as flush.messages.", integer(0)),
    Definition(
        "segment.jitter.ms", "long", "0",
        "Kept and shown: the segments of one node need not be begun at different times.",
        integer(0),
    ),
    Definition(
        "segment.index.bytes", "int", "10485760",
        "Kept and shown: indexes grow as they must.",
        integer(4, 2**31 - 1),
    ),
    Definition(
        "file.delete.delay.ms", "long", "60000",
        "Kept and shown: readers keep a deleted file until they are done.",
        integer(0),
    ),
    Definition("preallocate", "boolean", "false", "Kept and shown: files grow as they are written.", boolean),
    Definition(
        "unclean.leader.election.enable", "boolean", "false",
        "Kept and shown: there is no other leader.",
        boolean,
    ),
    Definition(
        "leader.replication.throttled.replicas", "list", "",
        "Kept and shown: there are no replicas to throttle.",
        _throttled_replicas,
    ),
    Definition(
        "follower.replication.throttled.replicas", "list", "",
        "Kept and shown: there are no replicas to throttle.",
        _throttled_replicas,
    ),
    Definition(
        "remote.log.delete.on.disable", "boolean", "false",
        "Kept and shown: what is in the archive when it is switched off stays there.",
        boolean,
    ),
)  # fmt: skip

DEFINITIONS: dict[str, Definition] = {definition.name: definition for definition in (*_TABLE, *_KEPT)}
KEPT = frozenset(definition.name for definition in _KEPT)


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
    compression_gzip_level: int
    compression_zstd_level: int
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    local_retention_ms: int
    local_retention_bytes: int
    headwater_full_policy: str
    headwater_append_policy: str

    @property
    def codec(self) -> int | None:
        """The number of the codec that batches are stored in; None: as sent."""
        if self.compression_type == "producer":
            return None
        return 0 if self.compression_type == "uncompressed" else CODECS.index(self.compression_type)

    @property
    def compression_level(self) -> int | None:
        """None: the usual one."""
        if self.compression_type == "zstd":
            return self.compression_zstd_level
        usual = self.compression_type != "gzip" or self.compression_gzip_level == GZIP_USUAL_LEVEL
        return None if usual else self.compression_gzip_level

    @property
    def conditional(self) -> bool:
        """Whether appends without a condition are refused."""
        return self.headwater_append_policy == "conditional"

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
        values = {name.replace(".", "_"): parsed(d, configs.get(name, d.default)) for name, d in DEFINITIONS.items()}
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def parsed(definition: Definition, text: str) -> Any:
    try:
        return definition.parse(text)
    except ValueError as error:
        why = str(error)
        if why.startswith(("invalid literal", "could not convert")):
            why = "it must be a number"
        raise InvalidSetting(definition.name, text, why) from None
