"""Settings of a queue: Kafka's names and meanings for share groups, and a few of our own, in one table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta

from headwater.errors import InvalidSetting
from headwater.log.queues.delivery import Rules
from headwater.log.topic_settings import Definition, boolean, choice, integer, parsed
from headwater.settings import milliseconds

LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration:"
READ_COMMITTED = "read_committed"
KEY = "key"
DAY_MS = 24 * 3_600_000
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


def duration_ms(text: str) -> int:
    """Milliseconds of a duration as ISO 8601 writes it.

    >>> duration_ms("P1DT2H"), duration_ms("PT90S")
    (93600000, 90000)
    """
    found = _ISO_DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError("it must be a duration like PT1H or P2D")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return milliseconds(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))


def _start(text: str) -> str:
    if text.startswith(BY_DURATION):
        duration_ms(text.removeprefix(BY_DURATION))
        return text
    return choice(LATEST, EARLIEST)(text)


_TABLE = (
    Definition("share.record.lock.duration.ms", "int", "30000",
               "How long a message is a consumer's alone before it is delivered again.", integer(1, DAY_MS)),
    Definition("share.delivery.count.limit", "int", "5",
               "Attempts to deliver a message; after the last one it is put aside.", integer(1, 10_000)),
    Definition("share.partition.max.record.locks", "int", "2000",
               "Messages of a partition that consumers may hold at a time.", integer(1, 100_000)),
    Definition("share.auto.offset.reset", "string", LATEST,
               "Where a new queue begins: earliest, latest, or by_duration:PT1H for that long ago.", _start),
    Definition("share.isolation.level", "string", READ_COMMITTED,
               "Whether messages of open and aborted transactions are delivered: Kafka's own default, "
               "read_uncommitted, delivers them.", choice("read_uncommitted", READ_COMMITTED)),
    Definition("share.renew.acknowledge.enable", "boolean", "true",
               "Whether Kafka's share consumers may renew the lock of a message.", boolean),
    Definition("share.session.timeout.ms", "int", "45000",
               "How long a member of a share group may be silent.", integer(1_000, 3_600_000)),
    Definition("share.heartbeat.interval.ms", "int", "5000",
               "How often a member of a share group sends a heartbeat.", integer(100, 3_600_000)),
    Definition("share.assignment.interval.ms", "int", "1000",
               "Kept for clients: partitions are assigned at once.", integer(0, 3_600_000)),
    Definition("errors.deadletterqueue.topic.name", "string", "",
               "The topic to which messages are copied that were rejected or failed too often.", str),
    Definition("headwater.queue.order", "string", "none",
               "key: of messages with the same key only the oldest unfinished one is delivered.", choice("none", KEY)),
    Definition("headwater.queue.backoff.ms", "long", "0",
               "Delay of a message that was given back once; it doubles with each further attempt.",
               integer(0, 30 * DAY_MS)),
    Definition("headwater.queue.backoff.max.ms", "long", "3600000", "The longest such delay.", integer(0, 30 * DAY_MS)),
    Definition("headwater.queue.message.ttl.ms", "long", "-1",
               "How old a message may be when it is first delivered; -1 is of any age.", integer(-1)),
    Definition("headwater.queue.headers", "boolean", "false",
               "Whether headers of messages say when they may be delivered, and when they expire.", boolean),
    Definition("headwater.queue.single.active.consumer", "boolean", "false",
               "Whether one consumer at a time is given the messages of a partition.", boolean),
)  # fmt: skip

DEFINITIONS: Mapping[str, Definition] = {definition.name: definition for definition in _TABLE}


@dataclass(frozen=True, kw_only=True)
class QueueSettings:
    """The checked form. Every field is the setting of the same name with dots."""

    share_record_lock_duration_ms: int
    share_delivery_count_limit: int
    share_partition_max_record_locks: int
    share_auto_offset_reset: str
    share_isolation_level: str
    share_renew_acknowledge_enable: bool
    share_session_timeout_ms: int
    share_heartbeat_interval_ms: int
    errors_deadletterqueue_topic_name: str
    headwater_queue_order: str
    headwater_queue_backoff_ms: int
    headwater_queue_backoff_max_ms: int
    headwater_queue_message_ttl_ms: int
    headwater_queue_headers: bool
    headwater_queue_single_active_consumer: bool

    @property
    def by_key(self) -> bool:
        return self.headwater_queue_order == KEY

    @property
    def committed(self) -> bool:
        return self.share_isolation_level == READ_COMMITTED

    @property
    def dead_letter_topic(self) -> str:
        """ "" if there is none."""
        return self.errors_deadletterqueue_topic_name

    @property
    def looks_into_records(self) -> bool:
        """Whether what is in a record decides about its delivery, so that batches are decoded."""
        return self.by_key or self.headwater_queue_headers or self.headwater_queue_message_ttl_ms >= 0

    @property
    def rules(self) -> Rules:
        return Rules(
            lock_ms=self.share_record_lock_duration_ms,
            attempts_max=self.share_delivery_count_limit,
            in_flight_max=self.share_partition_max_record_locks,
            backoff_ms=self.headwater_queue_backoff_ms,
            backoff_ms_max=self.headwater_queue_backoff_max_ms,
        )

    @classmethod
    def from_configs(cls, configs: Mapping[str, str]) -> "QueueSettings":
        """InvalidSetting names the first that is unknown or wrong.

        >>> QueueSettings.from_configs({"share.delivery.count.limit": "3"}).rules.attempts_max
        3
        """
        for name in configs:
            if name not in DEFINITIONS:
                raise InvalidSetting(name, configs[name], "no setting of queues and share groups has this name")
        values = {name.replace(".", "_"): parsed(d, configs.get(name, d.default)) for name, d in DEFINITIONS.items()}
        return cls(**{field.name: values[field.name] for field in fields(cls)})
