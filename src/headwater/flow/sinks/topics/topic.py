"""Rows into a topic, each batch once, without transactions.

The job has a producer id of its own, kept with its checkpoint. A batch that comes again is encoded to the same record
batches with the same sequences, and the log knows them for repetitions. Any log remembers five batches per producer and
partition; so that nothing older is ever repeated, a large batch goes in rounds of at most five, and what is in is noted
before the next round begins.

Where a crash may fall, and what the next run does:

    before the state is first written      takes another producer id: nothing was sent under the old one
    within a round                         sends the round again; what is in is recognised
    between a round and its note           the same
    after the last round, before the mark  the same, then the mark
    after the mark                         the batch is skipped

A driver that takes the job over sends the batch that was under way as it was begun; what an older driver still sends
of it is the same, and is recognised. With the next batch it goes on in the next epoch of the producer: the log refuses
the older one from then on.

A log forgets a producer that has been silent for long (producer.id.expiration.ms, a day). So the first round of a run
is held against the topic itself: what it has of it since the last note is not sent again (stored_batches.py).

Tasks with many rows stage them divided by partition (staging.py). Tasks again put the rows of each partition in
order and encode them; the driver sends the record batches they leave, as it would send its own.

Rows come encoded: `_key` and `_value` (binary, null where there is none), `_timestamp_ms`, and what puts them in order:
`_order`. Where there is an `_op`, each `d` is followed by a tombstone of its key.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headwater.errors import DuplicateSequence, JobRefused, UsageError
from headwater.flow.sinks.folders import Note, NoteFolder
from headwater.flow.sinks.staged import CountOnly, Part, RunTasks, Stager, run_here
from headwater.flow.sinks.topics.producer_state import BY_OFFSET, EPOCH_MAX, ProducerState
from headwater.flow.sinks.topics.records import REQUIRED, Encoded, encode
from headwater.flow.sinks.topics.staging import TopicStager, encode_staged
from headwater.flow.sinks.topics.stored_batches import Topics, without_stored
from headwater.log.batch_format import Buffer
from headwater.record import TopicPartition
from headwater.views.mark import Mark

BATCHES_PER_ROUND = 5  # what every log remembers of a producer
BATCH_BYTES = 512 * 1024
COMPRESSION = "lz4"

Batches = dict[TopicPartition, Sequence[Buffer]]


class Producer(Topics, Protocol):
    """What is needed of a Kafka client."""

    def partitions(self, topics: Sequence[str]) -> dict[str, int]: ...

    def init_producer_id(self) -> tuple[int, int]: ...

    def produce(self, batches: Mapping[TopicPartition, Sequence[Buffer]]) -> Mapping[TopicPartition, list[int]]: ...


class TopicSink:
    exactly_once = True

    def __init__(
        self,
        client: Producer,
        topic: str,
        folder: NoteFolder,
        *,
        batch_bytes: int = BATCH_BYTES,
        repair: Callable[[], None] | None = None,
        staging: Path | None = None,
    ) -> None:
        """`folder` is the job's own; the state of this sink is the file `<topic>.json` in it. `repair` is called when
        the topic refuses something, and then it is tried once more. `staging` is a folder that tasks reach too: they
        stage records in it; without it the driver takes all rows.
        """
        self.name = self._topic = topic
        self._client, self._batch_bytes, self._repair = client, batch_bytes, repair
        self._note = Note(folder, f"{self.name}.json")
        self._staging = None if staging is None else staging / self.name
        self._resumed = True
        """Nothing was sent yet: what comes first may have been sent by a run before."""

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        missing = [name for name in REQUIRED if name not in schema.names]
        if missing:
            raise JobRefused(f'rows for topic "{self._topic}" have no column {missing[0]}')
        self._client.partitions([self._topic])  # UnknownTopic now rather than after the first batch was worked out

    def committed(self, job: str) -> int | None:
        state = self._state()
        return state.batch if state is not None and state.job == job and state.batch >= 0 else None

    def stager(self, mark: Mark) -> Stager | None:
        state = self._own_state(mark)
        if mark.batch <= state.batch:
            return CountOnly()
        if self._staging is None or state.keyless != BY_OFFSET:
            return None
        self._clear()
        return TopicStager(str(self._staging), state.partitions, mark.batch)

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return self.publish(mark, (), rows)

    def publish(self, mark: Mark, parts: Sequence[Part], rows: pa.Table, run: RunTasks = run_here) -> bool:
        state = self._own_state(mark)
        if mark.batch <= state.batch:
            return False
        if parts:
            encoded = encode_staged(parts, rows, str(self._staging), state, mark.batch, run)
        else:
            encoded = encode(rows, state, mark.batch)
        self._send_all(state, mark, encoded)
        self._clear()
        return True

    def _send_all(self, state: ProducerState, mark: Mark, encoded: Encoded) -> None:
        pending = None
        for batches in islice(rounds(encoded.batches), state.rounds, None):
            if pending is not None:
                state = self._sent(state, pending)
                state = replace(state, rounds=state.rounds + 1)
                self._store(state)
            pending = batches
        if pending is not None:
            state = self._sent(state, pending)  # noted together with the batch
        if not state.offsets:  # an earlier release kept none
            state = self._located(state)
        self._store(self._refreshed(self._of_driver(state.advanced(mark.batch, encoded.records), mark)))

    def _of_driver(self, state: ProducerState, mark: Mark) -> ProducerState:
        following = state.of_driver(mark.epoch.number)
        if following.epoch <= EPOCH_MAX:
            return following
        id, epoch = self._client.init_producer_id()
        return replace(following, producer_id=id, epoch=epoch)

    def _own_state(self, mark: Mark) -> ProducerState:
        state = self._state() or self._begin(mark)
        if state.job != mark.job:
            raise JobRefused(
                f'the producer of topic "{self._topic}" belongs to job {state.job}, not to {mark.job}',
                "Two jobs may write to one topic, each from a checkpoint of its own.",
            )
        return state

    def _clear(self) -> None:
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)

    def close(self) -> None:
        """The client belongs to the caller."""

    def _begin(self, mark: Mark) -> ProducerState:
        id, epoch = self._client.init_producer_id()
        state = self._refreshed(ProducerState(mark.job, self._topic, id, epoch, 0, 0, "", driver=mark.epoch.number))
        state = self._located(state)
        self._store(state)
        return state

    def _located(self, state: ProducerState) -> ProducerState:
        """With the ends of all partitions: nothing that is sent later lies before them."""
        ends = self._client.ends(TopicPartition(self._topic, number) for number in range(state.partitions))
        return replace(state, offsets={place.partition: end.offset for place, end in ends.items()})

    def _refreshed(self, state: ProducerState) -> ProducerState:
        """Only between batches: what a batch is divided by stays as it is until all of it is in."""
        partitions = self._client.partitions([self._topic])[self._topic]
        return replace(
            state, partitions=partitions, batch_bytes=self._batch_bytes, compression=COMPRESSION,
            keyless=BY_OFFSET,
        )  # fmt: skip

    def _sent(self, state: ProducerState, batches: Batches) -> ProducerState:
        """With the offsets behind what was sent."""
        if self._resumed and state.offsets:
            first = {TopicPartition(self._topic, number): offset for number, offset in state.offsets.items()}
            batches = without_stored(self._client, batches, first)
        self._resumed = False
        stored = self._send(batches) if batches else {}
        behind = {place.partition: offsets[-1] + 1 for place, offsets in stored.items() if offsets}
        return replace(state, offsets={**state.offsets, **behind}) if state.offsets else state

    def _send(self, batches: Batches) -> Mapping[TopicPartition, list[int]]:
        try:
            return self._produce(batches)
        except DuplicateSequence:
            self._send_one_by_one(batches)
            return {}

    def _produce(self, batches: Batches) -> Mapping[TopicPartition, list[int]]:
        try:
            return self._client.produce(batches)
        except UsageError:
            if self._repair is None:
                raise
            self._repair()
            return self._client.produce(batches)

    def _send_one_by_one(self, batches: Batches) -> None:
        """One of them was stored so long ago that its partition is forgotten. That is as good as stored now."""
        for partition, several in batches.items():
            for batch in several:
                try:
                    self._produce({partition: [batch]})
                except DuplicateSequence:
                    continue

    def _state(self) -> ProducerState | None:
        content = self._note.read()
        try:
            return None if content is None else ProducerState.from_json(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._note.damaged(f"it is no state of a producer: {error}") from None

    def _store(self, state: ProducerState) -> None:
        self._note.write(state.to_json())


def rounds(batches: Batches) -> Iterator[Batches]:
    longest = max(map(len, batches.values()), default=0)
    for first in range(0, longest, BATCHES_PER_ROUND):
        behind = first + BATCHES_PER_ROUND
        yield {partition: several[first:behind] for partition, several in batches.items() if several[first:behind]}
