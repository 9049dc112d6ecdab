"""One transactional id: its producer, its epoch, its transaction. An immutable value; a change is a new one. Pure.

What fences. A request names a producer id and an epoch; only those of this value are served. The epoch grows

    when a producer registers               the one before it is a zombie
    when the coordinator aborts by itself   time is up, or a producer registers; the one that had it may go on, if no
                                            other registered since: its epoch is remembered as the last
    at each end, for newer clients          a late request of the transaction before must not count for the next

and when epochs are used up (EPOCH_MAX), the next producer gets a fresh producer id.
"""

from collections.abc import Set
from dataclasses import dataclass, replace

from headwater.errors import (
    ConcurrentTransactions,
    InvalidProducerMapping,
    InvalidTransactionState,
    ProducerFenced,
)
from headwater.log.transactions.lifecycle import NEXT, Answer, Event, State
from headwater.record import TopicPartition

EPOCH_MAX = 2**15 - 2
"""The last that a producer may have; the one after it is for the marker that fences it."""

NEWER_CLIENTS = 2
"""The transaction version from which on every end brings a new epoch."""


@dataclass(frozen=True)
class ProducerIdentity:
    """A producer id and an epoch."""

    id: int
    epoch: int


@dataclass(frozen=True, kw_only=True)
class Transaction:
    transactional_id: str
    producer_id: int
    epoch: int = -1
    last_epoch: int = -1
    """The epoch before, if only the same producer can know it; a request with it repeats one that was answered."""
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    updated_ms: int = -1
    version: int = 0
    """Of the client that began it."""
    previous_producer_id: int = -1
    next_producer_id: int = -1
    """Takes over when this transaction ends, because epochs are used up."""

    @property
    def producer(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def commits(self) -> bool:
        return self.state is State.PREPARE_COMMIT

    def next(self, event: Event) -> State | Answer:
        return NEXT[self.state, event]

    # -- registering -------------------------------------------------------------------------------------------------

    def check_expected(self, expected: ProducerIdentity) -> None:
        """A producer that goes on after an error says who it was: only the newest one may."""
        known = expected.id == self.producer_id or (
            expected.id == self.previous_producer_id and expected.epoch >= EPOCH_MAX
        )
        if self.epoch >= 0 and not known:
            raise self.fenced(expected)

    def registered(
        self, expected: ProducerIdentity | None, *, timeout_ms: int, fresh_id: int, now_ms: int
    ) -> "Transaction":
        """As the next producer with this transactional id finds it; `fresh_id` is used if epochs are used up."""
        empty = replace(
            self, state=State.EMPTY, partitions=frozenset(), started_ms=-1, updated_ms=now_ms, timeout_ms=timeout_ms
        )
        used_up = (self.epoch, self.last_epoch) if self.epoch > EPOCH_MAX else (self.epoch,)
        if self.epoch >= EPOCH_MAX and (expected is None or expected.epoch in used_up):
            last = -1 if expected is None else expected.epoch
            return replace(empty, producer_id=fresh_id, epoch=0, last_epoch=last, previous_producer_id=self.producer_id)
        if expected is None:
            return replace(empty, epoch=self.epoch + 1, last_epoch=-1)
        if self.epoch < 0 or expected.epoch == self.epoch:
            return replace(empty, epoch=self.epoch + 1, last_epoch=self.epoch)
        if expected.epoch == self.last_epoch:
            return empty  # it missed the answer
        raise self.fenced(expected)

    # -- within a transaction ----------------------------------------------------------------------------------------

    def check_producer(self, producer: ProducerIdentity) -> None:
        if producer.id != self.producer_id:
            raise InvalidProducerMapping(self.transactional_id, producer.id)
        if producer.epoch != self.epoch:
            raise self.fenced(producer)

    def with_partitions(self, added: Set[TopicPartition], *, version: int, now_ms: int) -> "Transaction":
        """Returns itself if they are in it already."""
        self._raise_unless_state(self.next(Event.ADD))
        if self.state is not State.ONGOING:
            fresh = frozenset(added)
            return replace(
                self, state=State.ONGOING, partitions=fresh, started_ms=now_ms, updated_ms=now_ms, version=version
            )
        if added <= self.partitions:
            return self
        return replace(self, partitions=self.partitions | added, updated_ms=now_ms, version=version)

    # -- its end -----------------------------------------------------------------------------------------------------

    def decided(
        self, producer: ProducerIdentity, *, commit: bool, version: int, fresh_id: int, now_ms: int
    ) -> "Transaction":
        """As a producer ends it. Returns itself where the end was answered before."""
        again = self._again(producer) if version >= NEWER_CLIENTS else False
        if not again:
            self.check_producer(producer)
        outcome = self.next(_end(commit=commit, again=again, version=version))
        if outcome is Answer.DONE:
            return self
        state = self._raise_unless_state(outcome)
        begun = self if self.state is State.ONGOING else replace(self, partitions=frozenset(), started_ms=now_ms)
        return replace(begun, version=version)._decided(state, fresh_id=fresh_id, now_ms=now_ms)

    def _again(self, producer: ProducerIdentity) -> bool:
        if producer.id == self.producer_id:
            return producer.epoch == self.epoch - 1
        return producer.id == self.previous_producer_id and producer.epoch >= EPOCH_MAX and self.epoch == 0

    def aborted_by_coordinator(self, *, fresh_id: int, now_ms: int) -> "Transaction":
        """Its producer is fenced, whichever it is: the marker carries an epoch that it does not have.

        It grows by one for clients of both versions. A newer one that asks for the end after this learns the epoch.
        """
        following = fresh_id if self.epoch >= EPOCH_MAX and self.version >= NEWER_CLIENTS else -1
        return replace(
            self, state=State.PREPARE_ABORT, updated_ms=now_ms,
            epoch=min(self.epoch + 1, EPOCH_MAX + 1), last_epoch=self.epoch, next_producer_id=following,
        )  # fmt: skip

    def _decided(self, state: State, *, fresh_id: int, now_ms: int) -> "Transaction":
        if self.version < NEWER_CLIENTS:
            return replace(self, state=state, updated_ms=now_ms)
        # EPOCH_MAX + 1 is on the marker only: the producer goes on with a fresh id, and epoch 0.
        following = fresh_id if self.epoch >= EPOCH_MAX else -1  # of a newer client only
        return replace(
            self, state=state, updated_ms=now_ms,
            epoch=min(self.epoch + 1, EPOCH_MAX + 1), last_epoch=self.epoch, next_producer_id=following,
        )  # fmt: skip

    def completed(self, *, now_ms: int) -> "Transaction":
        state = self._raise_unless_state(self.next(Event.WRITTEN))
        ended = replace(self, state=state, partitions=frozenset(), updated_ms=now_ms, next_producer_id=-1)
        if self.next_producer_id < 0:
            return ended
        return replace(ended, producer_id=self.next_producer_id, epoch=0, previous_producer_id=self.producer_id)

    def _raise_unless_state(self, outcome: State | Answer) -> State:
        if isinstance(outcome, State):
            return outcome
        if outcome is Answer.WAIT:
            raise ConcurrentTransactions(self.transactional_id)
        if outcome is Answer.FENCED:
            raise self.fenced(self.producer)
        raise InvalidTransactionState(
            f'transaction "{self.transactional_id}" is in state {self.state.value}: {outcome.value}'
        )

    def fenced(self, producer: ProducerIdentity) -> ProducerFenced:
        return ProducerFenced(self.transactional_id, epoch=producer.epoch, newest=self.epoch)


def _end(*, commit: bool, again: bool, version: int) -> Event:
    if version < NEWER_CLIENTS:
        return Event.OLD_COMMIT if commit else Event.OLD_ABORT
    if again:
        return Event.COMMIT_AGAIN if commit else Event.ABORT_AGAIN
    return Event.COMMIT if commit else Event.ABORT
