"""Every topic setting that Apache Kafka 4 has: what it takes is taken and shown, what it refuses is refused."""

from collections.abc import Callable

import pytest

from tests.clients.client import INVALID_CONFIG, Client, Refused
from tests.waiting import wait_until

FOREVER = str(2**63 - 1)

# name: a value that is taken, and values that are refused
TABLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "cleanup.policy": ("compact,delete", ("archive",)),
    "compression.gzip.level": ("9", ("0", "10", "best")),
    "compression.lz4.level": ("17", ("0", "18")),
    "compression.type": ("zstd", ("brotli", "none")),
    "compression.zstd.level": ("-7", ("23",)),
    "delete.retention.ms": ("0", ("-1",)),
    "file.delete.delay.ms": ("0", ("-1",)),
    "flush.messages": ("1", ("0",)),
    "flush.ms": ("0", ("-1",)),
    "follower.replication.throttled.replicas": ("0:1,1:1", ("zero", "0")),
    "index.interval.bytes": ("0", ("-1",)),
    "leader.replication.throttled.replicas": ("*", ("0:one",)),
    "max.compaction.lag.ms": ("1", ("0",)),
    "max.message.bytes": ("0", ("-1",)),
    "message.timestamp.after.max.ms": (FOREVER, ("-1",)),
    "message.timestamp.before.max.ms": ("0", ("-1",)),
    "message.timestamp.type": ("LogAppendTime", ("Whenever",)),
    "min.cleanable.dirty.ratio": ("1", ("1.1", "-0.1")),
    "min.compaction.lag.ms": ("0", ("-1",)),
    "min.insync.replicas": ("2", ("0",)),
    "preallocate": ("true", ("perhaps",)),
    "retention.bytes": ("0", ("much",)),
    "retention.ms": ("-1", ("-2",)),
    "segment.bytes": (str(2**31 - 1), ("13", str(2**31))),
    "segment.index.bytes": ("4", ("3",)),
    "segment.jitter.ms": ("1", ("-1",)),
    "segment.ms": ("1", ("0",)),
    "unclean.leader.election.enable": ("true", ("1",)),
}
# Kafka wants an archive for these; headwater has one.
ARCHIVE = {"remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable", "local.retention.ms",
           "local.retention.bytes"}  # fmt: skip


def test_the_table_has_every_setting(admin: Client, topic: str) -> None:
    shown = {name for name in admin.describe_configs(topic) if not name.startswith(("headwater.", "max.decompressed"))}
    assert {*TABLE, *ARCHIVE} == shown - {"internal.segment.bytes"}


def test_what_kafka_takes_is_taken_and_shown(admin: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    values = {name: value for name, (value, _) in TABLE.items()}
    admin.incremental_alter_configs(topic, [(name, "set", value) for name, value in values.items()])
    wait_until(lambda: {name: admin.describe_configs(topic)[name] for name in values} == values, "all values to show")


@pytest.mark.parametrize("name", TABLE)
def test_what_kafka_refuses_is_refused(admin: Client, topic: str, name: str) -> None:
    for value in TABLE[name][1]:
        with pytest.raises(Refused) as refusal:
            admin.incremental_alter_configs(topic, [(name, "set", value)])
        assert refusal.value.code == INVALID_CONFIG, value
