"""The topic that keeps the registry: compacted, one partition, read whole at the start."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headwater.errors import CorruptBatch, DamagedRange, UnavailableError, UnknownTopic
from headwater.log.own_topics import ensure_own_topic
from headwater.record import Record
from headwater.registry import records
from headwater.registry.records import Entry

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.registry")

TOPIC = "_schemas"

# Said in full, so that no default for ordinary topics can make this one forget, refuse or move away what it holds.
CONFIGS = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(16 * 1024**2),
    "message.timestamp.type": "CreateTime",
    "remote.storage.enable": "false",
}


class Journal(Protocol):
    """Where the registry's entries are kept."""

    damage: str
    """What of them could not be read; "" if all could."""

    def read(self) -> Iterator[Entry]:
        """All of them, in their order."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Returns when they are durable; raises if they are not, or may not be."""


class TopicJournal:
    """The topic `_schemas` of a log; it is made with the first entry."""

    def __init__(self, log: "Log") -> None:
        self._log = log
        self.damage = ""

    def read(self) -> Iterator[Entry]:
        try:
            offset: int | None = self._log.partition(TOPIC, 0).start_offset
        except UnknownTopic:
            return
        except UnavailableError as error:  # it is offline: schemas are not served, and all else is
            self._note(str(error))
            return
        while offset is not None:
            start, offset = offset, None
            try:
                for record in self._log.read(TOPIC, 0, offset=start):
                    if (entry := self._understood(record)) is not None:
                        yield entry
            except DamagedRange as damage:
                self._note(str(damage))
                offset = damage.end
            except UnavailableError as error:
                self._note(str(error))
        for gap in self._log.partition(TOPIC, 0).unreadable:  # readers step over what was known to be damaged before
            self._note(f"{TOPIC}/0: {gap}")

    def write(self, entries: Sequence[Entry]) -> None:
        ensure_own_topic(self._log, TOPIC, CONFIGS)
        rows = [records.encode(entry) for entry in entries]
        self._log.append(TOPIC, [Record(value, key) for key, value in rows], partition=0)

    def _understood(self, record: Record) -> Entry | None:
        try:
            return records.decode(record.key or b"", record.value)
        except CorruptBatch as error:
            self._note(f"record {record.offset} of {TOPIC} is skipped: {error}")
        return None

    def _note(self, what: str) -> None:
        logger.error("schemas may be missing: %s", what)
        self.damage = self.damage or what
