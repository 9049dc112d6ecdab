"""A Kafka cluster as the log of captures and notifications, where flows have their topics there.

Record batches are made as for a log of our own, and sent with a producer's id and sequences, so that what is sent again
is stored once. A capture that begins asks each partition how far its leader has written, not how far all replicas
have: what an attempt before it has sent, and nobody could confirm to it, counts as written too.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headwater.capture.appender import OWN, batches, groups
from headwater.clock import Clock, SystemClock
from headwater.errors import TopicExists, UnavailableError, UnknownTopic
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.kafka.messages import ProducerIdentity
from headwater.log.batch_format import Buffer, decode_batch, encode_batch, first_batch_bytes
from headwater.log.own_topics import BYTES_MAX, KEEPS_ALL, NODE_ONLY, TAKES_ALL
from headwater.log.partitioner import partition_of
from headwater.log.record_contents import Contents, parts_of
from headwater.record import Record, TopicPartition

FETCH_BYTES = 4 * 1024**2
SETTLING_MS, LOOK_SECONDS = 60_000, 0.05
SEQUENCE_MASK = 0x7FFF_FFFF
TAKEN = {name: value for name, value in TAKES_ALL.items() if name not in NODE_ONLY}


class KafkaAppender:
    """Keeps the contract of `capture.appender.Appender`. Of one thread; after an error another takes its place."""

    def __init__(self, address: str, *, clock: Clock | None = None) -> None:
        self._client, self._clock = Client(address), clock or SystemClock()
        # Whoever asks for an appender leaves it to itself: one of our own log has nothing to give back.
        weakref.finalize(self, self._client.close)
        self._identity: ProducerIdentity | None = None
        self._next: dict[TopicPartition, int] = {}
        """The sequence number of what is sent next to a partition."""
        self._settled: set[TopicPartition] = set()

    def ensure_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> int:
        if found := self.partition_count(topic):
            return found
        own = KEEPS_ALL if topic.startswith(OWN) else {}
        try:
            self._client.create_topic(topic, partitions=partitions, configs={**TAKEN, **own, **configs})
        except TopicExists:
            pass
        return self.partition_count(topic)

    def partition_count(self, topic: str) -> int:
        try:
            return self._client.partitions([topic])[topic]
        except UnknownTopic:
            return 0

    def add_partitions(self, topic: str, total: int) -> None:
        self._client.add_partitions(topic, total)

    def append(self, topic: str, partition: int, records: Sequence[Record], *, durable: bool = True) -> int:
        now_ms, where = self._clock.now_ms(), TopicPartition(topic, partition)
        stamped = [one if one.timestamp_ms >= 0 else replace(one, timestamp_ms=now_ms) for one in records]
        made: list[Buffer] = []
        for group in batches(stamped):
            identity, sequence = self._numbered(where, len(group))
            made.append(
                encode_batch(
                    group, producer_id=identity.producer_id, producer_epoch=identity.epoch, base_sequence=sequence
                )
            )
        return self._send(where, made, len(group)) if made else self.bounds(topic, partition)[1]

    def append_contents(self, topic: str, partition: int, pieces: Sequence[Contents]) -> int:
        from headwater.log.record_framing import encode_contents  # loads the compiler, which takes a second

        made: list[Buffer] = []
        where, count = TopicPartition(topic, partition), 0
        for first, end_row in groups(np.concatenate([piece.sizes for piece in pieces])):
            count = end_row - first
            identity, sequence = self._numbered(where, count)
            producer = (identity.producer_id, identity.epoch, sequence)
            made.append(encode_contents(parts_of(pieces, first, end_row), producer=producer))
        return self._send(where, made, count)

    def sync(self) -> None:
        """All in-sync replicas have what was appended: that is what its answer has said."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        if partition >= self.partition_count(topic):
            return 0, 0
        if where not in self._settled:
            self._settle(where)
        return self._client.offsets({where: EARLIEST})[where], self._client.offsets({where: LATEST})[where]

    def read(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        where, (first, end) = TopicPartition(topic, partition), self.bounds(topic, partition)
        offset = max(offset, first)
        while offset < end:
            fetched = memoryview(self._client.fetch(where, offset, bytes_max=FETCH_BYTES).records)
            reached = offset
            while len(fetched) >= (size := first_batch_bytes(fetched)) > 0:
                for record in decode_batch(fetched[:size], bytes_max=BYTES_MAX):
                    if offset <= record.offset < end:
                        yield record
                    reached = max(reached, record.offset + 1)
                fetched = fetched[size:]
            if reached == offset:
                return  # compaction has removed the rest
            offset = reached

    def partition_of(self, key: bytes | None, partitions: int) -> int:
        return 0 if key is None or partitions == 1 else partition_of(key, partitions)

    def _numbered(self, where: TopicPartition, count: int) -> tuple[ProducerIdentity, int]:
        if self._identity is None:
            self._identity = self._client.init_producer_id()
        sequence = self._next.get(where, 0)
        self._next[where] = (sequence + count) & SEQUENCE_MASK
        return self._identity, sequence

    def _send(self, where: TopicPartition, made: Sequence[Buffer], last_count: int) -> int:
        """The offset after the last record, of a batch with so many."""
        return self._client.produce({where: made})[where][-1] + last_count

    def _settle(self, where: TopicPartition) -> None:
        """Wait until all in-sync replicas have what the leader has; UnavailableError if they do not get it."""
        deadline_ms, pause = self._clock.elapsed_ms() + SETTLING_MS, threading.Event()
        while True:
            end = self._client.ends([where])[where]
            written = self._client.epoch_ends({where: end.epoch})[where] if end.epoch >= 0 else -1
            if written <= end.offset:
                self._settled.add(where)
                return
            if self._clock.elapsed_ms() > deadline_ms:
                raise UnavailableError(
                    f'"{where.topic}/{where.partition}" is written up to {written}, and replicated only to {end.offset}'
                )
            pause.wait(LOOK_SECONDS)


def publisher(address: str) -> Callable[[str, Record], str]:
    """Appends a record to a topic of the cluster, which is made if it is missing; answers where it is."""
    lock, found = threading.Lock(), list[KafkaAppender]()

    def publish(topic: str, record: Record) -> str:
        with lock:
            if not found:
                found.append(KafkaAppender(address))
            appender = found[0]
            try:
                partitions = appender.ensure_topic(topic, partitions=1, configs={})
                partition = appender.partition_of(record.key, partitions)
                end = appender.append(topic, partition, [record])
            except BaseException:
                found.clear()  # how far its sequences have come is not known
                raise
        return f"{topic}/{partition} at {end - 1}"

    return publish
