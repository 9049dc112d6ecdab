"""Produce: store record batches.

acks=0 gets no answer, acks=1 one after the write, acks=-1 ("all") one after the sync. Batches of a connection are
stored in the order of its requests; while one request waits for its sync, the next is stored.
"""

import asyncio
import logging
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.errors import (
    ConcurrentTransactions,
    HeadwaterError,
    InvalidProducerMapping,
    InvalidRecord,
    InvalidTransactionState,
    ProducerFenced,
    ProtocolError,
    TopicFull,
)
from headwater.log.appended import Appended
from headwater.log.partition import Partition
from headwater.wire.answers import NO_ANSWER, Later, Nothing
from headwater.wire.context import Context
from headwater.wire.durability import Ticket
from headwater.wire.produce_transactions import NotInTransaction, append, begin, in_transaction
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.produce import PartitionAnswer, ProduceRequest, TopicAnswer
from headwater.wire.protocol.transaction_codes import produce_code
from headwater.wire.topics import code_for, find_partition, refuse_reserved

logger = logging.getLogger("headwater.wire")

TRANSACTION_ERRORS = (ConcurrentTransactions, InvalidProducerMapping, InvalidTransactionState, ProducerFenced)

NO_ACKS, WRITTEN, DURABLE = 0, 1, -1
TIMEOUT_MS_MIN = 1000
"""A client that gives no time at all still gets an honest answer from a disk that works."""


Layout = list[tuple[str | UUID, int]]
"""Topics of a request, and how many partitions it names of each."""


class Row:
    """One batch of a request and what became of it."""

    __slots__ = ("answer", "full", "number", "records", "ticket", "topic")

    def __init__(self, topic: str | UUID, number: int, records: memoryview | None) -> None:
        self.topic, self.number, self.records = topic, number, records
        self.answer = PartitionAnswer(number)
        self.ticket: Ticket | None = None
        self.full: Partition | None = None
        """The partition that has no room for the batch and asks producers to wait."""

    def refuse(self, code: ErrorCode, message: str) -> None:
        self.answer = PartitionAnswer(self.number, code.value, message=message)
        self.full = None

    def accept(self, appended: Appended) -> None:
        self.answer = PartitionAnswer(
            self.number, 0, appended.base_offset, appended.append_time_ms, appended.start_offset
        )
        self.full = None


async def handle(request: ProduceRequest, context: Context) -> list[TopicAnswer] | Later | Nothing:
    rows = [Row(topic, number, records) for topic, partitions in request.topics for number, records in partitions]
    layout = [(topic, len(partitions)) for topic, partitions in request.topics]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max(request.timeout_ms, TIMEOUT_MS_MIN) / 1000
    if request.acks not in (NO_ACKS, WRITTEN, DURABLE):
        for row in rows:
            row.refuse(ErrorCode.invalid_required_acks, f"acks can be 0, 1 or -1, not {request.acks}")
    elif request.transactional_id is None or await _in_transaction(rows, request.transactional_id, context):
        storing = Storing(rows, context, request.acks, request.transactional_id)
        await storing.done()
        if any(row.full for row in rows):
            await _store_when_there_is_room(storing, deadline)
    for row in rows:
        row.records = None  # nothing may keep the request's bytes alive while its answer waits for the disk
    if request.acks == NO_ACKS:
        _complain_by_closing(rows)
        return NO_ANSWER
    if any(row.ticket for row in rows):
        return Later(lambda: _when_durable(layout, rows, deadline))
    return _answers(layout, rows)


async def _in_transaction(rows: list[Row], transactional_id: str, context: Context) -> bool:
    try:
        await begin(rows, transactional_id, context)
    except HeadwaterError as error:
        for row in rows:
            row.refuse(produce_code(error, context.api_version), str(error))
        return False
    return True


