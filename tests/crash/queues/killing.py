"""Kill a real node and share consumers in the middle of everything, and hold the queue against their lines.

A kill forgets no attempt, so that the number of a delivery says which came first, however long a client kept a message.
"""

import subprocess
import sys
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.log.log import Log
from headwater.log.queues.dead_letters import OFFSET
from tests.crash.killing import DEADLY_CALLS, Process, free_port, strace_works
from tests.crash.load import PATIENCE, Worker
from tests.waiting import LONG, Deadline

NODE, TOPIC, GROUP, DEAD = "tests.crash.node_process", "mail", "mailers", "mail.dead"
KEYS = [b"k%d" % number for number in range(12)]
CONFIGS = {
    "share.auto.offset.reset": "earliest", "share.delivery.count.limit": "6", "headwater.queue.order": "key",
    "errors.deadletterqueue.topic.name": DEAD, "share.record.lock.duration.ms": "600000",
}  # fmt: skip
WORK_PATIENCE_S, DECISIONS_MAX, QUIET_S, BACKLOG_MAX = 20, 60, 5, 1_000


@dataclass
class Lines:
    """What consumers said. Of each message, by its offset."""

    got: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """How often each number of a delivery came."""
    first_s: dict[int, float] = field(default_factory=dict)
    """When it came first."""
    said_s: dict[int, float] = field(default_factory=dict)
    """When somebody first decided that it is done, or can never be."""
    accepted: dict[int, int] = field(default_factory=dict)
    """The delivery of which an accepting answer is durable."""
    released: Counter[int] = field(default_factory=Counter)
    decisions: int = 0


