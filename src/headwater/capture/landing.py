"""What a topic already has of a capture, according to its own records.

Decides which records to write and which to skip.
"""

from headwater.capture.appender import Appender, last_records
from headwater.capture.change import NOWHERE, SourcePosition
from headwater.capture.envelope import POSITION_HEADER, SNAPSHOT_HEADER
from headwater.errors import SourceGap
from headwater.record import Record

READ_BACK_RECORDS = 65_536
"""How far back rows of an unfinished chunk can lie: a chunk, and what came with it in one poll."""


class Landing:
    """One topic: the position of each partition's last record, and which rows of an unfinished chunk are there."""

    def __init__(self, appender: Appender, topic: str, partitions: int) -> None:
        self.topic, self.partitions = topic, partitions
        self._appender = appender
        self.last: list[SourcePosition] = []
        self._read: dict[bytes, set[bytes]] | None = None
        for partition in range(partitions):
            self._look(partition)
        self.landed_from = min(self.last)._replace(number=0)
        """Changes before this are in the topic as a whole: they come again, and nothing is left to be done for them."""

    def _look(self, partition: int) -> None:
        tail = last_records(self._appender, self.topic, partition, 1)
        if not tail:
            self.last.append(NOWHERE)
            return
        self.last.append(position_of(tail[-1], self.topic))

    def fresh(self, partition: int, position: SourcePosition) -> bool:
        """Whether a record at this position is still to be written; if so, it counts as written from here on."""
        if position <= self.last[partition]:
            return False
        self.last[partition] = position
        return True

    def read_already(self, chunk: bytes, key: bytes | None) -> bool:
        """Whether an interrupted attempt at a chunk has written this row: it is not read twice."""
        if key is None:
            return False
        if self._read is None:
            # Looked for once: a chunk that is begun later was not begun before.
            self._read = self._keys_by_chunk()
        return key in self._read.get(chunk, ())

    def _keys_by_chunk(self) -> dict[bytes, set[bytes]]:
        found: dict[bytes, set[bytes]] = {}
        for partition in range(self.partitions):
            first, end = self._appender.bounds(self.topic, partition)
            for record in self._appender.read(self.topic, partition, max(first, end - READ_BACK_RECORDS)):
                if (chunk := header_of(record, SNAPSHOT_HEADER)) is not None:
                    found.setdefault(chunk, set()).add(record.key or b"")
        return found


def header_of(record: Record, name: str) -> bytes | None:
    return next((value for header, value in record.headers if header == name), None)


def position_of(record: Record, topic: str) -> SourcePosition:
    # The last one: an event that is relayed has headers of its own in front, and one may have this name.
    text = next((value for header, value in reversed(record.headers) if header == POSITION_HEADER), None)
    if text is None:
        raise SourceGap(
            f'the last record of topic "{topic}" was not written by a capture',
            "A captured topic has one writer: capture into a topic of its own.",
        )
    return SourcePosition.from_header(text)
