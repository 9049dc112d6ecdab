"""Batches that belong to a transaction: a producer may write them only into the transaction it has open."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from headwater.errors import CorruptBatch, HeadwaterError, UsageError
from headwater.log.appended import Appended
from headwater.log.batch_format import HEADER_BYTES, TRANSACTIONAL_FLAG, read_header
from headwater.log.partition import Partition
from headwater.log.transactions.transaction import NEWER_CLIENTS, ProducerIdentity
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.protocol.transaction_codes import PRODUCE_BEGINS_FROM
from headwater.wire.topics import find_partition, refuse_reserved

ATTRIBUTES_LOW = 22


class Batch(Protocol):
    """The part of a row of a Produce request that this module uses."""

    topic: str | UUID
    number: int
    records: memoryview | None


class NotInTransaction(UsageError):
    """A batch says that it belongs to a transaction, and its request names none."""


def in_transaction(records: memoryview) -> bool:
    return len(records) > ATTRIBUTES_LOW and bool(records[ATTRIBUTES_LOW] & TRANSACTIONAL_FLAG)


async def begin(rows: Sequence[Batch], transactional_id: str, context: Context) -> None:
    """Make the partitions of a request part of the transaction, for producers that leave it to Produce."""
    if context.api_version < PRODUCE_BEGINS_FROM:
        return
    wanted: dict[ProducerIdentity, set[TopicPartition]] = {}
    for row in rows:
        if row.records is None or not in_transaction(row.records):
            continue
        try:
            partition = find_partition(context.log, row.topic, row.number)
            refuse_reserved(partition.topic)
            wanted.setdefault(_producer(row.records), set()).add(partition.topic_partition)
        except HeadwaterError:
            continue  # it is refused where it would be appended
    transactions = context.log.transactions
    for producer, places in wanted.items():
        if not transactions.includes(transactional_id, producer, places):
            await context.run(transactions.add, transactional_id, producer, places, version=NEWER_CLIENTS)


def append(
    partition: Partition, records: memoryview, transactional_id: str | None, context: Context, *, durable: bool
) -> Appended:
    """Append a batch to the transaction that its producer has open here; an error says why it is in none."""
    if transactional_id is None:
        raise NotInTransaction("a batch belongs to a transaction, and the request names no transactional id")
    transactions = context.log.transactions
    with transactions.appending(transactional_id, _producer(records), partition.topic_partition):
        return partition.append(records, durable=durable)


def _producer(records: memoryview) -> ProducerIdentity:
    if len(records) < HEADER_BYTES:
        raise CorruptBatch(f"{len(records)} bytes are too few for a batch")
    header = read_header(records)
    return ProducerIdentity(header.producer_id, header.producer_epoch)
