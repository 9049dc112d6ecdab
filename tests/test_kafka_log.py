"""Captures and notifications go to a Kafka cluster where one is named; here a node plays the cluster."""

import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.capture.appender import last_records
from headwater.capture.commit_points import CommitPoints
from headwater.capture.definition import Definition, Definitions
from headwater.capture.notes import Notes
from headwater.errors import UnavailableError, UnknownTopic
from headwater.flow.kafka.client import Client, End
from headwater.kafka_log import KafkaAppender, publisher
from headwater.log.record_contents import contents_of
from headwater.record import Record, TopicPartition
from tests.waiting import wait_until

RECORDS = [Record(b"%d" % number, b"k%d" % (number % 3), timestamp_ms=1_700_000_000_000) for number in range(40)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "broker", NodeSettings(wire=WireSettings(port=0))) as node:
        yield node


@pytest.fixture
def appender(broker: Node) -> KafkaAppender:
    found = KafkaAppender(broker.kafka_address)
    found.ensure_topic("users", partitions=2, configs={"cleanup.policy": "compact"})
    return found


def test_records_are_there_in_order_when_append_returns(appender: KafkaAppender) -> None:
    assert appender.append("users", 1, RECORDS) == 40
    assert appender.append("users", 1, [Record(b"now", b"k")]) == 41
    assert appender.bounds("users", 1) == (0, 41)
    assert [record.value for record in appender.read("users", 1, 38)] == [b"38", b"39", b"now"]
    assert last_records(appender, "users", 1, 1)[-1].timestamp_ms > 1_700_000_000_000


def test_contents_that_were_written_before_are_the_same_records(appender: KafkaAppender) -> None:
    assert appender.append_contents("users", 0, [contents_of(RECORDS[:7]), contents_of(RECORDS[7:])]) == 40
    assert appender.append_contents("users", 0, [contents_of(RECORDS[:1])]) == 41
    read = [(record.key, record.value) for record in appender.read("users", 0, 0)]
    assert read == [(record.key, record.value) for record in (*RECORDS, RECORDS[0])]


def test_a_topic_that_is_missing_is_empty_and_one_that_is_there_stays(appender: KafkaAppender) -> None:
    assert appender.partition_count("nowhere") == 0
    assert appender.bounds("nowhere", 0) == (0, 0)
    assert appender.ensure_topic("users", partitions=5, configs={}) == 2
    appender.add_partitions("users", 3)
    assert appender.partition_count("users") == 3


def test_notes_and_commit_points_are_kept_there(appender: KafkaAppender, broker: Node) -> None:
    Notes(appender, "shop").write({"position": {"address": 7}})
    first, second = CommitPoints(appender, "shop"), CommitPoints(appender, "other")
    for points in (first, second):
        points.land("users", 2)
        points.mark({("users", 0): 0})
        points.announce(["users"])
    again = KafkaAppender(broker.kafka_address)
    assert Notes(again, "shop").get("position") == {"address": 7}
    assert CommitPoints(again, "shop").land("users", 2)


class Behind(Client):
    """A leader whose replicas have three records less than it, until they were looked at so often."""

    looks = 0

    def ends(self, places: object) -> dict[TopicPartition, End]:
        self.looks += 1
        return {TopicPartition("users", 0): End(40 if self.looks > 2 else 37, 5)}

    def epoch_ends(self, epochs: object) -> dict[TopicPartition, int]:
        return {TopicPartition("users", 0): 40}


def test_what_replicas_do_not_have_yet_counts_as_written(
    appender: KafkaAppender, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender.append("users", 0, RECORDS)
    monkeypatch.setattr("headwater.kafka_log.Client", Behind)
    other = KafkaAppender(broker.kafka_address)
    assert other.bounds("users", 0) == (0, 40)
    assert isinstance(other._client, Behind)
    assert other._client.looks == 3


def test_replicas_that_never_follow_are_said(
    appender: KafkaAppender, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.kafka_log.Client", Behind)
    monkeypatch.setattr("headwater.kafka_log.SETTLING_MS", -1)
    with pytest.raises(UnavailableError, match='"users/0" is written up to 40, and replicated only to 37'):
        KafkaAppender(broker.kafka_address).bounds("users", 0)


def test_a_notification_makes_its_topic(broker: Node) -> None:
    publish = publisher(broker.kafka_address)
    assert publish("warnings", Record(b"{}", b"a1")) == "warnings/0 at 0"
    assert publish("warnings", Record(b"{}", b"a2")) == "warnings/0 at 1"


def test_what_a_node_captures_goes_to_the_cluster_and_not_to_its_own_log(broker: Node, tmp_path: Path) -> None:
    shop = sqlite3.connect(tmp_path / "shop.sqlite", isolation_level=None)
    shop.executescript("PRAGMA journal_mode = WAL; CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);")
    shop.execute("INSERT INTO users VALUES (1, 'ada')")
    data = tmp_path / "data"
    url = f"sqlite:///{tmp_path}/shop.sqlite"
    Definitions(data).add(Definition(name="shop", url=url, tables=("users",), topic="{table}"))
    settings = NodeSettings(wire=WireSettings(port=0), captures=True, cluster=broker.kafka_address)
    reader = KafkaAppender(broker.kafka_address)
    for name in ("grace", "alan"):  # the second time on what the first has left there
        with Node(data, settings) as node:
            shop.execute("INSERT INTO users (name) VALUES (?)", (name,))
            wait_until(partial(is_captured, reader, name), f"{name} is captured")
            with pytest.raises(UnknownTopic):
                node.log.topic("users")
    assert names(reader) == ["ada", "grace", "alan"]


def is_captured(reader: KafkaAppender, name: str) -> bool:
    return name in names(reader)


def names(reader: KafkaAppender) -> list[str]:
    first, _ = reader.bounds("users", 0)
    rows = [json.loads(record.value or b"{}") for record in reader.read("users", 0, first)]
    return [row["after"]["name"] for row in rows if row.get("after")]
