"""Flows on three brokers of Apache Kafka, which are killed, paused, or elected without having caught up."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from headwater.cli.client import Client as Commands
from headwater.errors import LogTruncated, TopicRecreated
from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.kafka.encoding import encode_records
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.flow.source.options import parse_options
from headwater.flow.source.record_batches.records import decode_batches
from headwater.record import TopicPartition
from tests.clients.brokers.kafka_cluster import BROKERS, KafkaCluster, running_cluster
from tests.clients.brokers.kafka_tools import committed_values, lag_of_group
from tests.clients.brokers.process import NotAvailable
from tests.flow.kafka.cluster_app import APP, Shop, done, lag, running, seen, view_of, written
from tests.waiting import wait_until

PARTITIONS = 6
ROUNDS, ROWS = int(os.environ.get("HEADWATER_CLUSTER_ROUNDS", "1")), 400
"""Of an app that is killed as often."""

EVERYTHING = 2**26
NOW_MS = time.time_ns() // 1_000_000  # a broker deletes what is older than a week
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    try:
        with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
            yield cluster
    except NotAvailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[Client]:
    with Client(cluster.bootstrap) as client:
        yield client


class Writer:
    """Numbers, each once, in every partition of a topic."""

    def __init__(self, client: Client, topic: str, partitions: int) -> None:
        self.places = [TopicPartition(topic, number) for number in range(partitions)]
        self._client, self._identity, self._next = client, client.init_producer_id(), count()
        self.written = 0

    def write(self, rows: int) -> None:
        values = pa.array([b"%d" % next(self._next) for _ in range(rows)])
        batches = encode_records(
            None, values, np.full(rows, NOW_MS), producer_id=self._identity.producer_id,
            epoch=self._identity.epoch, base_sequence=self.written, batch_bytes=200,
        )  # fmt: skip
        self._client.produce(dict.fromkeys(self.places, batches))
        self.written += rows


def values_in(client: Client, place: TopicPartition) -> list[int]:
    end = client.offsets({place: LATEST})[place]
    offset, values = 0, []
    while offset < end:
        fetched = client.fetch(place, offset, bytes_max=EVERYTHING)
        found = decode_batches(fetched.records, offset, end, headers=False)
        values += [int(value) for value in found.values.to_pylist()]
        offset += len(found.offsets)
    return values


def leader_of(client: Client, place: TopicPartition) -> int:
    client.partitions([place.topic])
    return client._leader(place)


def test_topics_are_made_with_the_replicas_of_the_cluster(client: Client) -> None:
    client.create_topic("made", partitions=PARTITIONS)
    assert client.partitions(["made"]) == {"made": PARTITIONS}
    assert len({leader_of(client, TopicPartition("made", number)) for number in range(PARTITIONS)}) == BROKERS


def test_records_are_written_once_and_read_while_each_broker_is_killed_in_turn(
    cluster: KafkaCluster, client: Client
) -> None:
    client.create_topic("numbers", partitions=PARTITIONS)
    writer = Writer(client, "numbers", PARTITIONS)
    for number in range(BROKERS):
        writer.write(50)
        cluster.kill(number)
        writer.write(50)
        client.commit_offsets("a-job", dict.fromkeys(writer.places, writer.written))
        assert client.committed_offsets("a-job") == dict.fromkeys(writer.places, writer.written)
        cluster.start(number)
        wait_until(partial(is_back, client, number), "the broker is back")
    for place in writer.places:
        assert values_in(client, place) == list(range(writer.written))


def is_back(client: Client, broker: int) -> bool:
    client.partitions(["numbers"])
    return broker in client._metadata.brokers


def test_a_paused_leader_is_replaced_and_what_it_took_is_there_once(cluster: KafkaCluster, client: Client) -> None:
    client.create_topic("paused", partitions=1)
    writer = Writer(client, "paused", 1)
    writer.write(20)
    leader = leader_of(client, writer.places[0])
    cluster.pause(leader)
    try:
        writer.write(20)
        assert leader_of(client, writer.places[0]) != leader
    finally:
        cluster.resume(leader)
    writer.write(20)
    assert values_in(client, writer.places[0]) == list(range(60))


def test_a_new_client_finds_the_cluster_by_any_broker_that_is_left(cluster: KafkaCluster, client: Client) -> None:
    client.create_topic("found", partitions=3)
    cluster.kill(0)
    try:
        with Client(cluster.bootstrap) as other:
            assert other.partitions(["found"]) == {"found": 3}
            Writer(other, "found", 3).write(10)
    finally:
        cluster.start(0)


def test_records_that_a_change_of_leader_cut_off_stop_a_job(cluster: KafkaCluster, client: Client) -> None:
    """The log is as long again soon: only the leader's epoch says that it is another one."""
    client.create_topic("cut", partitions=1, configs=UNCLEAN, replication=2)
    writer = Writer(client, "cut", 1)
    place = writer.places[0]
    writer.write(10)
    leader = leader_of(client, place)
    replicas = [number for number in range(BROKERS) if number != leader]
    for number in replicas:
        cluster.kill(number)
    writer.write(10)
    planner = BatchPlanner(parse_options({"address": cluster.bootstrap, "topic": "cut"}))
    read = planner.next(planner.beginning(), rows_max=None, bytes_max=None).ends
    assert read == {place: 20}
    cluster.kill(leader)
    cluster.start(*replicas)
    try:
        wait_until(lambda: leader_of(client, place) != leader, "another broker leads")
        assert client.offsets({place: LATEST})[place] == 10
        Writer(client, "cut", 1).write(30)
        with pytest.raises(LogTruncated, match=r'"cut/0" was cut off at offset 10 .* read up to 20'):
            planner.next(read, rows_max=None, bytes_max=None)
    finally:
        planner.close()
        cluster.start(leader)


