"""confluent-kafka, which is librdkafka."""

import sys
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import Message as LibraryMessage
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

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
from tests.clients.message import PLAINLY, Header, Message, Producing, Receipt
from tests.clients.numbered_values import digest, numbered_value
from tests.clients.sharing import ConfluentSharing, Sharing
from tests.clients.transactional import ConfluentTransactional, Transactional
from tests.waiting import LONG, Deadline

READ_AT_ONCE = 10_000

Answer = tuple[KafkaError | None, LibraryMessage]
Value = TypeVar("Value")


class Confluent(Client):
    name = "librdkafka"
    features = frozenset({"receipts", "timestamps", "binary", "static", "cooperative", "refusals", "consumer_protocol"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})

    def close(self) -> None:
        del self._admin  # its connections end with it

    def produce(self, topic: str, messages: Sequence[Message], how: Producing = PLAINLY) -> list[Receipt]:
        producer = self._producer(how)
        answers: dict[int, Answer] = {}
        for place, message in enumerate(messages):
            time: dict[str, Any] = {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=message.partition,
                headers=list(message.headers) or None,
                on_delivery=partial(keep, answers, place),
                **time,
            )
        producer.flush(LONG)
        if refused := [error for error, _ in answers.values() if error is not None]:
            raise refusal(refused[0])
        stored = [answers[place][1] for place in range(len(messages))]
        return [Receipt(present(message.partition()), offset_of(message)) for message in stored]

    def fetch(self, topic: str, partition: int, offset: int, count: int, *, seconds: float = 20) -> list[Message]:
        consumer = self._consumer({"auto.offset.reset": "error"})
        consumer.assign([TopicPartition(topic, partition, offset)])
        return self._read(consumer, count, seconds)

    def read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        consumer = self._consumer({"group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        return self._read(consumer, count, 20, at_end=lambda: consumer.commit(asynchronous=False))

    def offset_at(self, topic: str, partition: int, place: str | int) -> int | None:
        spec = {EARLIEST: OffsetSpec.earliest, LATEST: OffsetSpec.latest}.get(str(place))
        wanted: OffsetSpec = spec() if spec else OffsetSpec.for_timestamp(int(place))
        return self._list_offset(topic, partition, wanted)

    def offset_of_newest(self, topic: str, partition: int) -> int | None:
        return self._list_offset(topic, partition, OffsetSpec.max_timestamp())

    def topics(self) -> Mapping[str, int]:
        return {name: len(topic.partitions) for name, topic in self._admin.list_topics(timeout=LONG).topics.items()}

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
        only(self._admin.create_topics([topic], validate_only=validate_only))

    def delete_topic(self, name: str) -> None:
        only(self._admin.delete_topics([name]))

    def create_partitions(self, name: str, total: int) -> None:
        only(self._admin.create_partitions([NewPartitions(name, total)]))

    def describe_topic(self, name: str) -> TopicDescription:
        partitions = only(self._admin.describe_topics(TopicCollection([name]))).partitions
        return TopicDescription(
            {partition.id: partition.leader.id for partition in partitions},
            {partition.id: [node.id for node in partition.replicas] for partition in partitions},
            {partition.id: [node.id for node in partition.isr] for partition in partitions},
        )

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        low: int = only(self._admin.delete_records([TopicPartition(topic, partition, before)])).low_watermark
        return low

    def describe_configs(self, topic: str) -> Mapping[str, str | None]:
        entries = only(self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
        return {name: entry.value for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=dict(configs))
        with warnings.catch_warnings():
            # Deprecated in favour of the incremental form, and still what older programs send.
            warnings.simplefilter("ignore", DeprecationWarning)
            only(self._admin.alter_configs([resource]))

    def incremental_alter_configs(self, topic: str, changes: Sequence[tuple[str, str, str | None]]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType[operation.upper()])
            for name, operation, value in changes
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        only(self._admin.incremental_alter_configs([resource]))

    def describe_node(self) -> Mapping[str, str | None]:
        (node,) = self._admin.list_topics(timeout=LONG).brokers
        entries = only(self._admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node))]))
        return {name: entry.value for name, entry in entries.items()}

    def describe_cluster(self) -> ClusterDescription:
        cluster = settled(self._admin.describe_cluster())
        nodes = [f"{node.host}:{node.port}" for node in cluster.nodes]
        return ClusterDescription(cluster.cluster_id, cluster.controller.id, nodes)

    def groups(self) -> Sequence[str]:
        return [group.group_id for group in settled(self._admin.list_consumer_groups()).valid]

    def groups_in_state(self, state: str) -> Sequence[str]:
        listed = settled(self._admin.list_consumer_groups(states={ConsumerGroupState[state.upper()]}))
        return [group.group_id for group in listed.valid]

    def describe_group(self, group: str) -> GroupDescription:
        described = only(self._admin.describe_consumer_groups([group]))
        members = [
            [(assigned.topic, assigned.partition) for assigned in member.assignment.topic_partitions]
            for member in described.members
        ]
        return GroupDescription(described.state.name.title().replace("_", ""), members)

    def delete_group(self, group: str) -> None:
        only(self._admin.delete_consumer_groups([group]))

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        only(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        # Stable: those of a transaction that is just being ended are waited for.
        asked = [ConsumerGroupTopicPartitions(group)]
        found = only(self._admin.list_consumer_group_offsets(asked, require_stable=True))
        if refused := [one.error for one in found.topic_partitions if one.error is not None]:
            raise refusal(refused[0])
        return {
            one.partition: one.offset
            for one in found.topic_partitions
            if one.topic == topic and one.offset != OFFSET_INVALID
        }

    def write_numbered(self, topic: str, partitions: int, count: int) -> None:
        failures: list[KafkaError] = []
        reports = {"delivery.report.only.error": True, "queue.buffering.max.messages": 500_000}
        producer = self._producer(Producing(idempotent=True), **reports)

        def failed(error: KafkaError, _: LibraryMessage) -> None:
            failures.append(error)

        for number in range(count):
            for partition in range(partitions):
                while not offered(producer, topic, partition, numbered_value(partition, number), failed):
                    producer.poll(0.1)
        producer.flush(LONG)
        if failures:
            raise refusal(failures[0])

    def read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        # With a full queue librdkafka would pause for a second before it fetches again.
        consumer = self._consumer({"auto.offset.reset": "error", "fetch.queue.backoff.ms": 5})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        values: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        deadline, missing = Deadline(60), count * partitions
        while missing > 0 and not deadline.passed:
            for message in consumer.consume(READ_AT_ONCE, timeout=1):
                raise_if_failed(message)
                values[present(message.partition())].append(present(message.value()))
                missing -= 1
        consumer.close()
        return {partition: digest(row) for partition, row in values.items()}

    def share_consumer(
        self, group: str, topic: str, *, explicit: bool = True, strict: bool = True, records_max: int = 500
    ) -> Sharing:
        return ConfluentSharing(self.bootstrap, group, topic, explicit=explicit, records_max=records_max)

    def transactional(self, transactional_id: str, *, timeout_s: float = 60) -> Transactional:
        return ConfluentTransactional(self.bootstrap, transactional_id, timeout_s)

    def read_to_end(self, topic: str, partition: int, *, committed: bool) -> list[bytes]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer({"isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 50})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found = list[bytes]()
        while True:
            for message in consumer.consume(100, timeout=1):
                if (error := message.error()) is not None and error.code() == KafkaError._PARTITION_EOF:
                    consumer.close()
                    return found
                raise_if_failed(message)
                found.append(present(message.value()))

    def wait_until_stable(self, topic: str, partition: int) -> None:
        place, ends = TopicPartition(topic, partition), dict[str, int]()
        while len(ends) < 2 or len(set(ends.values())) > 1:
            for isolation in IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED:
                listed = self._admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
                ends[isolation.name] = only(listed).offset
            time.sleep(0.05)

    def member_command(self, membership: Membership) -> list[str]:
        program = [sys.executable, "-m", "tests.clients.members.confluent"]
        return [*program, "--bootstrap", self.bootstrap, *membership.arguments()]

    def _producer(self, how: Producing, **more: Any) -> Producer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": how.compression,
            "acks": how.acks,
            "enable.idempotence": how.idempotent,
            "message.max.bytes": how.bytes_max,
            "linger.ms": 5,
            "message.timeout.ms": 25_000,
        }
        return Producer({**settings, **more})

    def _consumer(self, settings: Mapping[str, Any]) -> Consumer:
        # Without a group librdkafka still wants a name for one; nothing is committed under it.
        fixed = {"bootstrap.servers": self.bootstrap, "enable.auto.commit": False, "check.crcs": True}
        return Consumer({**fixed, "group.id": f"none-{uuid.uuid4()}", **settings})

    def _read(
        self, consumer: Consumer, count: int, seconds: float, at_end: Callable[[], Any] = lambda: None
    ) -> list[Message]:
        deadline, read = Deadline(seconds), list[Message]()
        try:
            while len(read) < count and not deadline.passed:
                for message in consumer.consume(min(count - len(read), 1000), timeout=min(1, deadline.left)):
                    raise_if_failed(message)
                    read.append(translated(message))
            at_end()
            return read
        finally:
            consumer.close()

    def _list_offset(self, topic: str, partition: int, wanted: OffsetSpec) -> int | None:
        answer = only(self._admin.list_offsets({TopicPartition(topic, partition): wanted}))
        return None if answer.offset < 0 else int(answer.offset)


def keep(answers: dict[int, Answer], place: int, error: KafkaError | None, stored: LibraryMessage) -> None:
    answers[place] = (error, stored)


def offset_of(message: LibraryMessage) -> int:
    """-1 where the broker was not asked to answer."""
    offset = message.offset()
    return -1 if offset is None else offset


def present(value: Value | None) -> Value:
    """The library calls these optional; in a message that was stored they are there."""
    assert value is not None
    return value


def offered(producer: Producer, topic: str, partition: int, value: bytes, failed: Callable[..., None]) -> bool:
    try:
        producer.produce(topic, value, partition=partition, on_delivery=failed)
    except BufferError:
        return False
    return True


def translated(message: LibraryMessage) -> Message:
    return Message(
        value=message.value(),
        key=message.key(),
        headers=tuple(cast("list[Header]", message.headers() or [])),
        timestamp_ms=message.timestamp()[1],
        partition=present(message.partition()),
        offset=present(message.offset()),
    )


def refusal(error: KafkaError) -> Refused:
    # librdkafka checks the start offset itself and then reports its own "auto offset reset" error.
    code = 1 if error.code() == KafkaError._AUTO_OFFSET_RESET else error.code()
    return Refused(code, error.str())


def raise_if_failed(message: LibraryMessage) -> None:
    if (error := message.error()) is not None:
        raise refusal(error)


def settled(future: "Future[Any]") -> Any:
    try:
        return future.result(LONG)
    except KafkaException as error:
        raise refusal(error.args[0]) from error


def only(futures: "Mapping[Any, Future[Any]]") -> Any:
    (future,) = futures.values()
    return settled(future)
