"""Messages that are put aside: a copy in the dead-letter topic, once, that says why.

A failed message is written down as failed, with the end of the dead-letter partition at that time, before it is
copied, and as archived after its copy is durable. A crash between leaves it failed: then the copy is looked for from
that end on.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headwater.errors import DamagedRange, HeadwaterError, UnknownTopic, UsageError
from headwater.log.batch_format import encode_batch
from headwater.log.own_topics import ensure_own_topic
from headwater.log.partition import Partition
from headwater.log.queues.candidates import records_in
from headwater.log.queues.ranges import Range
from headwater.log.reader import read_some, read_stored
from headwater.log.writer import batches_of
from headwater.record import Header, Record, TopicPartition

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")

CONFIGS = {"retention.ms": "-1"}
"""Of a dead-letter topic that did not exist: what is in it waits for a person."""

PREFIX = "headwater.queue."
QUEUE, TOPIC, PARTITION, OFFSET = (PREFIX + name for name in ("name", "topic", "partition", "offset"))
DELIVERIES, FIRST_ERROR, LAST_ERROR = (PREFIX + name for name in ("deliveries", "first.error", "last.error"))


class DeadLetters:
    """Of one partition of one queue. Its caller makes one call at a time."""

    def __init__(self, log: "Log", queue: str, of: TopicPartition) -> None:
        self._log, self._queue, self._of = log, queue, of
        self._copied: set[int] | None = None
        """Offsets of failed messages of which there is a copy already; None: not looked for yet."""

    def ensure(self, topic: str) -> None:
        """Make the topic if there is none. Not under a lock: whoever deletes a topic waits for those of its queues."""
        try:
            self._log.topic(topic)
        except UnknownTopic:
            ensure_own_topic(self._log, topic, CONFIGS)

    def end_offset(self, topic: str) -> int:
        """From where on a copy that is made now will be found."""
        return self._partition(topic).end_offset

    def copy(self, topic: str, rows: Sequence[Range]) -> None:
        """Returns when all these messages have a durable copy. HeadwaterError: some may not have, to be tried again."""
        partition = self._partition(topic)
        if self._copied is None:
            self._copied = self._found_from(partition, min(row.mark for row in rows))
        missing = [(offset, row) for row in rows for offset in range(row.first, row.last + 1)]
        letters = [self._letter(offset, row) for offset, row in missing if offset not in self._copied]
        for group in batches_of([letter for letter in letters if letter], now_ms=self._log.clock.now_ms()):
            self._append(partition, group)
        partition.make_durable(partition.end_offset)
        self._copied -= {offset for offset, _ in missing}

    def _partition(self, topic: str) -> Partition:
        return self._log.partition(topic, self._of.partition % self._log.topic(topic).partitions)

    def _append(self, partition: Partition, letters: Sequence[Record]) -> None:
        assert self._copied is not None
        try:
            partition.append(encode_batch(letters), durable=True)
        except UsageError as refusal:
            if len(letters) > 1:
                for letter in letters:
                    self._append(partition, [letter])
                return
            # Its value is still in the topic where it came from.
            logger.warning("%s takes no copy of %s: %s", partition.directory, letters[0].headers[-4:], refusal)
            partition.append(encode_batch([_without_content(letters[0])]), durable=True)
        self._copied |= {int(dict(letter.headers)[OFFSET] or b"-1") for letter in letters}

    def _letter(self, offset: int, row: Range) -> Record | None:
        """None: the message is not there any more, or there never was one."""
        found = message_at(self._log, self._of, offset)
        if found is None:
            return None
        said: list[Header] = [
            (QUEUE, self._queue.encode()),
            (TOPIC, self._of.topic.encode()),
            (PARTITION, b"%d" % self._of.partition),
            (OFFSET, b"%d" % offset),
            (DELIVERIES, b"%d" % row.deliveries),
            (FIRST_ERROR, row.failure.first.encode(errors="replace")),
            (LAST_ERROR, row.failure.last.encode(errors="replace")),
        ]
        # Those of another queue, through which the message came here, stay readable in front of ours.
        return Record(found.value, found.key, [*found.headers, *said], found.timestamp_ms)

    def _found_from(self, partition: Partition, offset: int) -> set[int]:
        copied: set[int] = set()
        unpacked_max = self._log.settings.decompressed_bytes_max
        offset = max(offset, partition.start_offset)
        while offset < partition.high_watermark:
            try:
                batches, following = read_stored(partition, offset, bytes_max=1024**2)
            except DamagedRange as damage:
                offset = damage.end
                continue
            records = (record for batch in batches for record in records_in(batch, unpacked_max))
            copied |= {origin for record in records if (origin := self._origin(record)) is not None}
            if following == offset:
                break
            offset = following
        return copied

    def _origin(self, letter: Record) -> int | None:
        said = dict(letter.headers)
        mine = (self._queue.encode(), self._of.topic.encode(), b"%d" % self._of.partition)
        offset = said.get(OFFSET)
        return int(offset) if offset and (said.get(QUEUE), said.get(TOPIC), said.get(PARTITION)) == mine else None


def message_at(log: "Log", where: TopicPartition, offset: int) -> Record | None:
    try:
        found, _ = read_some(log.partition(*where), offset, log.settings.decompressed_bytes_max, records_max=1)
    except HeadwaterError:
        return None
    return found[0] if found and found[0].offset == offset else None


def _without_content(letter: Record) -> Record:
    return Record(None, letter.key, letter.headers[-7:], letter.timestamp_ms)


def restored(letters: Iterable[Record]) -> list[Record]:
    """Messages as they were before they were put aside."""
    return [
        Record(one.value, one.key, [header for header in one.headers if not header[0].startswith(PREFIX)])
        for one in letters
    ]
