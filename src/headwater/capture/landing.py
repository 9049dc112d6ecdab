"""What a topic already has of a capture, as its own records tell. Decides what to write, and what not again."""

from collections.abc import Iterable

from headwater.capture.appender import Appender, last_records
from headwater.capture.change import NOWHERE, SourcePosition
from headwater.capture.envelope import POSITION_HEADER, SNAPSHOT_HEADER
from headwater.errors import SourceGap
from headwater.record import Record


class Landing:
    """One topic: the position of each partition's last record, and which rows of an unfinished chunk are there."""

    def __init__(self, appender: Appender, topic: str, partitions: int) -> None:
        self.topic, self.partitions = topic, partitions
        self._appender = appender
        self.last: list[SourcePosition] = []
        self._read: dict[bytes, set[bytes]] = {}
        for partition in range(partitions):
            self._look(partition)

    def _look(self, partition: int) -> None:
        tail = last_records(self._appender, self.topic, partition, 1)
        if not tail:
            self.last.append(NOWHERE)
            return
        last = tail[-1]
        self.last.append(position_of(last, self.topic))
        if (chunk := header_of(last, SNAPSHOT_HEADER)) is not None:
            self._read.setdefault(chunk, set()).update(self._keys_at_the_end(partition, chunk))

    def _keys_at_the_end(self, partition: int, chunk: bytes) -> Iterable[bytes]:
        """Keys of the last records that were read by this snapshot, without one of another kind between."""
        count = 1024
        while True:
            tail = last_records(self._appender, self.topic, partition, count)
            keys: list[bytes] = []
            for record in reversed(tail):
                if header_of(record, SNAPSHOT_HEADER) != chunk:
                    return keys
                keys.append(record.key or b"")
            if len(tail) < count:
                return keys
            count *= 4

    def fresh(self, partition: int, position: SourcePosition) -> bool:
        """Whether a record at this position is still to be written; if so, it counts as written from here on."""
        if position <= self.last[partition]:
            return False
        self.last[partition] = position
        return True

    def read_already(self, chunk: bytes, key: bytes | None) -> bool:
        """Whether an interrupted attempt at a snapshot has written this row: it is not read twice."""
        return key is not None and key in self._read.get(chunk, ())


def header_of(record: Record, name: str) -> bytes | None:
    return next((value for header, value in record.headers if header == name), None)


def position_of(record: Record, topic: str) -> SourcePosition:
    text = header_of(record, POSITION_HEADER)
    if text is None:
        raise SourceGap(
            f'the last record of topic "{topic}" was not written by a capture',
            "A captured topic has one writer: capture into a topic of its own.",
        )
    return SourcePosition.from_header(text)
