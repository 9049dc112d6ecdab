"""A seeded life of a queue on a simulated disk: producers, two consumers that come and go, locks that end, restarts."""

from collections import Counter
from collections.abc import Callable
from random import Random

from headwater.clock import Clock, ManualClock
from headwater.errors import NotAcquired
from headwater.log.log import Log
from headwater.log.queues.consumer import Message, QueueConsumer
from headwater.log.queues.dead_letters import OFFSET
from headwater.log.queues.journal import TOPIC as STATE
from headwater.log.queues.states import Event
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.record import Record
from headwater.settings import LogSettings
from tests.crash.queues.books import Books, Fate

SETTINGS = LogSettings(queues_partitions=1, offsets_partitions=1, unflushed_bytes_max=3_000)
QUEUE, DEAD = "mail", "mail.dead"
LOCK_MS, ATTEMPTS = 10_000, 3
KEYS = (b"a", b"b", b"c", None)


def open_log(disk: SimulatedDisk, clock: Clock | None = None) -> Log:
    return Log.open("simulated", storage=disk, clock=clock or disk.clock, settings=SETTINGS)


class Working:
    """What consumers do, and what of it the books know. Used by the workload, and to go on after an accident."""

    def __init__(self, log: Log, books: Books, random: Random, *, exact: bool = True) -> None:
        self.log, self.books, self.random, self.exact = log, books, random, exact
        self.anomalies: list[str] = []
        self.consumers = [self._consumer(), self._consumer()]
        self.held: list[list[Message]] = [[], []]

    def _consumer(self) -> QueueConsumer:
        order = "key" if self.books.ordered else "none"
        return self.log.queue(QUEUE, lock=f"{LOCK_MS} ms", attempts=ATTEMPTS, order=order)

    def append(self) -> None:
        rows = [Record(b"v", self.random.choice(KEYS)) for _ in range(self.random.randint(1, 4))]
        last = self.log.append(QUEUE, rows, partition=0).offset
        for offset, row in enumerate(rows, last - len(rows) + 1):
            self.books.entry(offset, row.key)

    def take(self) -> None:
        number = self.random.randrange(2)
        self.books.taking += 1
        found = self.consumers[number].take(self.random.randint(1, 4))
        for message in found:
            held = [one.offset for messages in self.held for one in messages]
            record, deliveries = message.record, message.deliveries
            self.anomalies += self.books.deliver(record, deliveries, held, exact=self.exact)
            self.held[number].append(message)
        self.books.taking -= 1

    def acknowledge(self) -> None:
        self._decide(Event.ACCEPT, Fate.ACKING, Fate.ACKED)

    def reject(self) -> None:
        self._decide(Event.REJECT, Fate.REJECTING, Fate.REJECTED)

    def release(self) -> None:
        self._decide(Event.RELEASE, Fate.OPEN, Fate.OPEN)

    def renew(self) -> None:
        self._decide(Event.RENEW, Fate.OPEN, Fate.OPEN)

    def _decide(self, event: Event, asked: Fate, answered: Fate) -> None:
        number = self.random.randrange(2)
        held = self.held[number]
        chosen = self.random.sample(held, min(len(held), self.random.randint(1, 3)))
        entries = [self.books.entries[one.offset] for one in chosen]
        for entry in entries:
            entry.fate = asked
        if event is not Event.RENEW:
            self.held[number] = [one for one in held if one not in chosen]
        try:
            self.consumers[number].decide(chosen, event, error="no")
        except NotAcquired as error:
            self.anomalies.append(f"a lock ended early: {error}")
        for entry in entries:
            entry.fate = answered

    def leave(self) -> None:
        number = self.random.randrange(2)
        self.held[number] = []
        self.consumers[number].close()
        self.consumers[number] = self._consumer()

    def let_locks_end(self) -> None:
        clock = self.log.clock
        assert isinstance(clock, ManualClock)
        clock.advance(LOCK_MS)
        late = [(number, one) for number, messages in enumerate(self.held) for one in messages]
        self.held = [[], []]
        for number, message in self.random.sample(late, min(len(late), 1)):
            try:
                self.consumers[number].ack([message])
                self.anomalies.append(f"message {message.offset} was acknowledged after its lock had ended")
            except NotAcquired:
                continue

    def look_after(self) -> None:
        clock = self.log.clock
        assert isinstance(clock, ManualClock)
        clock.advance(100)
        self.log.partition(STATE, 0).roll()
        self.log.maintain()
        self.let_locks_end()

    def drain(self) -> list[str]:
        """Process everything that is left; returns all that is wrong with the queue."""
        self.let_locks_end()
        while not self.anomalies:
            self.take()
            if not any(self.held):
                break
            for number, messages in enumerate(self.held):
                self.consumers[number].ack(messages)
                for message in messages:
                    self.books.entries[message.offset].fate = Fate.ACKED
            self.held = [[], []]
        queue = self.log.queues.get(QUEUE).describe()[0]
        letters = Counter[int]()
        if DEAD in {topic.name for topic in self.log.topics()}:
            letters = Counter(int(dict(one.headers)[OFFSET] or b"") for one in self.log.read(DEAD))
        stored = {record.offset: record for record in self.log.read(QUEUE)}
        ended = self.books.end(letters, stored, queue.totals.acknowledged, queue.totals.dead)
        left = [f"left over: {queue}"] if queue.depth else []
        return [*self.anomalies, *ended, *left]


class Workload:
    def __init__(self, disk: SimulatedDisk, seed: int, *, ordered: bool) -> None:
        self._disk, self._random = disk, Random(seed)
        self.before_call: Callable[[Call], None] = lambda call: None
        self.books = Books(ATTEMPTS, ordered)
        self.working: Working | None = None
        self.step_name = ""
        self.anomalies: list[str] = []

    def run(self, steps: int) -> None:
        self._disk.on_call = lambda call: self.before_call(call)
        self.step_name = "open"
        log = open_log(self._disk)
        log.create_topic(QUEUE, configs={"segment.bytes": "1500"})
        self.working = Working(log, self.books, self._random)
        for _ in range(steps):
            working = self.working
            choices = (
                working.append, working.append, working.append, working.take, working.take, working.take,
                working.acknowledge, working.acknowledge, working.acknowledge, working.release, working.reject,
                working.renew, working.leave, working.let_locks_end, working.look_after, self.reopen,
            )  # fmt: skip
            step = self._random.choice(choices)
            self.step_name = step.__name__
            step()
        self.anomalies += self.working.anomalies
        self._disk.on_call = None

    def reopen(self) -> None:
        assert self.working is not None
        self.anomalies += self.working.anomalies
        self.working.held = [[], []]
        self.working.log.close()
        self.working = Working(open_log(self._disk), self.books, self._random)
