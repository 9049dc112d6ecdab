"""Kill a real node under transactional producers, again and again, and hold what readers find against their history.

The producers are librdkafka's and outlive the node; now and then one is replaced in the middle of a transaction by
another with the same transactional id, and tries to commit all the same.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.record import Record
from headwater.record import TopicPartition as Place
from tests.clients.adapters.confluent import Confluent
from tests.crash.killing import DEADLY_CALLS, Outcome, Process, free_port, strace_works
from tests.crash.load import PATIENCE, Worker
from tests.crash.transactions.history import Fate, Found, History, Sent, Transaction, check
from tests.waiting import LONG, Deadline

NODE = "tests.crash.node_process"
PLACES = [Place("list", 0), Place("list", 1), Place("other", 0)]
WORK_PATIENCE_S = 30
ENDS_MAX = 12
CALL_SECONDS = 5


class Books:
    """The history, written by several threads."""

    def __init__(self) -> None:
        self.lock, self.history, self.values, self.ends = threading.Lock(), History(), 0, 0

    def begin(self, name: str) -> Transaction:
        with self.lock:
            return self.history.begin(name)

    def number(self) -> int:
        with self.lock:
            self.values += 1
            return self.values


class Writer(Worker):
    def __init__(self, name: str, address: str, books: Books, seed: int) -> None:
        super().__init__(name)
        self._address, self._books, self._random = address, books, Random(seed)
        self.producer: Producer | None = None
        self._turns = 0

    def turn(self) -> None:
        self._turns += 1
        if self.producer is None:
            self.producer = self._registered()
            if self.producer is None:
                return
        transaction = self._books.begin(self.name)
        try:
            self.producer.begin_transaction()
            for _ in range(self._random.randint(1, 4)):
                self._send(transaction)
            if self._random.random() < 0.5:
                self._commit_offset(transaction)
            if self._random.random() < 0.1:
                self._be_replaced(transaction)
                return
            commit = self._random.random() < 0.7
            transaction.fate = Fate.COMMITTING if commit else Fate.ABORTING
            call = self.producer.commit_transaction if commit else self.producer.abort_transaction
            self._until_answered(call)
            self.producer.poll(0)
            transaction.fate = Fate.COMMITTED if commit else Fate.ABORTED
            self._books.ends += 1
        except KafkaException as error:
            self._recover(error, transaction)

    def _registered(self) -> Producer | None:
        producer = Producer(
            PATIENCE
            | {
                "bootstrap.servers": self._address, "transactional.id": self.name, "linger.ms": 1,
                "transaction.timeout.ms": 60_000, "message.timeout.ms": 60_000,
            }
        )  # fmt: skip
        try:
            self._until_answered(producer.init_transactions)
        except KafkaException:
            return None
        return producer

    def _until_answered(self, call: Callable[[float], Any]) -> None:
        while True:
            try:
                call(CALL_SECONDS)
                return
            except KafkaException as error:
                # Also while the run ends: a last node is there to answer.
                if not error.args[0].retriable():
                    raise

    def _send(self, transaction: Transaction) -> None:
        assert self.producer is not None
        place, number = self._random.choice(PLACES), self._books.number()
        value = b"%d%s" % (number, b"." * self._random.choice((1, 30, 300)))
        sent = Sent(place, ((None, value),), 0)

        def report(error: KafkaError | None, message: object) -> None:
            sent.withdrawn = error is not None

        with self._books.lock:
            transaction.sent.append(sent)
        self.producer.produce(place.topic, value, partition=place.partition, on_delivery=report)

    def _commit_offset(self, transaction: Transaction) -> None:
        assert self.producer is not None
        offset = self._books.number()
        with self._books.lock:
            self._books.history.write_offset(transaction, (self.name, PLACES[0]), offset)
        consumer = Consumer(PATIENCE | {"bootstrap.servers": self._address, "group.id": self.name})
        metadata, rows = consumer.consumer_group_metadata(), [TopicPartition(*PLACES[0], offset)]
        send = self.producer.send_offsets_to_transaction
        try:
            self._until_answered(lambda seconds: send(rows, metadata, seconds))
        finally:
            consumer.close()

    def _be_replaced(self, transaction: Transaction) -> None:
        zombie, self.producer = self.producer, None
        assert zombie is not None
        self._until_answered(lambda seconds: self._flushed(zombie, seconds))
        while (self_producer := self._registered()) is None:
            pass
        self.producer, transaction.fate = self_producer, Fate.ABORTED
        with suppress(KafkaException):
            self._until_answered(zombie.commit_transaction)
            self.failures.append(f"zombie: {transaction.name} was committed by one that was replaced")
        zombie.purge()

    def _flushed(self, producer: Producer, seconds: float) -> None:
        producer.flush(seconds)

    def _recover(self, error: KafkaException, transaction: Transaction) -> None:
        """Whether it was committed is not known, if that was asked for; else it is not."""
        if self.producer is not None:
            if error.args[0].txn_requires_abort():
                with suppress(KafkaException):
                    self._until_answered(self.producer.abort_transaction)
                    transaction.fate = Fate.ABORTED
                    return
            self.producer.purge()
            self.producer = None
        if transaction.fate is Fate.OPEN:
            transaction.fate = Fate.ABORTING


class Killing:
    def __init__(self, folder: Path, seed: int) -> None:
        self._data, self._random = folder / "data", Random(seed)
        self._port = free_port()
        self._address = f"127.0.0.1:{self._port}"
        self._can_trace = strace_works()
        self.books, self.outcome = Books(), Outcome()

    def run(self, rounds: int) -> Outcome:
        self._create_topics()
        writers = [Writer(f"w{number}", self._address, self.books, number) for number in range(3)]
        for writer in writers:
            writer.start()
        try:
            for _ in range(rounds):
                self._round()
            last = Process(NODE, self._data, self._port)
            assert last.ready(), "the node does not start any more; see node.log"
            self._work(last, self.books.ends + ENDS_MAX)
        finally:
            for writer in writers:
                writer.stop()
        for writer in writers:
            self.outcome.anomalies += writer.failures
            writer.name, writer.producer = writer.name, writer._registered()  # ends what is open
        self.outcome.anomalies += check(self.books.history, self._found(writers))
        self.outcome.acknowledged = self.books.ends
        if last.stop() != 0:
            self.outcome.anomalies.append("the node did not stop cleanly")
        last.close()
        return self.outcome

    def _create_topics(self) -> None:
        process = Process(NODE, self._data, self._port)
        assert process.ready(), "the node does not start"
        admin = AdminClient({"bootstrap.servers": self._address})
        configs = {"segment.bytes": "20000"}
        wanted = [NewTopic("list", 2, 1, config=configs), NewTopic("other", 1, 1, config=configs)]
        for created in admin.create_topics(wanted).values():
            created.result(LONG)
        process.kill()
        process.close()

    def _round(self) -> None:
        call = None
        if self._can_trace and self._random.random() < 0.5:
            call = self._random.choice(DEADLY_CALLS), self._random.randint(1, 40)
        process = Process(NODE, self._data, self._port, deadly_call=call)
        ready = process.ready()
        if ready:
            self._work(process, self.books.ends + self._random.randint(1, ENDS_MAX))
        died = not process.alive()
        if not died:
            process.kill()
        process.close()
        self.outcome.rounds += 1
        self.outcome.kills_at_calls += died
        self.outcome.kills_while_starting += not ready
        if died and call is None:
            self.outcome.anomalies.append(f"round {self.outcome.rounds}: the node died by itself; see node.log")

    def _work(self, process: Process, ends: int) -> None:
        deadline = Deadline(WORK_PATIENCE_S)
        while process.alive(for_seconds=0.005) and self.books.ends < ends and not deadline.passed:
            pass

    def _found(self, writers: list[Writer]) -> Found:
        client = Confluent(self._address)
        records = {
            place: [
                Record(value, offset=offset)
                for offset, value in enumerate(client.read_to_end(*place, committed=True))
            ]
            for place in PLACES
        }  # fmt: skip
        offsets = {
            (writer.name, PLACES[0]): offset
            for writer in writers for number, offset in client.committed(writer.name, "list").items() if number == 0
        }  # fmt: skip
        client.close()
        return Found(records, dict.fromkeys(PLACES, 0), dict.fromkeys(PLACES, 2**62), offsets)
