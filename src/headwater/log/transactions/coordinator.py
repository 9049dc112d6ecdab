"""The coordinator of transactions: who may write under a transactional id, and what becomes of what was written.

    1  register   the epoch grows, so that producers before are fenced
    2  add        partitions are written down before records in them are accepted
    3  append     only with the current epoch, into a partition that was added
    4  end        records durable ─► decision durable ─► a marker in each partition, durable ─► "complete" written down

A crash after the decision is durable leaves markers to be written by the next start; before it, an open transaction,
which its producer can go on with, and which is aborted when its time is up. Locks: that of the transactional id, held
while its state is being written; then those of partitions.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headwater.errors import (
    ConcurrentTransactions,
    HeadwaterError,
    InvalidProducerMapping,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
    UsageError,
)
from headwater.log.groups.journal import TOPIC as OFFSETS_TOPIC
from headwater.log.groups.records import STRING_BYTES_MAX, CommittedOffset
from headwater.log.transactions.lifecycle import Answer, Event, State
from headwater.log.transactions.markers import Marker, marker_batch
from headwater.log.transactions.state_log import StateLog
from headwater.log.transactions.transaction import EPOCH_MAX, NEWER_CLIENTS, ProducerIdentity, Transaction
from headwater.record import TopicPartition
from headwater.settings import milliseconds

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


@dataclass
class _Known:
    transaction: Transaction
    used_elapsed_ms: int
    """When it last changed, in time that truly passed: moving the wall clock ends no transaction."""
    begun_elapsed_ms: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    marked: set[TopicPartition] = field(default_factory=set)
    """Partitions that have the marker, while it could not be written to all."""
    expired: bool = False
    """It is forgotten: a thread that waited for the lock has to look again."""


class Transactions:
    """All transactional ids of a log. Safe to use from many threads."""

    def __init__(self, log: "Log") -> None:
        self._log, self._states = log, StateLog(log)
        self._lock = threading.Lock()
        now_ms = log.clock.elapsed_ms()
        self._known = {id: _Known(one, now_ms, now_ms) for id, one in self._states.load().items()}

    # -- registering -------------------------------------------------------------------------------------------------

    def register(
        self, transactional_id: str, *, timeout_ms: int, expected: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        """The identity of the one producer that may use the id from here on; what the one before left open is aborted.

        `expected`: the producer goes on after an error, and is fenced if another has registered since.
        """
        self._check_request(transactional_id, timeout_ms)
        with self._held(lambda: self._known.get(transactional_id) or self._new(transactional_id, timeout_ms)) as known:
            if expected is not None:
                known.transaction.check_expected(expected)
            if known.transaction.state.decided:
                self._write_markers(known)
            outcome = known.transaction.next(Event.INIT)
            if outcome is Answer.ABORT_FIRST:
                self._abort_for(known, expected)
            elif outcome is Answer.WAIT:
                raise ConcurrentTransactions(transactional_id)
            registered = known.transaction.registered(
                expected, timeout_ms=timeout_ms, fresh_id=self._fresh_id(known), now_ms=self._log.clock.now_ms()
            )
            self._change(known, registered)
            return registered.producer

    def _check_request(self, transactional_id: str, timeout_ms: int) -> None:
        if not transactional_id or len(transactional_id.encode()) > STRING_BYTES_MAX:
            raise UsageError(f"a transactional id has 1 to {STRING_BYTES_MAX} bytes")
        limit_ms = milliseconds(self._log.settings.transaction_timeout_max)
        if not 0 < timeout_ms <= limit_ms:
            raise InvalidTransactionTimeout(timeout_ms, limit_ms=limit_ms)

    def _new(self, transactional_id: str, timeout_ms: int) -> _Known:
        fresh = Transaction(
            transactional_id=transactional_id, producer_id=self._log.next_producer_id(), timeout_ms=timeout_ms
        )
        with self._lock:
            return self._known.setdefault(transactional_id, _Known(fresh, self._log.clock.elapsed_ms()))

    def _abort_for(self, known: _Known, expected: ProducerIdentity | None) -> None:
        """Abort what is open, for a producer that registers. One that goes on gets the epoch which that brings."""
        if expected is not None and expected != known.transaction.producer:
            raise known.transaction.fenced(expected)
        self._abort(known)
        if known.transaction.state.decided:
            raise ConcurrentTransactions(known.transaction.transactional_id)

    # -- in a transaction --------------------------------------------------------------------------------------------

    def add(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Set[TopicPartition], *, version: int = 0
    ) -> None:
        """Make partitions part of the transaction, which begins if none is open; durable when this returns."""
        with self._held(lambda: self._of(transactional_id, producer)) as known:
            known.transaction.check_producer(producer)
            begins = known.transaction.state is not State.ONGOING
            changed = known.transaction.with_partitions(partitions, version=version, now_ms=self._log.clock.now_ms())
            if changed is not known.transaction:
                self._change(known, changed)
            if begins:
                known.begun_elapsed_ms = self._log.clock.elapsed_ms()

    def includes(self, transactional_id: str, producer: ProducerIdentity, partitions: Set[TopicPartition]) -> bool:
        """Whether all of them are part of the producer's open transaction; takes no lock."""
        known = self._known.get(transactional_id)
        if known is None:
            return False
        transaction = known.transaction
        return (
            transaction.state is State.ONGOING
            and transaction.producer == producer
            and partitions <= transaction.partitions
        )

    @contextmanager
    def appending(self, transactional_id: str, producer: ProducerIdentity, place: TopicPartition) -> Iterator[None]:
        """What is appended within it is part of the transaction: no marker can come between."""
        with self._held(lambda: self._of(transactional_id, producer)) as known:
            transaction = known.transaction
            transaction.check_producer(producer)
            if transaction.state.decided:
                raise ConcurrentTransactions(transactional_id)
            if transaction.state is not State.ONGOING or place not in transaction.partitions:
                raise InvalidTransactionState(
                    f'"{place.topic}/{place.partition}" was not added to transaction "{transactional_id}"'
                )
            yield

    def commit_offsets(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        version: int = 0,
    ) -> None:
        """Commit a group's offsets if and when the transaction commits. They must have been secured."""
        place = self._log.group_offsets.place_of(group)
        if version >= NEWER_CLIENTS:
            self.add(transactional_id, producer, {place}, version=version)
        with self.appending(transactional_id, producer, place):
            self._log.group_offsets.commit_pending(producer, group, offsets)

    # -- its end -----------------------------------------------------------------------------------------------------

    def end(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool, version: int = 0
    ) -> ProducerIdentity:
        """Commit or abort; decided for good when this returns. Returns the identity with which the producer goes on."""
        with self._held(lambda: self._of(transactional_id, producer)) as known:
            before = known.transaction
            decided = before.decided(
                producer, commit=commit, version=version,
                fresh_id=self._fresh_id(known), now_ms=self._log.clock.now_ms(),
            )  # fmt: skip
            if decided is before:
                return before.producer
            if commit:
                self._make_durable(before.partitions)
            self._change(known, decided)
            self._write_markers(known)
            fresh = decided.next_producer_id
            return decided.producer if fresh < 0 else ProducerIdentity(fresh, 0)

    def _make_durable(self, partitions: Set[TopicPartition]) -> None:
        """What was appended without waiting for the disk must be there before it counts."""
        for place in sorted(partitions):
            try:
                partition = self._log.partition(*place)
            except (UnknownTopic, UnknownPartition):
                continue  # deleted, and its records with it
            partition.make_durable(partition.end_offset)

    def _abort(self, known: _Known) -> None:
        aborted = known.transaction.aborted_by_coordinator(
            fresh_id=self._fresh_id(known), now_ms=self._log.clock.now_ms()
        )
        self._change(known, aborted)
        self._write_markers(known)

    def _write_markers(self, known: _Known) -> None:
        """Write what a decision needs, as far as that is possible now; `look_after` tries again."""
        transaction = known.transaction
        marker = Marker(transaction.producer, transaction.commits)
        try:
            settled = {}
            for place in sorted(transaction.partitions - known.marked):
                settled[place] = self._append_marker(place, marker)
            for place, settle in settled.items():
                settle()
                known.marked.add(place)
            # No need to wait: if a crash takes this, the markers are written once more, and nothing else happens.
            self._change(known, transaction.completed(now_ms=self._log.clock.now_ms()), wait=False)
            known.marked.clear()
        except HeadwaterError as error:
            logger.warning(
                'transaction "%s" is decided, and not all of its markers are written: %s',
                transaction.transactional_id, error,
            )  # fmt: skip

    def _append_marker(self, place: TopicPartition, marker: Marker) -> Callable[[], None]:
        if place.topic == OFFSETS_TOPIC:
            return self._log.group_offsets.append_marker(place.partition, marker)
        try:
            return self.mark(place, marker)
        except (UnknownTopic, UnknownPartition):
            return lambda: None  # deleted: there is nothing left to decide

    def mark(self, place: TopicPartition, marker: Marker) -> Callable[[], None]:
        """Append a marker to a partition, of whatever transaction; what is returned makes it durable.

        For hanging transactions, which no transactional id knows any more; others would lose what is in them.
        """
        partition = self._log.partition(*place)
        batch = marker_batch(marker, now_ms=self._log.clock.now_ms())
        end = partition.append(batch, durable=True, marker=marker, coordinator=True).last_offset + 1
        return partial(partition.make_durable, end)

    # -- looking after them ------------------------------------------------------------------------------------------

    def look_after(self) -> None:
        """Abort what takes too long, write markers that are missing, forget ids that are no longer in use."""
        now_ms = self._log.clock.elapsed_ms()
        for transactional_id, known in list(self._known.items()):
            try:
                with known.lock:
                    self._look_after(transactional_id, known, now_ms)
            except HeadwaterError as error:
                logger.warning('transaction "%s" is looked after later: %s', transactional_id, error)

    def _look_after(self, transactional_id: str, known: _Known, now_ms: int) -> None:
        transaction = known.transaction
        if transaction.state.decided:
            self._write_markers(known)
        elif transaction.state is State.ONGOING:
            if now_ms - known.begun_elapsed_ms > transaction.timeout_ms:
                logger.info('transaction "%s" took too long and is aborted', transactional_id)
                self._abort(known)
        elif now_ms - known.used_elapsed_ms > milliseconds(self._log.settings.transactional_id_expiry):
            with self._lock:
                self._states.write(transactional_id, None)
                self._known.pop(transactional_id, None)
                known.expired = True

    def finish_decided(self) -> None:
        """After a start: what was decided before the crash takes effect."""
        for known in list(self._known.values()):
            with known.lock:
                if known.transaction.state.decided:
                    self._write_markers(known)

    # -- telling of them ---------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction:
        known = self._known.get(transactional_id)
        if known is None or known.transaction.epoch < 0:
            raise UnknownTransaction(transactional_id)
        return known.transaction

    def all(self) -> list[tuple[Transaction, int]]:
        """Each with how long it has been open, in milliseconds; 0 if it is not."""
        now_ms = self._log.clock.elapsed_ms()
        return [
            (known.transaction, now_ms - known.begun_elapsed_ms if known.transaction.state is State.ONGOING else 0)
            for _, known in sorted(self._known.items())
            if known.transaction.epoch >= 0
        ]

    # -- states ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _held(self, find: Callable[[], _Known]) -> Iterator[_Known]:
        """With its lock, and while it is not forgotten."""
        while True:
            known = find()
            with known.lock:
                if not known.expired:
                    yield known
                    return

    def _of(self, transactional_id: str, producer: ProducerIdentity) -> _Known:
        if not transactional_id:
            raise UsageError("a transactional id is not empty")
        known = self._known.get(transactional_id)
        if known is None:
            raise InvalidProducerMapping(transactional_id, producer.id)
        return known

    def _fresh_id(self, known: _Known) -> int:
        """A producer id, where the epochs of the present one may be used up."""
        return self._log.next_producer_id() if known.transaction.epoch >= EPOCH_MAX - 1 else -1

    def _change(self, known: _Known, changed: Transaction, *, wait: bool = True) -> None:
        """The one place where a state changes: on disk first."""
        self._states.write(changed.transactional_id, changed, wait=wait)
        known.transaction, known.used_elapsed_ms = changed, self._log.clock.elapsed_ms()
