"""Real clients that continue through every death of the node, and write down what they saw.

They live in the process that kills, so that a producer's retries and a consumer's position outlast the node.
"""

import threading
from collections import defaultdict
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from headwater import record
from tests.crash.history import FINAL, HistoryFile
from tests.waiting import LONG, Deadline

TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (2, {"segment.bytes": "60000", "index.interval.bytes": "500", "segment.ms": "1500"}),
    "ring": (1, {"segment.bytes": "20000", "retention.bytes": "100000"}),
    "table": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "15000",
            "min.cleanable.dirty.ratio": "0.01",
            "index.interval.bytes": "500",
        },
    ),
}
PARTITIONS = [record.TopicPartition(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
COMPACTED = ("table",)
GROUP = "readers"
UNANSWERED_MAX = 200
PATIENCE = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "allow.auto.create.topics": False,
    # There is one broker, and it comes back where it was: no reason to look for others.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class Worker:
    """A thread that repeats `turn` until it is stopped; what it raises is found in `failures`."""

    def __init__(self, name: str) -> None:
        self.name, self.failures = name, list[str]()
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.turn()
        except Exception as error:
            self.failures.append(f"{self.name}: {error!r}")

    def turn(self) -> None:
        raise NotImplementedError


class Sender(Worker):
    """An idempotent producer with five requests under way."""

    def __init__(self, name: str, address: str, history: HistoryFile, seed: int) -> None:
        super().__init__(name)
        self._history, self._random = history, Random(seed)
        self._sent = self.answered = 0
        self._producer = Producer(
            PATIENCE
            | {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 5,
                "message.timeout.ms": 300_000,
                "batch.size": 4_000,
                "linger.ms": 2,
                "compression.type": self._random.choice(["none", "lz4", "zstd"]),
                "error_cb": self._note_error,
            }
        )

    def turn(self) -> None:
        if self._sent - self.answered < UNANSWERED_MAX:
            for _ in range(self._random.randint(1, 10)):
                self._send()
        self._producer.poll(0.005)
        self.stopping.wait(0.015)

    def _send(self) -> None:
        partition = self._random.choice(PARTITIONS)
        self._sent += 1
        id = self._sent
        value, key = f"{self.name}-{id}", f"k{self._random.randrange(30)}"
        self._history.note("invoke", "send", process=self.name, id=id, partition=partition, value=value, key=key)
        self._producer.produce(
            partition.topic, (value + "." * self._random.choice((0, 0, 50, 300))).encode(), key.encode(),
            partition=partition.partition, on_delivery=lambda error, message: self._answer(id, error, message),
        )  # fmt: skip

    def _answer(self, id: int, error: KafkaError | None, message: Message) -> None:
        self.answered += 1
        if error is None:
            self._history.note("ok", "send", process=self.name, id=id, offset=message.offset())
        else:
            # It may have arrived all the same; the client cannot know.
            self._history.note("info", "send", process=self.name, id=id, why=str(error))

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"{self.name}: fatal: {error}")

    def finish(self, timeout: float) -> None:
        """Wait until every send has its answer."""
        left = self._producer.flush(timeout)
        if left:
            self.failures.append(f"{self.name}: {left} sends have no answer after {timeout} s")


class Reader(Worker):
    """A consumer of given partitions, from the beginning; it commits how far it came, and asks what is committed."""

    def __init__(self, name: str, address: str, history: HistoryFile, partitions: list[record.TopicPartition]) -> None:
        super().__init__(name)
        self._history, self._partitions = history, partitions
        self._group = f"{GROUP}-{name}"
        self._consumer = Consumer(
            PATIENCE
            | {
                "bootstrap.servers": address,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in partitions])
        self._positions: dict[record.TopicPartition, int] = {}
        self._turns = 0

    def turn(self) -> None:
        messages = self._consumer.consume(500, timeout=0.05)
        note_polled(self._history, self.name, messages)
        for message in messages:
            if message.error() is None:
                self._positions[place_of(message)] = _offset(message) + 1
        self._turns += 1
        if self._turns % 5 == 0 and self._positions:
            self._commit()
            self.ask(timeout=0.5)

    def _commit(self) -> None:
        """Commit, and ask what is committed. Neither is certain while the node is dying."""
        positions = [TopicPartition(*partition, offset) for partition, offset in self._positions.items()]
        try:
            committed = self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException:
            for partition, offset in self._positions.items():
                self._history.note("info", "commit", group=self._group, partition=partition, offset=offset)
            return
        for position in committed:
            partition = record.TopicPartition(position.topic, position.partition)
            kind = "info" if position.error else "ok"
            self._history.note(kind, "commit", group=self._group, partition=partition, offset=position.offset)

    def ask(self, timeout: float) -> None:
        """What the node says is committed; it may be another one by now."""
        wanted = [TopicPartition(*partition) for partition in self._partitions]
        try:
            answers = self._consumer.committed(wanted, timeout=timeout)
        except KafkaException:
            return
        for answer in answers:
            if answer.error is None and answer.offset >= 0:
                partition = record.TopicPartition(answer.topic, answer.partition)
                self._history.note("ok", "fetched", group=self._group, partition=partition, offset=answer.offset)

    def close(self) -> None:
        self._consumer.close()


def drain(address: str, history: HistoryFile, *, patience_s: float) -> list[str]:
    """Read every partition from its start to its end: what is there when all is over."""
    settings = PATIENCE | {"bootstrap.servers": address, "group.id": FINAL, "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True, "auto.offset.reset": "error"})
    for partition in PARTITIONS:
        start, _ = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=LONG)
        history.note("ok", "start", partition=partition, offset=start)
    consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in PARTITIONS])
    ended: set[record.TopicPartition] = set()
    deadline = Deadline(patience_s)
    while len(ended) < len(PARTITIONS) and not deadline.passed:
        messages = consumer.consume(1000, timeout=0.1)
        note_polled(history, FINAL, messages)
        ended |= {place_of(message) for message in messages if _at_end(message)}
    consumer.close()
    missing = sorted(set(PARTITIONS) - ended)
    return [f"the end of {missing} was not reached, and nothing went on for {patience_s} s"] if missing else []


def note_polled(history: HistoryFile, consumer: str, messages: list[Message]) -> None:
    records: dict[record.TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for message in messages:
        if message.error() is None:
            value = message.value() or b""
            records[place_of(message)].append((_offset(message), value.decode().rstrip(".")))
    for partition, found in records.items():
        history.note("ok", "poll", process=consumer, partition=partition, records=found)


def place_of(message: Message) -> record.TopicPartition:
    return record.TopicPartition(message.topic() or "", message.partition() or 0)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _at_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF
