"""The state of idempotent producers in a partition, to recognize a retry. Pure.

Per producer: its epoch and its last five batches. A producer has at most five requests under way, so a retry of
anything that may still be unanswered is recognised and answered with the offset it got the first time.

What a batch with sequence numbers meets:

    same epoch, one of the five              a retry: answered again, not stored again
    same epoch, its sequence, other bytes    OutOfOrderSequence: another batch under a number that was used
    same epoch, older than the five          DuplicateSequence: stored long ago, clients count it as stored
    same epoch, next in line                 stored
    same epoch, anything else                OutOfOrderSequence: a batch before it is missing
    newer epoch, sequence 0                  stored; the old epoch is fenced
    an epoch that a marker brought           stored with sequence 0; the old epoch is fenced
    newer epoch, other sequence              OutOfOrderSequence
    older epoch                              StaleProducerEpoch
    producer unknown                         stored, whatever the sequence: its memory may have expired here

Clients give a number out twice: one whose connection broke may abort a transaction without knowing that a batch of it
was stored, and count on from before it. To take the next batch under this number for a retry would acknowledge what is
stored nowhere. So a retry has to have the same checksum; what else meets the five is refused, and the client begins a
new epoch.
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.errors import DuplicateSequence, InvalidRecord, OutOfOrderSequence, StaleProducerEpoch
from headwater.log.batch_format import BatchHeader

BATCHES_REMEMBERED = 5
SEQUENCES = 2**31
NO_PRODUCER = -1
CLAIMED_FROM = 2**62
UNKNOWN_CRC = -1


class StoredBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    append_time_ms: int
    crc: int = UNKNOWN_CRC
    """As it was sent; not known where the time of the append was written into it."""


@dataclass
class Producer:
    epoch: int
    batches: deque[StoredBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    last_seen_elapsed_ms: int = 0
    marker_offset: int = -1
    """Of the newest marker: also a producer of which nothing else is left must stay fenced."""
    last_timestamp_ms: int = -1


class ProducerStates:
    """The producers of one partition. Not thread-safe; the partition's lock guards it."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def largest_id(self) -> int:
        """Of ids that the log can have given out: a client may claim any, and must not use up the others."""
        return max((id for id in self._producers if id < CLAIMED_FROM), default=NO_PRODUCER)

    def find_duplicate(self, header: BatchHeader) -> StoredBatch | None:
        """The stored batch that this one repeats; None if it is new and may be stored; else an error says why not."""
        if header.producer_id == NO_PRODUCER:
            return None
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecord(f"producer {header.producer_id} sent a batch without epoch or sequence")
        producer = self._producers.get(header.producer_id)
        if producer is None or not (producer.batches or producer.marker_offset >= 0):
            return None
        _check_epoch(producer, header)
        if header.producer_epoch > producer.epoch or not producer.batches:
            if header.base_sequence != 0:
                raise _out_of_order(header, expected=0)
            return None
        return _same_epoch(producer, header)

    def note(self, header: BatchHeader, *, elapsed_ms: int) -> None:
        """Remember a batch that has been stored at the offsets in its header."""
        if header.producer_id == NO_PRODUCER:
            return
        producer = self._producers.get(header.producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            marker_offset = -1 if producer is None else producer.marker_offset
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch)
            producer.marker_offset = marker_offset
        elif header.producer_epoch < producer.epoch:
            return
        append_time_ms = header.max_timestamp if header.append_time else -1
        producer.last_seen_elapsed_ms, producer.last_timestamp_ms = elapsed_ms, header.max_timestamp
        if header.control:
            producer.marker_offset = header.last_offset
            return
        if header.base_sequence < 0:
            return  # offsets in a transaction, written by the coordinator
        producer.batches.append(
            StoredBatch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                append_time_ms,
                UNKNOWN_CRC if header.append_time else header.crc,
            )
        )

    def check_own(self, header: BatchHeader) -> None:
        """A batch of the coordinator has no sequence; StaleProducerEpoch if it speaks of an epoch that is over."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            _check_epoch(producer, header)

    def described(self) -> list[tuple[int, Producer]]:
        return list(self._producers.items())

    def expire(self, *, elapsed_ms: int, expiry_ms: int, kept: Collection[int] = ()) -> int:
        """Forget producers that sent nothing for so long, in time that truly passed; returns how many."""
        idle = [
            id for id, producer in self._producers.items()
            if elapsed_ms - producer.last_seen_elapsed_ms > expiry_ms and id not in kept
        ]  # fmt: skip
        for id in idle:
            del self._producers[id]
        return len(idle)

    def to_rows(self, *, below: int) -> list[list[object]]:
        """Plain lists for the checkpoint: only batches below the offset it covers.

        Those above are read again, if they are still there. One that is remembered and no longer stored would turn its
        retry into an acknowledgement of nothing.
        """
        rows: list[list[object]] = []
        for id, producer in self._producers.items():
            batches = [list(batch) for batch in producer.batches if batch.last_offset < below]
            if 0 <= producer.marker_offset < below:
                rows.append([id, producer.epoch, batches, producer.marker_offset])
            elif batches:
                rows.append([id, producer.epoch, batches])
        return rows

    @classmethod
    def from_rows(cls, rows: Iterable[list[object]], *, elapsed_ms: int) -> "ProducerStates":
        """Restores the producers of a checkpoint.

        Expiry starts again: no producer expires for the time the process was down.
        """
        states = cls()
        for id, epoch, batches, *marker in rows:
            assert isinstance(id, int)
            assert isinstance(epoch, int)
            assert isinstance(batches, list)
            producer = Producer(epoch, last_seen_elapsed_ms=elapsed_ms)
            producer.marker_offset = int(str(marker[0])) if marker else -1
            producer.batches.extend(StoredBatch(*batch) for batch in batches)
            states._producers[id] = producer
        return states


def _check_epoch(producer: Producer, header: BatchHeader) -> None:
    if header.producer_epoch < producer.epoch:
        raise StaleProducerEpoch(
            f"producer {header.producer_id} has epoch {producer.epoch} now; epoch {header.producer_epoch} is over"
        )


def _same_epoch(producer: Producer, header: BatchHeader) -> StoredBatch | None:
    for batch in producer.batches:
        if (batch.first_sequence, batch.last_sequence) == (header.base_sequence, header.last_sequence):
            if batch.crc not in (UNKNOWN_CRC, header.crc):
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} sent another batch under sequence {header.base_sequence}"
                )
            return batch
    expected = (producer.batches[-1].last_sequence + 1) % SEQUENCES
    if header.base_sequence == expected:
        return None
    oldest = producer.batches[0].first_sequence
    if 0 < (oldest - header.last_sequence) % SEQUENCES < SEQUENCES // 2:
        raise DuplicateSequence(
            f"producer {header.producer_id} sent sequence {header.base_sequence} again, stored before {oldest}"
        )
    raise _out_of_order(header, expected=expected)


def _out_of_order(header: BatchHeader, *, expected: int) -> OutOfOrderSequence:
    return OutOfOrderSequence(
        f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} comes next"
    )
