"""Every topic that the platform makes for itself, by what makes it: none refuses a record, and none is left in a state
in which it loses some."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater
from headwater.access.audit import CONFIGS as AUDIT_CONFIGS
from headwater.access.store import CONFIGS as ACCESS_CONFIGS
from headwater.alerts.definition import alerts_topic, deliveries_topic
from headwater.alerts.journal import ensure_topic as ensure_alerts
from headwater.alerts.targets import by_topic, publisher
from headwater.capture.appender import LogAppender
from headwater.capture.commit_points import CONFIGS as COMMIT_POINTS_CONFIGS
from headwater.capture.http.once import CONFIGS as REQUESTS_CONFIGS
from headwater.capture.http.once import TOPIC as REQUESTS
from headwater.capture.notes import TOPIC as NOTES
from headwater.capture.notes import Notes
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.outputs import own_topic_sink
from headwater.flow.declare.topology.naming import accounts_topic, late_topic, poisoned_topic
from headwater.flow.kafka.client import Client
from headwater.log.commit_points import TOPIC as COMMIT_POINTS
from headwater.log.groups.journal import CONFIGS as OFFSETS_CONFIGS
from headwater.log.groups.journal import TOPIC as OFFSETS
from headwater.log.groups.journal import ensure_topic as ensure_offsets
from headwater.log.own_topics import ensure_own_topic
from headwater.log.queues.dead_letters import CONFIGS as DEAD_LETTERS_CONFIGS
from headwater.log.queues.journal import TOPIC as QUEUES
from headwater.log.topic import ACCESS_TOPIC as ACCESS
from headwater.log.topic import AUDIT_TOPIC as AUDIT
from headwater.log.transactions.state_log import TOPIC as TRANSACTIONS
from headwater.node import Node
from headwater.record import Record
from headwater.registry.journal import CONFIGS as SCHEMAS_CONFIGS
from headwater.registry.journal import TOPIC as SCHEMAS
from headwater.settings import LogSettings, NodeSettings
from headwater.testing import running_node

NARROW = (
    ("max.message.bytes", "1000"),
    ("max.decompressed.message.bytes", "1000"),
    ("message.timestamp.after.max.ms", "1000"),
    ("message.timestamp.before.max.ms", "1000"),
    ("retention.bytes", "100"),
    ("headwater.full.policy", "reject"),
)
LARGE = bytes(8 * 1024**2)
FAR_MS = 2**62 - 1
LOSING = {"retention.ms": "1", "retention.bytes": "1"}


def job_topic(name: str) -> Callable[[Node], object]:
    def make(node: Node) -> None:
        with Client(node.kafka_address) as client:
            own_topic_sink(name, JobFolder(node.data / "job"), client)

    return make


OWN: dict[str, Callable[[Node], object]] = {
    OFFSETS: lambda node: ensure_offsets(node.log),
    TRANSACTIONS: lambda node: ensure_own_topic(node.log, TRANSACTIONS, OFFSETS_CONFIGS, partitions=1),
    QUEUES: lambda node: ensure_own_topic(node.log, QUEUES, OFFSETS_CONFIGS, partitions=1),
    "mail.dead": lambda node: ensure_own_topic(node.log, "mail.dead", DEAD_LETTERS_CONFIGS),
    ACCESS: lambda node: ensure_own_topic(node.log, ACCESS, ACCESS_CONFIGS),
    AUDIT: lambda node: ensure_own_topic(node.log, AUDIT, AUDIT_CONFIGS),
    SCHEMAS: lambda node: ensure_own_topic(node.log, SCHEMAS, SCHEMAS_CONFIGS),
    REQUESTS: lambda node: ensure_own_topic(node.log, REQUESTS, REQUESTS_CONFIGS),
    NOTES: lambda node: Notes(LogAppender(node.log), "users"),
    COMMIT_POINTS: lambda node: LogAppender(node.log).ensure_topic(
        COMMIT_POINTS, partitions=1, configs=COMMIT_POINTS_CONFIGS
    ),
    alerts_topic("shop"): lambda node: ensure_alerts(node.log, alerts_topic("shop")),
    deliveries_topic("shop"): lambda node: ensure_alerts(node.log, deliveries_topic("shop")),
    "notified": lambda node: by_topic("notified", publisher(node.log))({"id": "7"}),
    accounts_topic("shop"): job_topic(accounts_topic("shop")),
    late_topic("shop", "orders"): job_topic(late_topic("shop", "orders")),
    poisoned_topic("shop", "orders"): job_topic(poisoned_topic("shop", "orders")),
}
KEPT = [
    OFFSETS,
    TRANSACTIONS,
    QUEUES,
    ACCESS,
    SCHEMAS,
    REQUESTS,
    NOTES,
    COMMIT_POINTS,
    alerts_topic("shop"),
    deliveries_topic("shop"),
]
MAKERS = {
    "log/groups/journal.py", "registry/journal.py", "capture/http/once.py", "capture/appender.py", "alerts/journal.py",
    "flow/commit/outputs.py", "flow/run/running_app.py", "flow/deploy/rebuild.py", "alerts/delivery.py",
    "alerts/targets.py", "capture/notes.py", "capture/commit_points.py", "capture/runner.py", "log/groups/offsets.py",
    "log/transactions/state_log.py", "access/store.py", "access/audit.py", "log/queues/journal.py",
    "log/queues/dead_letters.py", "kafka_log.py",
}  # fmt: skip
"""Modules that make topics of headwater's own: the topics of each are above, but for the tables of captures
(`capture/runner.py`), and what captures write to a Kafka cluster (`kafka_log.py`)."""


@pytest.mark.parametrize("topic", OWN)
def test_a_topic_of_our_own_takes_every_record_whatever_the_nodes_defaults_are(topic: str, tmp_path: Path) -> None:
    settings = NodeSettings(log=LogSettings(offsets_partitions=1, topic_defaults=NARROW), http=None)
    with running_node(tmp_path / "data", settings) as node:
        OWN[topic](node)
        begun = node.log.partition(topic, 0).end_offset
        times = (0, -1, 1, FAR_MS)
        for number, timestamp_ms in enumerate(times):
            node.log.append(topic, Record(b"v", b"%d" % number, timestamp_ms=timestamp_ms), partition=0)
        node.log.append(topic, Record(LARGE, b"large"), partition=0)
        assert node.log.partition(topic, 0).end_offset == begun + len(times) + 1


@pytest.mark.parametrize("topic", KEPT)
def test_one_that_was_altered_to_lose_records_is_fixed_by_its_next_use(topic: str, tmp_path: Path) -> None:
    with running_node(tmp_path / "data", NodeSettings(log=LogSettings(offsets_partitions=1), http=None)) as node:
        OWN[topic](node)
        before = node.log.topic(topic).settings
        other = "delete" if before.compacted else "compact"
        node.log.alter_topic(topic, {**LOSING, "cleanup.policy": other})
        OWN[topic](node)
        altered = node.log.topic(topic).settings
        assert altered == before


def test_every_module_that_makes_a_topic_of_our_own_is_among_them() -> None:
    """Who adds one adds its topic to the table above."""
    source = Path(headwater.__file__).parent
    calls = re.compile(r"(?<!def )\b(ensure_own_topic|own_topic_sink|ensure_topic)\(|TAKES_ALL[,}]")
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if calls.search(path.read_text())}
    assert found - {"log/own_topics.py"} == MAKERS
