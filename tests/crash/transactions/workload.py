"""A seeded life of a log with transactions: producers of both versions, zombies, time-outs, group offsets, restarts.

It stands where the Kafka port stands, one layer above the coordinator. `history` is what producers know at any moment,
also in the middle of a call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from headwater.clock import ManualClock
from headwater.errors import ConflictError, HeadwaterError
from headwater.log.appended import Appended
from headwater.log.batch_format import TRANSACTIONAL_FLAG, encode_batch, flagged
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.log.transactions.lifecycle import State
from headwater.log.transactions.transaction import NEWER_CLIENTS, ProducerIdentity
from headwater.record import Record, TopicPartition
from headwater.settings import LogSettings
from tests.crash.transactions.history import Committed, Fate, Found, History, Sent, Transaction, check

SETTINGS = LogSettings(
    offsets_partitions=1, transactions_partitions=1, unflushed_bytes_max=3_000, producer_expiry=timedelta(days=1),
    compaction_memory_bytes=4096,
)  # fmt: skip
TIMEOUT_MS = 25_000
TABLE = "table"
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "list": (2, {"segment.bytes": "900", "index.interval.bytes": "100"}),
    "ring": (1, {"segment.bytes": "700", "retention.bytes": "2500"}),
    TABLE: (
        1,
        {
            "cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "3000", "index.interval.bytes": "0",
        },
    ),
}  # fmt: skip
PLACES = [TopicPartition(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
KEYS = [b"k%d" % number for number in range(4)]
GROUP = "readers"


def open_log(disk: SimulatedDisk) -> Log:
    return Log.open("simulated", storage=disk, clock=disk.clock, settings=SETTINGS)


def look(log: Log) -> Found:
    """What readers of committed records find now."""
    committed = log.group_offsets.fetch(GROUP)
    return Found(
        {place: list(log.read(*place)) for place in PLACES},
        {place: log.partition(*place).start_offset for place in PLACES},
        {place: log.partition(*place).last_stable_offset for place in PLACES},
        {(GROUP, place): one.offset for place, one in committed.items()},
    )


@dataclass(eq=False)
class Client:
    """A producer with a transactional id, and those that had the id before it."""

    name: str
    version: int
    identity: ProducerIdentity | None = None
    transaction: Transaction | None = None
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    zombies: list[ProducerIdentity] = field(default_factory=list)
    waits_for_answers: bool = False
    """It has had an answer to every batch before it asks for the end, and so may ask again."""

    def replaced(self) -> None:
        if self.identity is not None:
            self.zombies.append(self.identity)
        self.identity, self.transaction, self.sequences = None, None, {}


class Producing:
    """What producers do, and what of it the history knows. Used by the workload, and to go on after an accident."""

    def __init__(self, log: Log, history: History, clients: list[Client], random: Random, values: int = 0) -> None:
        self.log, self.history, self.clients, self.random, self.values = log, history, clients, random, values
        self.anomalies: list[str] = []

    def register(self, client: Client) -> None:
        if client.transaction is not None and client.transaction.fate is Fate.OPEN:
            client.transaction.fate = Fate.ABORTING
        client.waits_for_answers = False
        client.replaced()
        client.identity = self.log.transactions.register(client.name, timeout_ms=TIMEOUT_MS)
        for transaction in self.history.transactions:
            if transaction.fate is Fate.ABORTING and transaction.name.startswith(client.name):
                transaction.fate = Fate.ABORTED
        if client.identity in client.zombies:
            self.anomalies.append(f"epoch not bumped: {client.name} is {client.identity} again")

    def append(self, client: Client, place: TopicPartition) -> None:
        assert client.identity is not None
        if client.transaction is None:
            client.transaction = self.history.begin(client.name, elapsed_ms=self.log.clock.elapsed_ms())
        sequence = client.sequences.get(place, 0)
        sent = Sent(place, self._rows(place), self.log.clock.now_ms(), client.identity, sequence)
        client.transaction.sent.append(sent)
        client.sequences[place] = sequence + len(sent.rows)
        self.log.transactions.add(client.name, client.identity, {place}, version=client.version)
        self.send(client, sent)

    def send(self, client: Client, sent: Sent) -> None:
        """Also a second time, if the answer to the first was lost."""
        assert sent.producer is not None
        with self.log.transactions.appending(client.name, sent.producer, sent.place):
            sent.offset = self.log.partition(*sent.place).append(encoded(sent), durable=True).base_offset

    def wait_for_answers(self, client: Client) -> None:
        for sent in client.transaction.sent if client.transaction else ():
            self.log.partition(*sent.place).make_durable(sent.offsets.stop)
            sent.durable = True

    def commit_offset(self, client: Client, place: TopicPartition) -> None:
        assert client.identity is not None
        self.values += 1
        if client.transaction is None:
            client.transaction = self.history.begin(client.name, elapsed_ms=self.log.clock.elapsed_ms())
        self.history.write_offset(client.transaction, (GROUP, place), self.values)
        offsets = {place: CommittedOffset(self.values)}
        if client.version < NEWER_CLIENTS:
            where = {self.log.group_offsets.place_of(GROUP)}
            self.log.transactions.add(client.name, client.identity, where, version=client.version)
        self.log.transactions.commit_offsets(client.name, client.identity, GROUP, offsets, version=client.version)

    def send_again(self, client: Client) -> None:
        """All that was perhaps not answered, in its order, and first what makes it part of the transaction."""
        assert client.transaction is not None
        assert client.identity is not None
        add, where = self.log.transactions.add, self.log.group_offsets.place_of(GROUP)
        for sent in client.transaction.sent:
            if not sent.durable:
                add(client.name, client.identity, {sent.place}, version=client.version)
                self.send(client, sent)
        for (group, place), writes in list(self.history.offsets.items()):
            for offset in [offset for transaction, offset in writes if transaction is client.transaction]:
                add(client.name, client.identity, {where}, version=client.version)
                self.history.write_offset(client.transaction, (group, place), offset)
                offsets = {place: CommittedOffset(offset)}
                self.log.transactions.commit_offsets(
                    client.name, client.identity, group, offsets, version=client.version
                )

    def end(self, client: Client, *, commit: bool) -> None:
        assert client.identity is not None
        assert client.transaction is not None
        client.waits_for_answers = self.random.random() < 0.5
        if client.waits_for_answers:
            self.wait_for_answers(client)
        client.transaction.fate = Fate.COMMITTING if commit else Fate.ABORTING
        self.ask_for_end(client, commit=commit)

    def ask_for_end(self, client: Client, *, commit: bool) -> None:
        assert client.identity is not None
        assert client.transaction is not None
        following = self.log.transactions.end(client.name, client.identity, commit=commit, version=client.version)
        client.transaction.fate = Fate.COMMITTED if commit else Fate.ABORTED
        if client.version >= NEWER_CLIENTS:
            client.sequences = {}
            if following == client.identity:
                self.anomalies.append(f"epoch not bumped: {client.name} goes on as {following}")
        client.identity, client.transaction = following, None

    def try_as_zombie(self, client: Client, zombie: ProducerIdentity) -> None:
        """One that was replaced wakes up, and must be refused in everything."""
        place = self.random.choice(PLACES)
        mistake = self.history.begin(client.name, fate=Fate.ABORTED)
        sent = Sent(place, self._rows(place), self.log.clock.now_ms(), zombie, 0)
        mistake.sent.append(sent)
        for attempt in (
            lambda: self.log.transactions.add(client.name, zombie, {place}, version=client.version),
            lambda: self.send(client, sent),
            lambda: self.log.transactions.end(client.name, zombie, commit=True, version=client.version),
        ):
            try:
                attempt()
            except ConflictError:
                continue
            self.anomalies.append(f"zombie: {client.name} was served as {zombie}, and is {client.identity}")

    def append_plainly(self, place: TopicPartition) -> None:
        alone = self.history.begin("plain", fate=Fate.COMMITTING)
        sent = Sent(place, self._rows(place), self.log.clock.now_ms())
        alone.sent.append(sent)
        appended: Appended = self.log.partition(*place).append(encoded(sent), durable=True)
        sent.offset = appended.base_offset
        self.log.partition(*place).make_durable(appended.last_offset + 1)
        alone.fate = Fate.COMMITTED

    def commit_plainly(self, place: TopicPartition) -> None:
        self.values += 1
        alone = self.history.begin("plain", fate=Fate.COMMITTING)
        self.history.write_offset(alone, (GROUP, place), self.values)
        self.log.group_offsets.commit(GROUP, {place: CommittedOffset(self.values)})
        alone.fate = Fate.COMMITTED

    def look_after(self, upkeep: Callable[[], None] | None = None) -> None:
        """What takes too long is aborted."""
        late = [
            client for client in self.clients
            if client.transaction is not None
            and self.log.clock.elapsed_ms() - client.transaction.begun_elapsed_ms > TIMEOUT_MS
        ]  # fmt: skip
        for client in late:
            assert client.transaction is not None
            client.transaction.fate, client.waits_for_answers = Fate.ABORTING, False
        (upkeep or self.log.transactions.look_after)()
        for client in late:
            assert client.transaction is not None
            client.transaction.fate = Fate.ABORTED
            client.replaced()
        for client in self.clients:
            if client.transaction and self.log.transactions.describe(client.name).state is not State.ONGOING:
                self.anomalies.append(f"{client.transaction.name} was ended before its time")

    def _rows(self, place: TopicPartition) -> tuple[tuple[bytes | None, bytes], ...]:
        rows = []
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self.values += 1
            key = self.random.choice(KEYS) if place.topic == TABLE else None
            rows.append((key, b"%d%s" % (self.values, b"." * self.random.choice((1, 20, 150)))))
        return tuple(rows)


def encoded(sent: Sent) -> bytearray:
    records = [
        Record(value, key, timestamp_ms=sent.timestamp_ms + index) for index, (key, value) in enumerate(sent.rows)
    ]
    if sent.producer is None:
        return encode_batch(records)
    batch = encode_batch(
        records, producer_id=sent.producer.id, producer_epoch=sent.producer.epoch, base_sequence=sent.sequence
    )
    return flagged(batch, TRANSACTIONAL_FLAG)


class Workload:
    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        assert isinstance(disk.clock, ManualClock)
        self.disk, self.clock, self.random = disk, disk.clock, Random(seed)
        self.before_call: Callable[[Call], None] = lambda call: None
        self.step_name = "open"
        self.producing: Producing | None = None
        self.anomalies: list[str] = []
        disk.on_call = lambda call: self.before_call(call)

    def run(self, steps: int) -> None:
        log = open_log(self.disk)
        for topic, (partitions, configs) in TOPICS.items():
            log.create_topic(topic, partitions=partitions, configs=configs)
        clients = [Client(f"id{number}", NEWER_CLIENTS if number % 2 else 0) for number in range(3)]
        history = History(compacted=frozenset({TABLE}))
        self.producing = Producing(log, history, clients, self.random)
        for _ in range(steps):
            [self.step_name] = self.random.choices([name for name, _ in _WEIGHTS], [often for _, often in _WEIGHTS])
            try:
                getattr(self, f"_{self.step_name}")(self.producing)
            except HeadwaterError as error:
                self.anomalies.append(f"{self.step_name} was refused: {error!r}")
                break
        self.anomalies += self.producing.anomalies
        self.producing.log.close()

    def _register(self, producing: Producing) -> None:
        producing.register(self.random.choice(producing.clients))

    def _client(self, producing: Producing) -> Client:
        client = self.random.choice(producing.clients)
        if client.identity is None:
            producing.register(client)
        return client

    def _append(self, producing: Producing) -> None:
        client = self._client(producing)
        for place in self.random.sample(PLACES, self.random.randint(1, 3)):
            producing.append(client, place)

    def _append_again(self, producing: Producing) -> None:
        """The answer to the last batch was lost."""
        client = self._client(producing)
        if client.transaction is None or not client.transaction.sent:
            return
        sent = client.transaction.sent[-1]
        before = sent.offset
        producing.send(client, sent)
        if sent.offset != before:
            self.anomalies.append(f"duplicate: {sent} was stored at {before} before")

    def _commit_offset(self, producing: Producing) -> None:
        producing.commit_offset(self._client(producing), self.random.choice(PLACES))

    def _commit(self, producing: Producing) -> None:
        client = self._client(producing)
        if client.transaction is not None:
            producing.end(client, commit=True)

    def _abort(self, producing: Producing) -> None:
        client = self._client(producing)
        if client.transaction is not None:
            producing.end(client, commit=False)

    def _zombie(self, producing: Producing) -> None:
        client = self.random.choice(producing.clients)
        if client.zombies and client.identity is not None:
            producing.try_as_zombie(client, self.random.choice(client.zombies[-2:]))

    def _append_plainly(self, producing: Producing) -> None:
        producing.append_plainly(self.random.choice(PLACES))

    def _commit_plainly(self, producing: Producing) -> None:
        producing.commit_plainly(self.random.choice(PLACES))

    def _pass_time(self, producing: Producing) -> None:
        self.clock.advance(self.random.randint(1, 9_000))

    def _look_after(self, producing: Producing) -> None:
        producing.look_after()

    def _maintain(self, producing: Producing) -> None:
        producing.look_after(producing.log.maintain)

    def _read(self, producing: Producing) -> None:
        self.anomalies += check(producing.history, look(producing.log))

    def _reopen(self, producing: Producing) -> None:
        producing.log.close()
        self.disk.close()
        producing.log = open_log(self.disk)
        began_again(producing)


def began_again(producing: Producing) -> None:
    """A restart gives transactions their whole time once more."""
    for client in producing.clients:
        if client.transaction is not None:
            client.transaction.begun_elapsed_ms = producing.log.clock.elapsed_ms()


_WEIGHTS = [
    ("append", 30), ("commit", 18), ("abort", 8), ("register", 4), ("append_again", 6), ("commit_offset", 10),
    ("zombie", 5), ("append_plainly", 6), ("commit_plainly", 3), ("pass_time", 7), ("look_after", 3), ("maintain", 8),
    ("read", 4), ("reopen", 3),
]  # fmt: skip

__all__ = ["Client", "Committed", "Producing", "Workload", "began_again", "look", "open_log"]
