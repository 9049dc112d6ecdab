"""kafka-python: pure Python, blocking."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, NewTopic
from kafka.errors import KafkaError, NoError
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata

from tests.clients.client import (
    EARLIEST,
    LATEST,
    Client,
    ClusterDescription,
    GroupDescription,
    Refused,
    TopicDescription,
)
from tests.clients.membership import Membership
from tests.clients.message import PLAINLY, Message, Producing, Receipt
from tests.clients.numbered_values import digest, numbered_value
from tests.waiting import LONG, Deadline

PLACES = {EARLIEST: OffsetSpec.EARLIEST, LATEST: OffsetSpec.LATEST}


class KafkaPython(Client):
    name = "kafka-python"
    features = frozenset({"receipts", "timestamps", "binary", "static", "cooperative", "refusals"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def sendable(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if sendable(message)]

    def produce(self, topic: str, messages: Sequence[Message], how: Producing = PLAINLY) -> list[Receipt]:
        producer = self._producer(how)
        with closing(producer), refusals():
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            producer.flush(LONG)
            stored = [future.get(30) for future in futures]
        return [Receipt(one.partition, one.offset) for one in stored]

    def fetch(self, topic: str, partition: int, offset: int, count: int, *, seconds: float = 20) -> list[Message]:
        consumer = self._consumer(auto_offset_reset="none")
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, offset)
        return self._read(consumer, count, seconds)

    def read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        consumer = self._consumer(group_id=group, auto_offset_reset="earliest", session_timeout_ms=6000)
        consumer.subscribe([topic])
        return self._read(consumer, count, 20, commit=True)

    def offset_at(self, topic: str, partition: int, place: str | int) -> int | None:
        return self._list_offset(topic, partition, PLACES.get(str(place), place))

    def offset_of_newest(self, topic: str, partition: int) -> int | None:
        return self._list_offset(topic, partition, OffsetSpec.MAX_TIMESTAMP)

    def topics(self) -> Mapping[str, int]:
        return {topic["name"]: len(topic["partitions"]) for topic in self._admin.describe_topics()}

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, topic_configs=dict(configs or {}))
        with refusals():
            self._admin.create_topics([topic], validate_only=validate_only)

    def delete_topic(self, name: str) -> None:
        with refusals():
            self._admin.delete_topics([name])

    def create_partitions(self, name: str, total: int) -> None:
        with refusals():
            self._admin.create_partitions({name: total})

    def describe_topic(self, name: str) -> TopicDescription:
        (topic,) = self._admin.describe_topics([name])
        if topic["error_code"]:
            raise Refused(topic["error_code"])
        partitions = {one["partition_index"]: one for one in topic["partitions"]}
        return TopicDescription(
            {index: one["leader_id"] for index, one in partitions.items()},
            {index: list(one["replica_nodes"]) for index, one in partitions.items()},
            {index: list(one["isr_nodes"]) for index, one in partitions.items()},
        )

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            return int(self._admin.delete_records({place: before})[place]["low_watermark"])

    def describe_configs(self, topic: str) -> Mapping[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        entries = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: entry["value"] for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self._alter(topic, dict(configs), incremental=False)

    def incremental_alter_configs(self, topic: str, changes: Sequence[tuple[str, str, str | None]]) -> None:
        self._alter(topic, {name: (operation.upper(), value) for name, operation, value in changes}, incremental=True)

    def describe_node(self) -> Mapping[str, str | None]:
        node = self._admin.describe_cluster()["brokers"][0]["broker_id"]
        resource = ConfigResource(ConfigResourceType.BROKER, str(node))
        entries = self._admin.describe_configs([resource], config_filter="all")["broker"][str(node)]
        return {name: entry["value"] for name, entry in entries.items()}

    def describe_cluster(self) -> ClusterDescription:
        cluster = self._admin.describe_cluster()
        nodes = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
        return ClusterDescription(cluster["cluster_id"], cluster["controller_id"], nodes)

    def log_bytes(self, topic: str) -> Mapping[int, int]:
        return {
            partition["partition_index"]: partition["partition_size"]
            for broker in self._admin.describe_log_dirs([topic])
            for folder in broker["log_dirs"]
            for described in folder["topics"]
            for partition in described["partitions"]
            if described["name"] == topic
        }

    def groups(self) -> Sequence[str]:
        return [group["group_id"] for group in self._admin.list_groups()]

    def groups_in_state(self, state: str) -> Sequence[str]:
        return [group["group_id"] for group in self._admin.list_groups(states_filter=[state])]

    def describe_group(self, group: str) -> GroupDescription:
        described = self._admin.describe_groups([group])[group]
        members = [
            [
                (assigned["topic"], partition)
                for assigned in (member["member_assignment"] or {"assigned_partitions": []})["assigned_partitions"]
                for partition in assigned["partitions"]
            ]
            for member in described["members"]
        ]
        return GroupDescription(described["group_state"], members)

    def delete_group(self, group: str) -> None:
        answer = self._admin.delete_groups([group])[group]
        if answer != "OK":
            raise Refused(code_of_name(answer))

    def remove_member(self, group: str, instance_id: str) -> None:
        with refusals():
            self._admin.remove_group_members(group, [MemberToRemove(group_instance_id=instance_id)])

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()
        }
        self._check(self._admin.alter_group_offsets(group, wanted))

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        found = self._admin.list_group_offsets(group)[group]
        return {place.partition: one.offset for place, one in found.items() if place.topic == topic and one.offset >= 0}

    def delete_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        with refusals():
            places = [TopicPartition(topic, partition) for partition in partitions]
            self._check(self._admin.delete_group_offsets(group, places))

    def write_numbered(self, topic: str, partitions: int, count: int) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=20, batch_size=200_000)
        with closing(producer), refusals():
            for number in range(count):
                for partition in range(partitions):
                    last = producer.send(topic, value=numbered_value(partition, number), partition=partition)
            producer.flush(LONG)
            last.get(30)

    def read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        consumer = self._consumer(max_poll_records=5000)
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        consumer.seek_to_beginning()
        values: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        deadline, missing = Deadline(80), count * partitions
        while missing > 0 and not deadline.passed:
            for place, records in consumer.poll(timeout_ms=1000).items():
                values[place.partition] += [record.value for record in records]
                missing -= len(records)
        consumer.close()
        return {partition: digest(row) for partition, row in values.items()}

    def member_command(self, membership: Membership) -> list[str]:
        program = [sys.executable, "-m", "tests.clients.members.kafka_python"]
        return [*program, "--bootstrap", self.bootstrap, *membership.arguments()]

    def _producer(self, how: Producing) -> KafkaProducer:
        return KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks={-1: "all"}.get(how.acks, how.acks),
            compression_type=None if how.compression == "none" else how.compression,
            enable_idempotence=how.idempotent,
            max_request_size=how.bytes_max,
            linger_ms=5,
            delivery_timeout_ms=35_000,
        )

    def _consumer(self, **settings: Any) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=100, **settings
        )

    def _read(self, consumer: KafkaConsumer, count: int, seconds: float, *, commit: bool = False) -> list[Message]:
        deadline, read = Deadline(seconds), list[Message]()
        try:
            with refusals():
                while len(read) < count and not deadline.passed:
                    polled = consumer.poll(
                        timeout_ms=min(1000, int(deadline.left * 1000)), max_records=count - len(read)
                    )
                    read += [translated(record) for records in polled.values() for record in records]
                if commit:
                    consumer.commit()
            return read
        finally:
            consumer.close()

    def _list_offset(self, topic: str, partition: int, wanted: Any) -> int | None:
        place = TopicPartition(topic, partition)
        with refusals():
            found = self._admin.list_partition_offsets({place: wanted})[place]
        return None if found is None or found.offset < 0 else int(found.offset)

    def _alter(self, topic: str, configs: Mapping[str, Any], *, incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        # The plain call fills in what it was not told to change; one level below, the request is sent as it stands.
        answer = self._admin._manager.run(self._admin._send_alter_configs_requests, [resource], False, incremental)
        said = answer["topic"][topic]
        if said != "OK":
            found = re.search(r"\[Error (\d+)\]", said)
            raise Refused(int(found[1]) if found else -1, said)

    def _check(self, answers: Mapping[TopicPartition, type[KafkaError]]) -> None:
        for error in answers.values():
            if error is not NoError:
                raise Refused(error.errno)


def sendable(message: Message) -> bool:
    """It refuses to send nothing at all, and headers without a value."""
    something = message.key is not None or message.value is not None
    return something and all(value is not None for _, value in message.headers)


def translated(record: Any) -> Message:
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple((name, value) for name, value in record.headers),
        timestamp_ms=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )


def code_of_name(name: str) -> int:
    from kafka import errors

    return int(getattr(errors, name).errno)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), str(error)) from error
