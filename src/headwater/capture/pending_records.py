"""Records that wait to be appended to one partition, in their order."""

from headwater.capture.appender import Appender
from headwater.log.record_contents import Contents, contents_of
from headwater.record import Record


class PendingRecords:
    """Given one by one, or many at once with their contents written: both may follow each other."""

    __slots__ = ("_pieces", "records")

    def __init__(self) -> None:
        self._pieces: list[Contents] = []
        self.records: list[Record] = []
        """The records after all contents: a caller appends here."""

    def __len__(self) -> int:
        """How many records wait."""
        return sum(len(piece.times) for piece in self._pieces) + len(self.records)

    def add_contents(self, contents: Contents) -> None:
        self._close_records()
        self._pieces.append(contents)

    def _close_records(self) -> None:
        if self.records:
            self._pieces.append(contents_of(self.records))
            self.records = []

    def append(self, appender: Appender, topic: str, partition: int) -> int:
        """Writes to the log; returns the offset after the last record."""
        if not self._pieces:
            return appender.append(topic, partition, self.records)
        self._close_records()
        return appender.append_contents(topic, partition, self._pieces)