class Consumer:
    """A process; its lines are read as they come."""

    def __init__(self, address: str, seed: int, lines: Lines) -> None:
        command = [sys.executable, "-m", "tests.crash.queues.consumer_process", address, GROUP, TOPIC, str(seed)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._lines, self._kinds, self._last = lines, dict[int, str](), dict[int, int]()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(LONG)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self._note(*line.split())

    def _note(self, word: str, at: str, *rest: str) -> None:
        lines, offset = self._lines, int(at)
        if word == "got":
            lines.got[offset][int(rest[0])] += 1
            self._last[offset] = int(rest[0])
            lines.first_s[offset] = min(lines.first_s.get(offset, float("inf")), float(rest[1]))
        elif word == "say":
            self._kinds[offset] = rest[0]
            lines.released[offset] += rest[0] == "RELEASE"
            if rest[0] != "RELEASE":
                lines.said_s[offset] = min(lines.said_s.get(offset, float("inf")), float(rest[1]))
        else:
            lines.decisions += 1
            if rest[0] == "0" and self._kinds[offset] == "ACCEPT":
                lines.accepted[offset] = self._last[offset]


class Writer(Worker):
    def __init__(self, address: str, lines: Lines) -> None:
        super().__init__("writer")
        self._lines = lines
        self._producer = Producer(PATIENCE | {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1})
        self.confirmed: dict[int, bytes] = {}
        self._random = Random(1)

    def turn(self) -> None:
        key = self._random.choice(KEYS)

        def report(error: KafkaError | None, message: object) -> None:
            if error is None:
                self.confirmed[message.offset()] = key  # type: ignore[attr-defined]

        if len(self._producer) < 50 and len(self.confirmed) - len(self._lines.said_s) < BACKLOG_MAX:
            self._producer.produce(TOPIC, b"v", key, on_delivery=report)
        self._producer.poll(0.005)

    def finish(self) -> None:
        self._producer.flush(LONG)


class Killing:
    def __init__(self, folder: Path, seed: int) -> None:
        self._data, self._random = folder / "data", Random(seed)
        self._port = free_port()
        self._address = f"127.0.0.1:{self._port}"
        self._can_trace, self._still = strace_works(), threading.Event()
        self.lines, self.anomalies = Lines(), list[str]()
        self.node_kills = self.consumer_kills = self.messages = 0

    def run(self, rounds: int) -> None:
        self._prepare()
        writer = Writer(self._address, self.lines)
        consumers = [self._consumer() for _ in range(3)]
        writer.start()
        try:
            for _ in range(rounds):
                self._round(consumers)
            last = Process(NODE, self._data, self._port)
            assert last.ready(), "the node does not start any more; see node.log"
            writer.stop()
            writer.finish()
            self._drain()
        finally:
            writer.stop()
            for consumer in consumers:
                consumer.kill()
        assert last.stop() == 0
        last.close()
        self.anomalies += writer.failures
        self._check(writer.confirmed)

    def _consumer(self) -> Consumer:
        return Consumer(self._address, self._random.randrange(2**31), self.lines)

    def _prepare(self) -> None:
        with Log.open(self._data) as log:
            log.queues.ensure(GROUP, CONFIGS)
        process = Process(NODE, self._data, self._port)
        assert process.ready(), "the node does not start"
        admin = AdminClient({"bootstrap.servers": self._address})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config={"segment.bytes": "60000"})])[TOPIC].result(LONG)
        process.kill()
        process.close()

    def _round(self, consumers: list[Consumer]) -> None:
        call = None
        if self._can_trace and self._random.random() < 0.4:
            call = self._random.choice(DEADLY_CALLS), self._random.randint(1, 60)
        process = Process(NODE, self._data, self._port, deadly_call=call)
        if process.ready():
            wanted = self.lines.decisions + self._random.randint(1, DECISIONS_MAX)
            deadline = Deadline(WORK_PATIENCE_S)
            while process.alive(for_seconds=0.01) and self.lines.decisions < wanted and not deadline.passed:
                if self._random.random() < 0.02:
                    self._replace_one(consumers)
        died = not process.alive()
        if not died:
            process.kill()
        process.close()
        self.node_kills += 1
        if died and call is None:
            self.anomalies.append("the node died by itself; see node.log")

    def _replace_one(self, consumers: list[Consumer]) -> None:
        number = self._random.randrange(len(consumers))
        consumers[number].kill()
        consumers[number] = self._consumer()
        self.consumer_kills += 1

    def _drain(self) -> None:
        """Until nobody is given anything for a while."""
        deadline, before = Deadline(QUIET_S), -1
        while not deadline.passed:
            if self.lines.decisions != before:
                before, deadline = self.lines.decisions, Deadline(QUIET_S)
            self._still.wait(0.1)

    def _check(self, confirmed: dict[int, bytes]) -> None:
        with Log.open(self._data) as log:
            stored = {record.offset: record.key for record in log.read(TOPIC)}
            letters = Counter(int(dict(one.headers)[OFFSET] or b"") for one in log.read(DEAD))
            books = log.queues.get(GROUP).describe()[0]
        self.messages = len(stored)
        lost = confirmed.keys() - stored.keys()
        self.anomalies += [f"lost write: {offset}" for offset in lost]
        self.anomalies += check(self.lines, stored, letters, explained=self.node_kills + self.consumer_kills)
        if books.depth:
            self.anomalies.append(f"left over: {books}")
        totals = books.totals
        if totals.acknowledged + totals.dead != len(stored) or totals.dead != letters.total():
            self.anomalies.append(f"the books say {totals} of {len(stored)} messages and {letters.total()} letters")


def check(lines: Lines, stored: dict[int, bytes | None], letters: Counter[int], *, explained: int) -> list[str]:
    """What is wrong with what consumers were given."""
    found = []
    for offset, counts in lines.got.items():
        found += [f"message {offset} was delivered {times} times as number {number}" for number, times in counts.items()
                  if times > 1]  # fmt: skip
        if offset in lines.accepted and max(counts) > lines.accepted[offset]:
            found.append(f"delivered again: message {offset}, number {max(counts)}, after {lines.accepted[offset]}")
        if max(counts) > 1 + lines.released[offset] + explained:
            found.append(f"message {offset} was delivered {max(counts)} times without a reason")
    for offset, times in letters.items():
        if times > 1 or offset in lines.accepted:
            found.append(f"message {offset} was put aside {times} times, accepted: {offset in lines.accepted}")
    done = lines.said_s.keys() | letters.keys()
    found += [f"lost: message {offset}" for offset in stored if offset not in done]
    return found + order_of(lines, stored, letters)


def order_of(lines: Lines, stored: dict[int, bytes | None], letters: Counter[int]) -> list[str]:
    """Messages of a key that came before somebody had decided about the one before."""
    found, before = [], dict[bytes | None, int]()
    for offset, key in sorted(stored.items()):
        previous = before.get(key)
        known = previous is not None and previous not in letters and offset in lines.first_s
        if known and lines.first_s[offset] < lines.said_s.get(previous or 0, float("inf")):
            found.append(f"order: message {offset} came before {previous} of the same key was done")
        before[key] = offset
    return found
