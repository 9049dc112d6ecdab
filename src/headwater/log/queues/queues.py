"""All queues of a log: what they were set up to do, and the partitions that each of them works on.

A queue is made by its first consumer, in process or over the network: a share group of Kafka's protocol is a queue,
under the same name and in the same state. It works on any number of topics, and several queues on one topic know
nothing of each other.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from headwater.errors import HeadwaterError, UnknownQueue, UnknownTopic
from headwater.log.groups.offsets import check_group
from headwater.log.partition import Partition
from headwater.log.queues.delivery import Delivery
from headwater.log.queues.journal import TOPIC, History, Journal
from headwater.log.queues.queue_partition import Description, QueuePartition
from headwater.log.queues.records import QueuePartitionId
from headwater.log.queues.settings import BY_DURATION, EARLIEST, QueueSettings, duration_ms

if TYPE_CHECKING:
    from uuid import UUID

    from headwater.log.log import Log
    from headwater.log.queues.consumer import QueueConsumer
    from headwater.log.queues.opening import QueueArguments

__all__ = ["TOPIC", "Queue", "Queues"]


class Queue:
    """Safe to use from many threads."""

    def __init__(self, log: "Log", name: str, configs: Mapping[str, str] | None) -> None:
        self.name = name
        self._log, self._journal = log, Journal(log)
        self._lock = threading.Lock()
        self._partitions: dict[tuple[UUID, int], QueuePartition] = {}
        self.configs = dict(configs or {})
        self.kept = configs is not None
        """Whether it was set up, and not only asked about."""
        self._settings = QueueSettings.from_configs(self.configs)

    @property
    def settings(self) -> QueueSettings:
        return self._settings

    def configure(self, configs: Mapping[str, str]) -> None:
        """Replace what was set; durable when this returns. InvalidSetting."""
        settings = QueueSettings.from_configs(configs)
        with self._lock:
            if self.kept and dict(configs) == self.configs:
                return
            self._journal.write_configs(self.name, configs)
            self.configs, self._settings, self.kept = dict(configs), settings, True

    def partitions(self) -> list[QueuePartition]:
        """Those that it has begun to work on, in order."""
        return sorted(self._partitions.values(), key=lambda one: (one.topic, one.number))

    def topics(self) -> list[str]:
        return sorted({one.topic for one in list(self._partitions.values())})

    def partition(self, topic: str, number: int, *, start: int | None = None) -> QueuePartition:
        """A partition to work on. At first it begins where the settings say, or at an offset; that is durable then."""
        id = self._log.topic(topic).id
        found = self._partitions.get((id, number))
        if found is not None and start is None:
            return found
        with self._lock:
            found = self._partitions.get((id, number))
            if found is None:
                of = self._log.partition(topic, number)
                start = self.start_of(of) if start is None else start
                found = self._opened(of, id, (Delivery(start), History()))
                found.begin()
                self._partitions[id, number] = found
            elif start is not None:
                found.restart_at(start)
        return found

    def find(self, topic: str, number: int) -> QueuePartition | None:
        """The partition if the queue has begun to work on it."""
        return self._partitions.get((self._log.topic(topic).id, number))

    def restore(self, of: Partition, id: "UUID", restored: tuple[Delivery, History]) -> None:
        self._partitions[id, of.number] = self._opened(of, id, restored)

    def start_of(self, of: Partition, start: str = "", time_ms: int | None = None) -> int:
        """The offset at which a queue begins: at a time, or as its settings say."""
        start = start or self.settings.share_auto_offset_reset
        if time_ms is None and start == EARLIEST:
            return of.start_offset
        if time_ms is None and start.startswith(BY_DURATION):
            time_ms = self._log.clock.now_ms() - duration_ms(start.removeprefix(BY_DURATION))
        if time_ms is None:
            return of.high_watermark
        found = of.offset_for_time(time_ms)
        return of.high_watermark if found is None else found.offset

    def forget(self, topic: str) -> None:
        """No longer work on a topic."""
        for key, one in list(self._partitions.items()):
            if one.topic == topic:
                del self._partitions[key]
                one.forget()

    def describe(self) -> list[Description]:
        return [one.describe() for one in self.partitions()]

    def _opened(self, of: Partition, id: "UUID", restored: tuple[Delivery, History]) -> QueuePartition:
        key = QueuePartitionId(self.name, id, of.number)
        return QueuePartition(self._log, key, of, lambda: self._settings, restored)


class Queues:
    """Safe to use from many threads."""

    def __init__(self, log: "Log") -> None:
        self._log, self._journal = log, Journal(log)
        self._lock = threading.Lock()
        self._queues: dict[str, Queue] = {}
        self._load()

    def names(self) -> list[str]:
        with self._lock:
            return sorted(name for name, queue in self._queues.items() if queue.kept)

    def get(self, name: str) -> Queue:
        """UnknownQueue if there is none."""
        with self._lock:
            queue = self._queues.get(name)
        if queue is None or not queue.kept:
            raise UnknownQueue(name)
        return queue

    def ensure(self, name: str, configs: Mapping[str, str] | None = None) -> Queue:
        """The queue, set up now if it is new. `configs` are for a new one; None changes nothing. InvalidSetting."""
        check_group(name)
        with self._lock:
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues[name] = Queue(self._log, name, None)
        if not queue.kept:
            queue.configure(configs or {})
        return queue

    def open(self, name: str, topics: Sequence[str] = (), **said: "Unpack[QueueArguments]") -> "QueueConsumer":
        """A consumer in this process; see opening.py."""
        from headwater.log.queues.opening import open_queue

        return open_queue(self._log, name, topics, **said)

    def delete(self, name: str) -> None:
        """Forget a queue and all its state. Messages stay in their topics."""
        queue = self.get(name)
        for topic in queue.topics():
            queue.forget(topic)
        self._journal.write_configs(name, None)
        with self._lock:
            self._queues.pop(name, None)

    def forget_topic(self, name: str) -> None:
        """The topic is being deleted: a later one of the same name is another."""
        for queue in list(self._queues.values()):
            try:
                queue.forget(name)
            except HeadwaterError:
                continue  # the next start finds no topic of this id

    def _load(self) -> None:
        loaded = self._journal.load()
        for name, configs in loaded.configs.items():
            self._queues[name] = Queue(self._log, name, configs)
        topics: dict[UUID, str] = {topic.id: topic.name for topic in self._log.topics()}
        for of, restored in loaded.states.items():
            queue, topic = self._queues.get(of.queue), topics.get(of.topic)
            if queue is None or topic is None:
                continue
            try:
                queue.restore(self._log.partition(topic, of.partition), of.topic, restored)
            except UnknownTopic:
                continue
