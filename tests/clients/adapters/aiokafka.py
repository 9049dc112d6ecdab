"""aiokafka: asyncio. Each call runs a loop of its own, as the suite is not asynchronous."""

import asyncio
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError

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
from tests.clients.transactional import AiokafkaTransactional, Transactional
from tests.waiting import LONG, Deadline

Answer = TypeVar("Answer")


class Aiokafka(Client):
    name = "aiokafka"
    features = frozenset({"receipts", "timestamps", "binary", "static", "refusals"})

    def sendable(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if message.key is not None or message.value is not None]

    def produce(self, topic: str, messages: Sequence[Message], how: Producing = PLAINLY) -> list[Receipt]:
        return run(self._produce(topic, messages, how))

    def fetch(self, topic: str, partition: int, offset: int, count: int, *, seconds: float = 20) -> list[Message]:
        return run(self._fetch(topic, partition, offset, count, seconds))

    def read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        return run(self._read_as_group(topic, group, count))

    def offset_at(self, topic: str, partition: int, place: str | int) -> int | None:
        return run(self._offset_at(TopicPartition(topic, partition), place))

    def topics(self) -> Mapping[str, int]:
        described = self._ask(lambda admin: admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in described}

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, topic_configs=dict(configs or {}))
        check_each(self._ask(lambda admin: admin.create_topics([topic], validate_only=validate_only)).topic_errors)

    def delete_topic(self, name: str) -> None:
        check_each(self._ask(lambda admin: admin.delete_topics([name])).topic_error_codes)

    def create_partitions(self, name: str, total: int) -> None:
        with refusals():
            self._ask(lambda admin: admin.create_partitions({name: NewPartitions(total)}))

    def describe_topic(self, name: str) -> TopicDescription:
        (topic,) = self._ask(lambda admin: admin.describe_topics([name]))
        if topic["error_code"]:
            raise Refused(topic["error_code"])
        partitions = {one["partition"]: one for one in topic["partitions"]}
        return TopicDescription(
            {index: one["leader"] for index, one in partitions.items()},
            {index: list(one["replicas"]) for index, one in partitions.items()},
            {index: list(one["isr"]) for index, one in partitions.items()},
        )

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            return int(self._ask(lambda admin: admin.delete_records({place: RecordsToDelete(before)}))[place])

    def describe_configs(self, topic: str) -> Mapping[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._ask(lambda admin: admin.describe_configs([resource]))
        (described,) = answer.resources
        if described[0]:
            raise Refused(described[0])
        return {entry[0]: entry[1] for entry in described[4]}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        (answer,) = self._ask(lambda admin: admin.alter_configs([resource]))
        ((code, message, *_),) = answer.resources
        if code:
            raise Refused(code, message)

    def describe_cluster(self) -> ClusterDescription:
        cluster = self._ask(lambda admin: admin.describe_cluster())
        nodes = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
        return ClusterDescription(cluster["cluster_id"], cluster["controller_id"], nodes)

    def groups(self) -> Sequence[str]:
        return [group[0] for group in self._ask(lambda admin: admin.list_consumer_groups())]

    def describe_group(self, group: str) -> GroupDescription:
        (answer,) = self._ask(lambda admin: admin.describe_consumer_groups([group]))
        (described,) = answer.to_object()["groups"]
        if described["error_code"]:
            raise Refused(described["error_code"])
        return GroupDescription(described["state"], [assignment_of(member) for member in described["members"]])

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        run(self._commit(group, {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}))

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        found = self._ask(lambda admin: admin.list_consumer_group_offsets(group))
        return {place.partition: one.offset for place, one in found.items() if place.topic == topic and one.offset >= 0}

    def write_numbered(self, topic: str, partitions: int, count: int) -> None:
        run(self._write_numbered(topic, partitions, count))

    def read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        return run(self._read_digests(topic, partitions, count))

    def transactional(self, transactional_id: str, *, timeout_s: float = 60) -> Transactional:
        return AiokafkaTransactional(self.bootstrap, transactional_id, timeout_s)

    def read_to_end(self, topic: str, partition: int, *, committed: bool) -> list[bytes]:
        return run(self._read_to_end(TopicPartition(topic, partition), committed=committed))

    def wait_until_stable(self, topic: str, partition: int) -> None:
        run(self._wait_until_stable(TopicPartition(topic, partition)))

    def member_command(self, membership: Membership) -> list[str]:
        program = [sys.executable, "-m", "tests.clients.members.aiokafka"]
        return [*program, "--bootstrap", self.bootstrap, *membership.arguments()]

    async def _produce(self, topic: str, messages: Sequence[Message], how: Producing) -> list[Receipt]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all" if how.acks == -1 else how.acks,
            compression_type=None if how.compression == "none" else how.compression,
            enable_idempotence=how.idempotent,
            max_request_size=how.bytes_max,
            linger_ms=5,
        )
        await producer.start()
        try:
            with refusals():
                futures = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                stored = await asyncio.wait_for(asyncio.gather(*futures), LONG)
        finally:
            await producer.stop()
        return [Receipt(one.partition, one.offset) for one in stored if one is not None]

    async def _fetch(self, topic: str, partition: int, offset: int, count: int, seconds: float) -> list[Message]:
        consumer = self._consumer(auto_offset_reset="none")
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition)])
        consumer.seek(TopicPartition(topic, partition), offset)
        return await self._read(consumer, count, seconds)

    async def _read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        consumer = self._consumer(topic, group_id=group, auto_offset_reset="earliest", session_timeout_ms=6000)
        await consumer.start()
        return await self._read(consumer, count, 20, commit=True)

    async def _read(
        self, consumer: AIOKafkaConsumer, count: int, seconds: float, *, commit: bool = False
    ) -> list[Message]:
        deadline, read = Deadline(seconds), list[Message]()
        try:
            with refusals():
                while len(read) < count and not deadline.passed:
                    patience_ms = min(1000, int(deadline.left * 1000))
                    polled = await consumer.getmany(timeout_ms=patience_ms, max_records=count - len(read))
                    read += [translated(record) for records in polled.values() for record in records]
                if commit:
                    await consumer.commit()
            return read
        finally:
            await consumer.stop()

    async def _offset_at(self, place: TopicPartition, wanted: str | int) -> int | None:
        consumer = self._consumer()
        await consumer.start()
        try:
            if wanted == EARLIEST:
                return int((await consumer.beginning_offsets([place]))[place])
            if wanted == LATEST:
                return int((await consumer.end_offsets([place]))[place])
            found = (await consumer.offsets_for_times({place: int(wanted)}))[place]
            return None if found is None else int(found.offset)
        finally:
            await consumer.stop()

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        consumer = self._consumer(group_id=group)
        await consumer.start()
        try:
            consumer.assign(list(offsets))
            with refusals():
                await consumer.commit(dict(offsets))
        finally:
            await consumer.stop()

    async def _write_numbered(self, topic: str, partitions: int, count: int) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, linger_ms=5, max_batch_size=200_000, enable_idempotence=True
        )
        await producer.start()
        try:
            futures = [
                await producer.send(topic, value=numbered_value(partition, number), partition=partition)
                for number in range(count)
                for partition in range(partitions)
            ]
            with refusals():
                await asyncio.gather(*futures)
        finally:
            await producer.stop()

    async def _read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        consumer = self._consumer()
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        await consumer.seek_to_beginning()
        values: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        deadline, missing = Deadline(80), count * partitions
        while missing > 0 and not deadline.passed:
            for place, records in (await consumer.getmany(timeout_ms=1000)).items():
                values[place.partition] += [record.value for record in records]
                missing -= len(records)
        await consumer.stop()
        return {partition: digest(row) for partition, row in values.items()}

    async def _read_to_end(self, place: TopicPartition, *, committed: bool) -> list[bytes]:
        consumer = self._consumer(isolation_level="read_committed" if committed else "read_uncommitted")
        await consumer.start()
        try:
            end, found = (await consumer.end_offsets([place]))[place], list[bytes]()
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            while await consumer.position(place) < end:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.value for record in records]
            return found
        finally:
            await consumer.stop()

    async def _wait_until_stable(self, place: TopicPartition) -> None:
        levels = [self._consumer(isolation_level=level) for level in ("read_committed", "read_uncommitted")]
        for consumer in levels:
            await consumer.start()
        try:
            # ASYNC110: what it waits for happens in another process.
            while len({(await consumer.end_offsets([place]))[place] for consumer in levels}) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        finally:
            for consumer in levels:
                await consumer.stop()

    def _consumer(self, *topics: str, **settings: Any) -> AIOKafkaConsumer:
        fixed = {
            "bootstrap_servers": self.bootstrap,
            "enable_auto_commit": False,
            "max_partition_fetch_bytes": 2 * 1024**2,
        }
        return AIOKafkaConsumer(*topics, **fixed, **settings)

    def _ask(self, question: Any) -> Any:
        async def asked() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                return await question(admin)
            finally:
                await admin.close()

        return run(asked())


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(work)


def translated(record: Any) -> Message:
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple((name, value) for name, value in record.headers),
        timestamp_ms=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )


def assignment_of(member: Mapping[str, Any]) -> list[tuple[str, int]]:
    raw = member["member_assignment"]
    if not raw:
        return []
    assignment = ConsumerProtocolMemberAssignment.decode(raw)
    return [(topic, partition) for topic, partitions in assignment.assignment for partition in partitions]


def check_each(answers: Sequence[Sequence[Any]]) -> None:
    for _, code, *_ in answers:
        if code:
            raise Refused(code)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), str(error)) from error
