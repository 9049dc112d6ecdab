"""A transactional producer in the words of the suite; each client library that has one implements it here."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as Place
from aiokafka.errors import KafkaError as AiokafkaError
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.client import Refused
from tests.waiting import LONG

Answer = TypeVar("Answer")

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, KafkaError._FENCED})


class Transactional(Protocol):
    """Refused, with the code, from every call that the broker or the library refuses."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        """Returns when they are stored."""

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Leave, without an end of what is open."""


class ConfluentTransactional:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_s: float) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0,
                "transaction.timeout.ms": int(timeout_s * 1000), "message.timeout.ms": int(timeout_s * 1000),
                "reconnect.backoff.max.ms": 100, "log_level": 0,
            }
        )  # fmt: skip
        with confluent_refusals():
            self._producer.init_transactions(LONG)

    def begin(self) -> None:
        with confluent_refusals():
            self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        failed: list[KafkaError | None] = []
        with confluent_refusals():
            for value in values:
                self._producer.produce(
                    topic, value, partition=partition, on_delivery=lambda error, _: failed.append(error)
                )
            self._producer.flush(LONG)
        if refused := [error for error in failed if error is not None]:
            raise Refused(refused[0].code(), refused[0].str())

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        rows = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        with confluent_refusals():
            self._producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), LONG)
        consumer.close()

    def commit(self) -> None:
        with confluent_refusals():
            self._producer.commit_transaction(LONG)

    def abort(self) -> None:
        with confluent_refusals():
            self._producer.abort_transaction(LONG)

    def close(self) -> None:
        self._producer.purge()
        del self._producer


@contextmanager
def confluent_refusals() -> Any:
    try:
        yield
    except KafkaException as error:
        raise Refused(error.args[0].code(), error.args[0].str()) from error


class AiokafkaTransactional:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_s: float) -> None:
        self._loop = asyncio.new_event_loop()

        async def started() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id,
                transaction_timeout_ms=int(timeout_s * 1000), retry_backoff_ms=20,
            )  # fmt: skip
            await producer.start()
            return producer

        self._producer = self._run(started())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        async def sent() -> None:
            futures = [await self._producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*futures)

        self._run(sent())

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {Place(topic, partition): offset for partition, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(rows, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        async def left() -> None:
            # Without the end that stop() would ask for: only the connections and the task that sends.
            task = self._producer._sender.sender_task
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await self._producer.client.close()
            self._producer._closed = True

        self._loop.run_until_complete(left())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, LONG))
        except ProducerFenced as error:
            raise Refused(PRODUCER_FENCED, str(error)) from error
        except AiokafkaError as error:
            raise Refused(getattr(error, "errno", -1), str(error)) from error
