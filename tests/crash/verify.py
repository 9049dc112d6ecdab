"""Hold a log that was opened after an accident against what had been promised. Answers sentences about what is wrong.

Looks first (records, offsets, start, look-ups, topics, group offsets), then acts as the clients would: producers send
again what was not answered, and every client continues to write.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from headwater.errors import HeadwaterError
from headwater.log.batch_format import read_header
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.record import Record, TopicPartition
from tests.crash.promises import Batch, PartitionPromise, Promises, Strength, TopicPromise
from tests.crash.workload import GROUPS, encoded

LOOK_UPS = 6
ALARMS = ("its copy", "made again", "instead of", "is not a")


@dataclass
class Verdict:
    anomalies: list[str] = field(default_factory=list)
    records: dict[TopicPartition, list[Record]] = field(default_factory=dict)


def verify(
    log: Log, promises: Promises, *, firm: Strength, seen: Mapping[TopicPartition, int], random: Random
) -> Verdict:
    """`firm`: how strong a promise had to be to survive this kind of accident; `seen`: what readers had been shown."""
    verdict = Verdict()
    verdict.anomalies += _verify_commits(log, promises)
    for topic in promises.topics:
        verdict.anomalies += _verify_topic(log, promises, topic)
        found = _incarnation(log, promises, topic)
        for number in range(found.partitions if found else 0):
            assert found is not None
            partition = TopicPartition(topic, number)
            check = PartitionCheck(
                log.partition(topic, number),
                promises.partition_of(found, partition),
                compacted="compact" in found.configs.get("cleanup.policy", ""),
                firm=firm,
                seen_to=seen.get(partition, 0),
            )
            try:
                verdict.anomalies += check.look(log, random)
                verdict.anomalies += check.go_on(log)
                verdict.records[partition] = check.records
            except (HeadwaterError, OSError) as error:
                verdict.anomalies.append(f"{partition}: {type(error).__name__}: {error}")
    return verdict


def _incarnation(log: Log, promises: Promises, topic: str) -> TopicPromise | None:
    present = next((known for known in log.topics() if known.name == topic), None)
    if present is None:
        return None
    fitting = [promise for promise in promises.topics[topic] if promise and promise.id in (None, present.id)]
    return next((promise for promise in fitting if promise.partitions == present.partitions), None)


def _verify_topic(log: Log, promises: Promises, topic: str) -> Iterator[str]:
    allowed = promises.topics[topic]
    present = next((known for known in log.topics() if known.name == topic), None)
    if present is None:
        if None not in allowed:
            yield f"topic {topic} is missing; it should be one of {allowed}"
        return
    for promise in allowed:
        same = promise and promise.id in (None, present.id) and promise.partitions == present.partitions
        if promise and same and promise.configs == present.configs:
            return
    yield f"topic {topic} is {present}; it should be one of {allowed}"


def _verify_commits(log: Log, promises: Promises) -> Iterator[str]:
    found = {group: log.group_offsets.fetch(group) for group in GROUPS}
    for (group, partition), allowed in promises.commits.items():
        committed = found[group].get(partition)
        offset = None if committed is None else committed.offset
        if offset not in allowed:
            yield f"group {group} has offset {offset} in {partition}; it should be one of {allowed}"
        if offset and partition.topic in {topic.name for topic in log.topics()}:
            end = log.partition(*partition).end_offset
            if offset > end:
                yield f"group {group} has offset {offset} in {partition}, which ends at {end}"


class PartitionCheck:
    def __init__(
        self, live: Partition, promise: PartitionPromise, *, compacted: bool, firm: Strength, seen_to: int
    ) -> None:
        self._live, self._promise, self._compacted = live, promise, compacted
        self._firm, self._seen_to = firm, seen_to
        self._answered: list[tuple[int, Batch]] = []
        self.records: list[Record] = []

    def look(self, log: Log, random: Random) -> Iterator[str]:
        self.records = list(log.read(self._live.topic, self._live.number))
        for sentence in (
            *self._bounds(),
            *self._unsent_records(),
            *self._lost(),
            *self._holes(),
            *self._doubled(),
            *self._look_ups(random),
            *self._false_alarms(),
        ):
            yield f"{self._live.topic_partition}: {sentence}"

    def _promised(self, batch: Batch) -> bool:
        return batch.strength >= self._firm or batch.next_offset <= self._seen_to

    # What it says of itself

    def _false_alarms(self) -> Iterator[str]:
        """No file was damaged: an accident alone must not look like damage."""
        for gap in self._live.unreadable:
            # On a full disk, what is given up goes before the new start offset can be written down (decision 0059).
            if gap.end_offset > self._promise.start_high:
                yield f"it misses what was not deleted: {gap}"
        for said in self._live.recovery_report:
            if any(words in said for words in ALARMS):
                yield f"it takes an accident for damage: {said}"

    # What is there

    def _bounds(self) -> Iterator[str]:
        start, promise = self._live.start_offset, self._promise
        if start > promise.start_high:
            yield f"it starts at {start}; nothing from {promise.start_high} on may be missing"
        if start < promise.start_low:
            yield f"it starts at {start}; records below {promise.start_low} were deleted"
        end = max((batch.next_offset for batch in promise.batches if self._promised(batch)), default=0)
        if not end <= self._live.high_watermark <= self._live.end_offset:
            yield f"it ends at {self._live.high_watermark}/{self._live.end_offset}; {end} was promised"
        offsets = [record.offset for record in self.records]
        if offsets != sorted(set(offsets)):
            yield f"offsets are not in order: {offsets}"

    def _unsent_records(self) -> Iterator[str]:
        known: dict[int, list[tuple[bytes | None, bytes | None, int]]] = {}
        for batch in self._promise.batches:
            for index, (key, value) in enumerate(batch.records):
                known.setdefault(batch.base_offset + index, []).append((key, value, batch.timestamp_ms + index))
        for record in self.records:
            if (record.key, record.value, record.timestamp_ms) not in known.get(record.offset, []):
                yield f"offset {record.offset} holds {record}; it should be one of {known.get(record.offset)}"

    def _lost(self) -> Iterator[str]:
        found = {record.offset for record in self.records}
        newest = {record.key: record.offset for record in self.records}
        for batch in self._promise.batches:
            for index, (key, value) in enumerate(batch.records if self._promised(batch) else ()):
                offset = batch.base_offset + index
                if offset in found or offset < self._live.start_offset:
                    continue
                if not (self._compacted and (newest.get(key, -1) > offset or self._deleted(key, offset))):
                    yield f"offset {offset} ({key!r}: {value!r}) was promised and is missing"

    def _deleted(self, key: bytes | None, offset: int) -> bool:
        """A tombstone at or after the offset removes the key, and itself later."""
        return any(
            batch.base_offset + index >= offset and known == key and value is None
            for batch in self._promise.batches
            for index, (known, value) in enumerate(batch.records)
        )

    def _holes(self) -> Iterator[str]:
        if self._compacted:
            return
        wanted = list(range(self._live.start_offset, self._live.high_watermark))
        if [record.offset for record in self.records] != wanted:
            yield f"readers find {[record.offset for record in self.records]} in {wanted[:1]}..{wanted[-1:]}"

    def _doubled(self) -> Iterator[str]:
        values = [record.value for record in self.records if record.value is not None]
        if len(values) != len(set(values)):
            yield f"values are there twice: {sorted(value for value in set(values) if values.count(value) > 1)}"

    # Look-ups

    def _look_ups(self, random: Random) -> Iterator[str]:
        if not self.records:
            return
        for record in random.sample(self.records, min(LOOK_UPS, len(self.records))):
            yield from self._look_up_offset(record.offset)
            yield from self._look_up_time(record.timestamp_ms + random.randint(-1, 1))
        newest = max(record.timestamp_ms for record in self.records)
        found = self._live.newest_timestamp()
        if found is None or found.timestamp_ms < newest:
            yield f"the newest timestamp is said to be {found}; it is {newest}"

    def _look_up_offset(self, offset: int) -> Iterator[str]:
        piece = self._live.read(offset, bytes_max=1).slices[0]
        header = read_header(piece.file.read_at(piece.position, piece.length))
        if not header.base_offset <= offset <= header.last_offset:
            yield f"a read at {offset} begins with the batch {header.base_offset}..{header.last_offset}"

    def _look_up_time(self, time_ms: int) -> Iterator[str]:
        found = self._live.offset_for_time(time_ms)
        wanted = next((record for record in self.records if record.timestamp_ms >= time_ms), None)
        if (found and tuple(found)) != (wanted and (wanted.timestamp_ms, wanted.offset)):
            yield f"the first record at or after {time_ms} is said to be {found}; it is {wanted}"

    # Going on

    def go_on(self, log: Log) -> Iterator[str]:
        for sentence in (*self._send_again(), *self._write_more(log)):
            yield f"{self._live.topic_partition}: {sentence}"

    def _send_again(self) -> Iterator[str]:
        """Every idempotent producer repeats its last five batches, as if their answers had been lost."""
        sent: dict[int, list[Batch]] = {}
        for batch in self._promise.batches:
            if batch.producer is not None:
                sent.setdefault(batch.producer.id, []).append(batch)
        for batches in sent.values():
            for batch in batches[-5:]:
                appended = self._live.append(encoded(batch), durable=True)
                self._live.make_durable(appended.last_offset + 1)
                same_place = appended.duplicate and appended.base_offset == batch.base_offset
                if self._promised(batch) and not same_place:
                    yield f"{batch} was sent again and answered with {appended}"
                self._answered.append((appended.base_offset, batch))

    def _answered_and_missing(self, found: dict[int, Record]) -> Iterator[str]:
        for base_offset, batch in self._answered:
            for index, (key, value) in enumerate(batch.records):
                offset = base_offset + index
                present = offset in found and (found[offset].key, found[offset].value) == (key, value)
                if not present and not self._compacted and offset >= self._live.start_offset:
                    yield f"{batch} was acknowledged when it was sent again, and is not at {base_offset}"

    def _write_more(self, log: Log) -> Iterator[str]:
        end = self._live.end_offset
        topic, number = self._live.topic_partition
        position = log.append(topic, Record(b"after the accident", key=b"probe"), partition=number)
        if position.offset != end:
            yield f"the next record went to {position.offset}; the end was {end}"
        records = list(log.read(topic, number))
        if not records or records[-1].value != b"after the accident":
            yield f"a record written after the accident is not read back: {records[-1:]}"
        yield from self._answered_and_missing({record.offset: record for record in records})
        self.records, before = records, self.records
        if records[: len(before)] != before:
            yield "records changed their place when writing went on"
        yield from self._doubled()