class Storing:
    """One trip of some rows to the threads that append."""

    def __init__(self, rows: list[Row], context: Context, acks: int, transactional_id: str | None = None) -> None:
        self.rows, self.context, self._acks = rows, context, acks
        self._transactional_id = transactional_id
        self._unsynced: list[Partition] = []  # a request waits for them to be synced, and no sync has started

    def again(self, rows: list[Row]) -> "Storing":
        return Storing(rows, self.context, self._acks, self._transactional_id)

    async def done(self) -> None:
        """Return when every row was stored or refused. Syncs continue after that."""
        threads = self.context.shared.append_threads
        assert threads is not None
        await threads.run(self._append_all, then=self._sync)

    def _append_all(self) -> None:
        try:
            for row in self.rows:
                self._append(row)
        except BaseException:
            self._submit_syncs()
            raise

    def _append(self, row: Row) -> None:
        try:
            partition = find_partition(self.context.log, row.topic, row.number)
            refuse_reserved(partition.topic)
            if not row.records:
                raise InvalidRecord("a produce request needs one batch for each partition it names")
            durable = self._acks == DURABLE
            if in_transaction(row.records):
                appended = append(partition, row.records, self._transactional_id, self.context, durable=durable)
            else:
                appended = partition.append(row.records, durable=durable)
        except NotInTransaction as error:
            row.refuse(ErrorCode.transactional_id_authorization_failed, str(error))
        except TRANSACTION_ERRORS as error:
            version = self.context.api_version
            plain = row.records is None or not in_transaction(row.records)
            row.refuse(error_code(error) if plain else produce_code(error, version), str(error))
        except TopicFull as full:
            row.refuse(code_for(full, row.topic), str(full))
            row.full = partition if full.blocking else None
        except HeadwaterError as error:
            row.refuse(code_for(error, row.topic), str(error))
        else:
            row.accept(appended)
            if self._acks == DURABLE:
                row.ticket, first = self.context.shared.durability.ask(partition, appended.last_offset + 1)
                if first:
                    self._unsynced.append(partition)

    def _sync(self) -> None:
        """The thread is here and its work is done: if no other work waits, it can sync as well as another."""
        threads = self.context.shared.append_threads
        last = self._unsynced.pop() if self._unsynced and threads is not None and threads.spare else None
        self._submit_syncs()
        if last is not None:
            self.context.shared.durability.sync(last)

    def _submit_syncs(self) -> None:
        for partition in self._unsynced:
            self.context.shared.durability.submit(partition)


async def _store_when_there_is_room(storing: Storing, deadline: float) -> None:
    rows = storing.rows
    arrivals = storing.context.shared.arrivals
    waiter = arrivals.watch({row.full for row in rows if row.full})
    try:
        while waiting := [row for row in rows if row.full]:
            await storing.again(waiting).done()
            if not any(row.full for row in waiting):
                return
            if arrivals.stopping or not await waiter.wait(deadline):
                for row in waiting:
                    if row.full:
                        row.refuse(ErrorCode.request_timed_out, row.answer.message or "")
    finally:
        waiter.close()


async def _when_durable(layout: Layout, rows: list[Row], deadline: float) -> list[TopicAnswer]:
    try:
        async with asyncio.timeout_at(deadline):
            for row in rows:
                await _confirm(row)
    except TimeoutError:
        for row in rows:
            if row.ticket is not None:
                row.refuse(ErrorCode.request_timed_out, "the disk did not confirm the batch in time")
    return _answers(layout, rows)


async def _confirm(row: Row) -> None:
    if row.ticket is None:
        return
    try:
        await row.ticket.wait()
    except HeadwaterError as error:
        row.refuse(code_for(error, row.topic), str(error))
    row.ticket = None


def _answers(layout: Layout, rows: list[Row]) -> list[TopicAnswer]:
    remaining = iter(rows)
    return [TopicAnswer(topic, [next(remaining).answer for _ in range(count)]) for topic, count in layout]


def _complain_by_closing(rows: list[Row]) -> None:
    """A producer that waits for no answer learns of an error only by losing its connection."""
    for row in rows:
        if row.answer.error_code:
            raise ProtocolError(f"a batch sent with acks=0 was refused: {row.answer.message}")
