"""A seeded life of a log: appends of every kind, retries, deletions, upkeep, restarts; and what it promised.

Two runs with the same seed on healthy disks make the same calls. `course` is the start offsets after each step of such
a run: with it, a later run knows how far a step that is under way may delete.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from threading import Thread

from headwater.clock import ManualClock
from headwater.errors import HeadwaterError, TopicOffline, UnknownPartition, UnknownTopic
from headwater.log.batch_format import encode_batch
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.log.storage.simulated import Call, Fault, SimulatedDisk
from headwater.record import Record, TopicPartition
from headwater.settings import LogSettings
from tests.crash.promises import Batch, PartitionPromise, Producer, Promises

SETTINGS = LogSettings(
    offsets_partitions=1, unflushed_bytes_max=6_000, producer_expiry=timedelta(days=1), compaction_memory_bytes=4096
)

TEMPORARY = "temporary"
TABLE = "table"
LOOSE = "loose"
"""The one topic with appends that no client waits for."""

TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "events": (
        2,
        {"segment.bytes": "900", "index.interval.bytes": "100", "retention.ms": "60000", "segment.ms": "9000"},
    ),
    TABLE: (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "350",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "3000",
            "index.interval.bytes": "0",
        },
    ),
    "ring": (1, {"segment.bytes": "1000", "retention.bytes": "3000", "index.interval.bytes": "200"}),
    LOOSE: (1, {"segment.bytes": "500", "index.interval.bytes": "300"}),
}
KEYS = [b"k%d" % number for number in range(5)]
IN_FLIGHT_MAX = 4
GROUPS = ("readers", "writers")
Starts = dict[TopicPartition, int]


def open_log(disk: SimulatedDisk) -> Log:
    """With every topic: what kept one from being opened is met again by who opens them all."""
    log = Log.open("simulated", storage=disk, clock=disk.clock, settings=SETTINGS)
    if offline := log.offline_topics():
        log.close()
        raise TopicOffline(*next(iter(offline.items())))
    return log


class Workload:
    def __init__(
        self, disk: SimulatedDisk, seed: int, *, course: list[Starts] | None = None, fault: Fault | None = None
    ) -> None:
        assert isinstance(disk.clock, ManualClock)
        self.disk, self.clock = disk, disk.clock
        self.random = Random(seed)
        self.promises = Promises()
        self.course: list[Starts] = []
        self.refusals: list[HeadwaterError] = []
        self.anomalies: list[str] = []
        self._expected_course, self._fault = course, fault
        self._opened_at: dict[str, int] = {}
        self._values = 0
        self._producers: dict[tuple[int, TopicPartition], list[Batch]] = {}
        self._unanswered: dict[tuple[int, TopicPartition], Batch] = {}
        self.step_name = "open"
        self.before_call: Callable[[Call], None] = lambda call: None
        self._interloper = Interloper(self, seed)
        self._log: Log | None = None
        disk.on_call = self._on_call

    @property
    def log(self) -> Log:
        assert self._log is not None
        return self._log

    @property
    def opened(self) -> bool:
        return self._log is not None

    def _on_call(self, call: Call) -> None:
        self.before_call(call)
        if self._log is not None:
            self._interloper.before(call)

    def run(self, steps: int) -> None:
        self._perform("open", self._open)
        for topic, (partitions, configs) in TOPICS.items():
            self._perform("create", partial(self._create, topic, partitions, configs))
        for _ in range(steps):
            if self._log is None or any(self.promises.current(topic) is None for topic in TOPICS):
                return  # the disk is too broken to begin
            [(name, action)] = self.random.choices(list(self._actions()), weights=[w for _, w in _WEIGHTS], k=1)
            self._perform(name, action)
        self._perform("close", lambda: self.log.close())

    def _open(self) -> None:
        """As a process manager would: a second attempt follows a failed one."""
        self._log = None
        try:
            self._log = open_log(self.disk)
        except (HeadwaterError, OSError):
            self.disk.close()
            self._log = open_log(self.disk)
        self._opened_at = dict.fromkeys(self.promises.topics, self.disk.calls)

    def _actions(self) -> list[tuple[str, Callable[[], None]]]:
        return [(name, getattr(self, f"_{name}")) for name, _ in _WEIGHTS]

    def _perform(self, name: str, action: Callable[[], None]) -> None:
        if self._log is None and name != "open":
            return
        self.step_name = name
        try:
            action()
        except HeadwaterError as error:
            self.refusals.append(error)
        except OSError as error:
            # A log that cannot be opened says so in the words of the operating system; nothing else may.
            if self._log is not None:
                self.anomalies.append(f"{type(error).__name__} escaped from {name}: {error}")
        try:
            self._interloper.wait()
        except HeadwaterError as error:
            self.refusals.append(error)
        self.course.append({partition: self._live_start(partition) for partition, _ in self.promises.live_partitions()})

    # Appending

    def _append_durable(self) -> None:
        partition = self._some_partition()
        batch, promise = self.new_batch(partition, self.random)
        promise.begin_append(batch)
        position = self.log.append(partition.topic, self._records(batch), partition=partition.partition,
                                   compression=batch.compression)  # fmt: skip
        self.acknowledged(partition)
        promise.end_append(batch, base_offset=position.offset + 1 - len(batch.records), durable=True)

    def _append_loose(self) -> None:
        partition = TopicPartition(LOOSE, 0)
        batch, promise = self.new_batch(partition, self.random)
        promise.begin_append(batch)
        position = self.log.append(partition.topic, self._records(batch), partition=0, durable=False)
        promise.end_append(batch, base_offset=position.offset + 1 - len(batch.records), durable=False)

    def _append_idempotent(self) -> None:
        partition = self._some_partition()
        producer = self.random.randrange(2) + 100
        if (producer, partition) in self._unanswered:
            self._send_again(producer, partition)
            return
        batch, promise = self.new_batch(partition, self.random)
        sent = self._producers.setdefault((producer, partition), [])
        sequence = sent[-1].producer.sequence + len(sent[-1].records) if sent and sent[-1].producer else 0
        batch.producer = Producer(producer, 0, sequence)
        self._send(partition, batch, promise)

    def _send_again(self, producer: int, partition: TopicPartition) -> None:
        """What a client does that got no answer: the same batch again, before anything else."""
        old = self._unanswered[producer, partition]
        promise = self.promises.partition(*partition)
        end = self.log.partition(*partition).end_offset
        batch = Batch(end, old.records, old.timestamp_ms, old.producer, old.compression)
        self._send(partition, batch, promise)

    def _send(self, partition: TopicPartition, batch: Batch, promise: PartitionPromise) -> None:
        assert batch.producer is not None
        self._unanswered[batch.producer.id, partition] = batch
        promise.begin_append(batch)
        live = self.log.partition(*partition)
        appended = live.append(encoded(batch), durable=True)
        live.make_durable(appended.last_offset + 1)
        self.acknowledged(partition)
        promise.end_append(batch, base_offset=appended.base_offset, durable=True)
        del self._unanswered[batch.producer.id, partition]
        self._producers[batch.producer.id, partition].append(batch)

    def _retry(self) -> None:
        """A client whose answer was lost sends one of its last five batches again."""
        candidates = [(partition, sent) for (_, partition), sent in self._producers.items() if sent]
        if not candidates:
            return
        partition, sent = self.random.choice(candidates)
        batch = self.random.choice(sent[-5:])
        live = self.log.partition(*partition)
        appended = live.append(encoded(batch), durable=True)
        if not appended.duplicate or appended.base_offset != batch.base_offset:
            self.anomalies.append(f"a retry of {batch} in {partition} was answered with {appended}")
        live.make_durable(appended.last_offset + 1)

    def _make_durable(self) -> None:
        live = self.log.partition(LOOSE, 0)
        end = live.end_offset
        live.make_durable(end)
        self.promises.partition(LOOSE, 0).made_durable(end)

    def acknowledged(self, partition: TopicPartition) -> None:
        """A durable append was answered: there must have been no failed sync on its partition since it was opened."""
        opened_at, folder = self._opened_at[partition.topic], f"{partition.topic}-{partition.partition}/"
        struck = [call for call in self._fault.struck if call.number > opened_at] if self._fault else []
        failed = [call for call in struck if call.operation == "sync" and call.path.startswith(folder)]
        if any(call.path.endswith(".log") for call in failed):
            self.anomalies.append(f"{self.step_name} was acknowledged on {partition} after {failed[0]} had failed")

    # Deleting

    def _delete_records(self) -> None:
        partition = self._some_partition()
        live, promise = self.log.partition(*partition), self.promises.partition(*partition)
        before = self.random.randint(live.start_offset, live.high_watermark)
        promise.begin_start(before)
        promise.end_start(live.delete_records(before))

    def _maintain(self) -> None:
        for partition, promise in self.promises.live_partitions():
            promise.begin_start(self._start_after_this_step(partition))
        self.log.maintain()
        for partition, promise in self.promises.live_partitions():
            promise.begin_start(self._live_start(partition))

    def _start_after_this_step(self, partition: TopicPartition) -> int:
        if self._expected_course is None:
            return self.log.partition(*partition).end_offset
        return self._expected_course[len(self.course)].get(partition, 0)

    # Topics

    def _create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        self.promises.begin_create(topic, partitions, configs)
        created = self.log.create_topic(topic, partitions=partitions, configs=configs)
        self.promises.end_create(topic, created.id)
        self._opened_at[topic] = self.disk.calls

    def _create_or_delete_temporary(self) -> None:
        if self.promises.current(TEMPORARY) is None:
            self._create(TEMPORARY, self.random.randint(1, 2), {"segment.bytes": "600"})
            return
        self.promises.begin_delete(TEMPORARY)
        self.log.delete_topic(TEMPORARY)
        self.promises.end_delete(TEMPORARY)
        for known in (self._producers, self._unanswered):
            for identity in [identity for identity in known if identity[1].topic == TEMPORARY]:
                del known[identity]

    def _alter(self) -> None:
        topic = self._some_partition().topic
        configs = {"segment.bytes": str(self.random.choice((600, 900, 1500)))}
        self.promises.begin_change(topic, configs=configs)
        self.log.alter_topic(topic, configs)
        self.promises.end_change(topic)

    def _add_partitions(self) -> None:
        now = self.promises.current("events")
        if now is None or now.partitions >= 4:
            return
        self.promises.begin_change("events", partitions=now.partitions + 1)
        self.log.add_partitions("events", now.partitions + 1)
        self._opened_at["events"] = self.disk.calls
        self.promises.end_change("events")

    # The rest

    def _commit(self) -> None:
        partition = self.random.choice([partition for partition, _ in self.promises.live_partitions()])
        group = self.random.choice(GROUPS)
        offset = self.random.randint(0, self.log.partition(*partition).high_watermark)
        self.promises.begin_commit(group, partition, offset)
        self.log.group_offsets.commit(group, {partition: CommittedOffset(offset)})
        self.promises.end_commit(group, partition, offset)

    def _read(self) -> None:
        """What readers see while everything works is what was sent, nothing else."""
        partition = self._some_partition()
        sent = {value for batch in self.promises.partition(*partition).batches for _, value in batch.records}
        unsent = [record for record in self.log.read(*partition) if record.value not in sent]
        if unsent:
            self.anomalies.append(f"readers of {partition} were shown {unsent}")

    def _pass_time(self) -> None:
        self.clock.advance(self.random.randint(1, 15_000))

    def _reopen(self) -> None:
        try:
            self.log.close()
        finally:
            self.disk.close()  # a process that ends gives up its lock, however it ends
            self._open()

    def _some_partition(self) -> TopicPartition:
        """Often the table: there must be something to compact."""
        live = [partition for partition, _ in self.promises.live_partitions() if partition.topic != LOOSE]
        return self.random.choices(live, weights=[3 if partition.topic == TABLE else 1 for partition in live])[0]

    def _live_start(self, partition: TopicPartition) -> int:
        try:
            return self._log.partition(*partition).start_offset if self._log else 0
        except (UnknownTopic, UnknownPartition):
            return 0  # a change of the topic failed half-way

    def new_batch(self, partition: TopicPartition, random: Random) -> tuple[Batch, PartitionPromise]:
        records = tuple(self._new_record(partition, random) for _ in range(random.choice((1, 1, 2, 5))))
        now = self.clock.now_ms() - random.randint(0, 3_000)
        compression = random.choice(("none", "none", "zstd"))
        end = self.log.partition(*partition).end_offset
        return Batch(end, records, now, compression=compression), self.promises.partition(*partition)

    def _new_record(self, partition: TopicPartition, random: Random) -> tuple[bytes | None, bytes | None]:
        self._values += 1
        value = b"%s/%d:%d" % (partition.topic.encode(), partition.partition, self._values)
        padding = random.choice((0, 0, 20, 100, 700)) if random.random() < 0.6 else 0
        if partition.topic == TABLE:
            tombstone = random.random() < 0.15
            return random.choice(KEYS), None if tombstone else value + b"." * (padding // 4)
        return None, value + b"." * padding

    def _records(self, batch: Batch) -> list[Record]:
        return records_of(batch)


class Interloper:
    """A second producer, whose appends land while the log is in the middle of something else, where its locks let them.

    It shares the thread of the workload, so that the same seed gives the same order of calls.
    """

    ID = 900
    MOMENTS = ("sync", "sync_directory", "rename", "delete")

    def __init__(self, workload: Workload, seed: int) -> None:
        self._workload, self._random = workload, Random(seed ^ 0xACE)
        self._busy = False
        self._waiting: list[tuple[TopicPartition, Batch, int]] = []
        self._sequences: dict[tuple[int, TopicPartition], int] = {}
        self._gone: set[TopicPartition] = set()

    def before(self, call: Call) -> None:
        often = 0.3 if self._workload.step_name == "maintain" else 0.05
        if self._busy or call.operation not in self.MOMENTS or self._random.random() > often:
            return
        folder = call.path.split("/")[0]
        live = {
            f"{partition.topic}-{partition.partition}": partition
            for partition, _ in self._workload.promises.live_partitions()
        }
        if folder in live and self._workload.step_name not in ("reopen", "close", "create_or_delete_temporary"):
            self._busy = True
            try:
                self._append(live[folder])
            finally:
                self._busy = False

    def _append(self, partition: TopicPartition) -> None:
        log = self._workload.log.partition(*partition)
        if partition.topic == LOOSE or partition in self._gone or not free_for_others(log):
            return
        if len(self._waiting) >= IN_FLIGHT_MAX:
            return
        if log._bytes_since_checkpoint > 1_000:
            return  # it might start a checkpoint, which waits for the sync we are in: on one thread, for ever
        batch, promise = self._workload.new_batch(partition, self._random)
        topic = self._workload.promises.current(partition.topic)
        assert topic is not None
        identity = topic.incarnation, partition
        batch.producer = Producer(self.ID, 0, self._sequences.get(identity, 0))
        promise.begin_append(batch)
        try:
            appended = log.append(encoded(batch), durable=True)
        except HeadwaterError:
            self._gone.add(partition)  # it will not continue before it knows what became of this one
            return
        self._sequences[identity] = batch.producer.sequence + len(batch.records)
        self._waiting.append((partition, batch, appended.base_offset))

    def wait(self) -> None:
        """Until what was appended is durable: the answer to the second producer."""
        waiting, self._waiting = self._waiting, []
        for partition, batch, base_offset in waiting:
            self._gone.add(partition)
            self._workload.log.partition(*partition).make_durable(base_offset + len(batch.records))
            self._workload.acknowledged(partition)
            self._workload.promises.partition(*partition).end_append(batch, base_offset=base_offset, durable=True)
            self._gone.remove(partition)


def free_for_others(partition: Partition) -> bool:
    """Whether another thread could append right now, instead of waiting for the thread that is inside."""
    free: list[bool] = []

    def attempt() -> None:
        if partition._lock.acquire(blocking=False):
            partition._lock.release()
            free.append(True)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return bool(free)


_WEIGHTS = [
    ("append_durable", 25),
    ("append_idempotent", 25),
    ("append_loose", 10),
    ("retry", 8),
    ("make_durable", 3),
    ("delete_records", 3),
    ("maintain", 9),
    ("pass_time", 7),
    ("read", 4),
    ("commit", 6),
    ("create_or_delete_temporary", 3),
    ("alter", 1),
    ("add_partitions", 1),
    ("reopen", 2),
]


def records_of(batch: Batch) -> list[Record]:
    return [
        Record(value, key, timestamp_ms=batch.timestamp_ms + index) for index, (key, value) in enumerate(batch.records)
    ]


def encoded(batch: Batch) -> bytearray:
    producer = batch.producer or Producer(-1, -1, -1)
    return encode_batch(
        records_of(batch),
        compression=batch.compression,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
    )