def test_a_topic_that_was_deleted_and_made_again_stops_a_job(cluster: KafkaCluster, client: Client) -> None:
    client.create_topic("again", partitions=1)
    Writer(client, "again", 1).write(5)
    planner = BatchPlanner(parse_options({"address": cluster.bootstrap, "topic": "again"}))
    read = planner.next(planner.beginning(), rows_max=None, bytes_max=None).ends
    delete(cluster, "again")
    client.create_topic("again", partitions=1)
    Writer(client, "again", 1).write(9)
    with pytest.raises(TopicRecreated):
        planner.next(read, rows_max=None, bytes_max=None)
    planner.close()


def delete(cluster: KafkaCluster, topic: str) -> None:
    commands = Commands(cluster.bootstrap)
    commands.delete_topic(topic)
    wait_until(lambda: topic not in commands.topics(), "it is gone")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_order_counts_once_while_brokers_and_the_app_are_killed(cluster: KafkaCluster, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "data").mkdir()
    random = Random(ROUNDS)
    Commands(cluster.bootstrap).create_topic("orders", partitions=6)
    shop = Shop(cluster.bootstrap, seed=1)
    shop.send(ROWS)
    for number in range(ROUNDS):
        with running(tmp_path, cluster) as process:
            reached = seen(tmp_path)
            shop.send(ROWS // 2)
            broker = number % BROKERS
            cluster.kill(broker)
            shop.send(ROWS // 2)
            cluster.start(broker)
            wait_until(partial(goes_on, process, tmp_path, reached), "rows arrive")
            assert process.poll() is None, (tmp_path / "run.log").read_text()
            shop.send(random.randrange(ROWS))
    done(tmp_path, cluster, "run", "shop.py", "--once")
    assert view_of(tmp_path) == shop.revenue()
    expected = [order for order in shop.orders if order[2] >= 500]
    assert sorted(written(cluster)) == sorted(expected)
    done(tmp_path, cluster, "verify", "--file", "shop.py")
    assert lag(cluster, "orders") == 0
    kafka_says_the_same(cluster, shop, expected)


def kafka_says_the_same(cluster: KafkaCluster, shop: Shop, expected: list[tuple[int, str, int]]) -> None:
    """Its own tools show the job's lag, also one that is not zero; its Java consumer reads each result once."""
    (group,) = (name for name in Commands(cluster.bootstrap).group_names() if "shop" in name)
    shown = lag_of_group(cluster.bootstrap, group)
    assert {place: lag for place, lag in shown.items() if place[0] == "orders"} == {("orders", n): 0 for n in range(6)}
    shop.send(7)
    assert sum(lag_of_group(cluster.bootstrap, group).values()) == 7
    read = [json.loads(value) for value in committed_values(cluster.bootstrap, "large")]
    assert sorted((row["id"], row["city"], row["cents"]) for row in read) == sorted(expected)


def goes_on(process: "subprocess.Popen[bytes]", folder: Path, before: int) -> bool:
    """Or has ended, which the test says."""
    return process.poll() is not None or seen(folder) > before
