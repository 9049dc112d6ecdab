"""The topic of transactions: the state of each transactional id, written down before anything follows from it."""

import logging
from typing import TYPE_CHECKING

from headwater.errors import CorruptBatch, DamagedRange, UnknownTopic
from headwater.log.batch_format import encode_batch
from headwater.log.groups.journal import CONFIGS, partition_for
from headwater.log.own_topics import ensure_own_topic
from headwater.log.reader import read_batches
from headwater.log.transactions import records
from headwater.log.transactions.transaction import Transaction
from headwater.record import Record

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")

TOPIC = "__transaction_state"


class StateLog:
    """Writes of one transactional id keep their order, because its caller makes one at a time."""

    def __init__(self, log: "Log") -> None:
        self._log = log

    def write(self, transactional_id: str, transaction: Transaction | None, *, wait: bool = True) -> None:
        """Write the newest state, or with None that there is none; durable when this returns, unless it need not wait:
        then it is so with the next write that waits."""
        count = ensure_own_topic(self._log, TOPIC, CONFIGS, partitions=self._log.settings.transactions_partitions)
        partition = self._log.partition(TOPIC, partition_for(transactional_id, count.partitions))
        value = None if transaction is None else records.encode_value(transaction)
        record = Record(value, records.encode_key(transactional_id), timestamp_ms=self._log.clock.now_ms())
        appended = partition.append(encode_batch([record]), durable=True)
        if wait:
            partition.make_durable(appended.last_offset + 1)

    def load(self) -> dict[str, Transaction]:
        """The newest state of every transactional id. What is damaged is reported, and what can be read is used."""
        found: dict[str, Transaction] = {}
        try:
            topic = self._log.topic(TOPIC)
        except UnknownTopic:
            return found
        for number in range(topic.partitions):
            newest: dict[str, Record] = {}
            offset: int | None = self._log.partition(TOPIC, number).start_offset
            while offset is not None:
                offset = self._read(number, offset, newest)
            for transactional_id, record in newest.items():
                transaction = self._understood(number, transactional_id, record)
                if transaction is not None:
                    found[transactional_id] = transaction
        return found

    def _read(self, number: int, offset: int, newest: dict[str, Record]) -> int | None:
        partition = self._log.partition(TOPIC, number)
        try:
            for _, rows in read_batches(partition, offset, self._log.settings.decompressed_bytes_max):
                for record in rows:
                    if (transactional_id := records.decode_key(record.key or b"")) is not None:
                        newest[transactional_id] = record
        except DamagedRange as damage:
            logger.error("states of transactions may be outdated: %s", damage)
            return damage.end
        return None

    def _understood(self, number: int, transactional_id: str, record: Record) -> Transaction | None:
        try:
            return None if record.value is None else records.decode_value(transactional_id, record.value)
        except CorruptBatch as error:
            logger.error("record %d of %s/%d is skipped: %s", record.offset, TOPIC, number, error)
            return None
