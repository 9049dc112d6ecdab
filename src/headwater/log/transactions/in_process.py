"""Transactions of the process that owns the log: `with log.transaction("id") as transaction: ...`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError, UsageError
from headwater.log.batch_format import TRANSACTIONAL_FLAG, encode_batch, flagged
from headwater.log.groups.records import CommittedOffset
from headwater.log.partitioner import choose_partitions
from headwater.log.transactions.transaction import NEWER_CLIENTS, ProducerIdentity
from headwater.log.writer import append_when_there_is_room, batches_of
from headwater.record import Position, Record, TopicPartition

if TYPE_CHECKING:
    from headwater.log.log import Log


class OpenTransaction:
    """A transaction that is open. For one thread at a time."""

    def __init__(self, log: "Log", transactional_id: str, producer: ProducerIdentity) -> None:
        self._log, self._id, self._producer = log, transactional_id, producer
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self.empty = True

    def append(
        self,
        topic: str,
        records: Record | Iterable[Record],
        *,
        partition: int | None = None,
        compression: str = "none",
    ) -> Position:
        """As Log.append; the records are seen, and are safe from a power cut, when the block has ended."""
        rows = [records] if isinstance(records, Record) else list(records)
        if not rows:
            raise UsageError("append needs at least one record")
        count = self._log.topic(topic).partitions
        groups = {partition: rows} if partition is not None else choose_partitions(rows, count)
        places = {TopicPartition(topic, number) for number in groups}
        for place in places:
            self._log.partition(*place)  # UnknownPartition before anything is begun
        self._log.transactions.add(self._id, self._producer, places, version=NEWER_CLIENTS)
        self.empty = False
        last = Position(topic, 0, -1)
        for number, group in groups.items():
            position = self._append(TopicPartition(topic, number), group, compression)
            last = position if group[-1] is rows[-1] else last
        return last

    def append_at(self, place: TopicPartition, records: list[Record], *, at: int) -> Position:
        """One batch of records with their times, at this offset of a partition only; EndOffsetMoved if it ends
        elsewhere."""
        partition = self._log.partition(*place)
        self._log.transactions.add(self._id, self._producer, {place}, version=NEWER_CLIENTS)
        self.empty = False
        with self._log.transactions.appending(self._id, self._producer, place):
            last = partition.append(self._batch(place, records, "none"), durable=True, at=at).last_offset
        self._sequences[place] += len(records)
        return Position(*place, last)

    def _append(self, place: TopicPartition, records: list[Record], compression: str) -> Position:
        partition, last = self._log.partition(*place), -1
        for group in batches_of(records, now_ms=self._log.clock.now_ms()):
            batch = self._batch(place, group, compression)

            def append(batch: bytearray = batch) -> int:
                with self._log.transactions.appending(self._id, self._producer, place):
                    return partition.append(batch, durable=True).last_offset

            last = append_when_there_is_room(partition, append)
            self._sequences[place] += len(group)
        return Position(*place, last)

    def _batch(self, place: TopicPartition, records: list[Record], compression: str) -> bytearray:
        return flagged(
            encode_batch(
                records, compression=compression, producer_id=self._producer.id,
                producer_epoch=self._producer.epoch, base_sequence=self._sequences[place],
            ),
            TRANSACTIONAL_FLAG,
        )  # fmt: skip

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit, with the transaction, the offsets at which a consumer group resumes."""
        committed = {place: CommittedOffset(offset) for place, offset in offsets.items()}
        for refused in self._log.group_offsets.secure(committed).values():
            raise refused
        self._log.transactions.commit_offsets(self._id, self._producer, group, committed, version=NEWER_CLIENTS)
        self.empty = False


@contextmanager
def run_transaction(log: "Log", transactional_id: str, *, timeout_ms: int) -> Iterator[OpenTransaction]:
    """Commits at the end of the block, and aborts if it raises."""
    producer = log.transactions.register(transactional_id, timeout_ms=timeout_ms)
    transaction = OpenTransaction(log, transactional_id, producer)
    try:
        yield transaction
    except BaseException:
        if not transaction.empty:
            _abort(log, transactional_id, producer)
        raise
    if not transaction.empty:
        log.transactions.end(transactional_id, producer, commit=True, version=NEWER_CLIENTS)


def _abort(log: "Log", transactional_id: str, producer: ProducerIdentity) -> None:
    try:
        log.transactions.end(transactional_id, producer, commit=False, version=NEWER_CLIENTS)
    except HeadwaterError:
        return  # fenced, or aborted for its time: what the block raised says more
