"""Kafka's own command line tools against the broker: what they ask of a cluster of one node is answered."""

import subprocess
from collections.abc import Callable

import pytest

from tests.clients.adapters.java import JVM_OPTIONS
from tests.clients.brokers.maven import java_command, kafka_class_path
from tests.clients.brokers.process import NotAvailable


def run(tool: str, *words: str) -> str:
    try:
        command = [java_command(), *JVM_OPTIONS, "-cp", kafka_class_path(), tool, *words]
    except NotAvailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topics_are_described(bootstrap: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    said = run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    assert "PartitionCount: 2\tReplicationFactor: 1" in said
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in said


def test_the_quorum_has_one_voter(bootstrap: str) -> None:
    said = run("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", bootstrap, "describe", "--status")
    assert "LeaderId:               1" in said
    assert '"id": 1' in said


def test_a_leader_needs_no_election(bootstrap: str, topic: str) -> None:
    said = run(
        "org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", bootstrap, "--election-type",
        "PREFERRED", "--topic", topic, "--partition", "0",
    )  # fmt: skip
    assert f"Valid replica already elected for partitions {topic}-0" in said


def test_no_partition_is_being_moved(bootstrap: str) -> None:
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    assert "No partition reassignments found." in run(tool, "--bootstrap-server", bootstrap, "--list")


def test_settings_of_topics_are_listed(bootstrap: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(compression_type="zstd")
    said = run("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--describe", "--entity-type", "topics")
    assert f"Dynamic configs for topic {topic} are:\n  compression.type=zstd" in said
