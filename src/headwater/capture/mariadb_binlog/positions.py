"""Positions of a capture: in the server's binary log, and in the capture's own notes. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.capture.notes import Note
from headwater.errors import UndecodableChange


class BinlogPosition(NamedTuple):
    """A position in the server's binary log: comparable as long as it is the same server."""

    file: int
    position: int


def binlog_position(file: str, position: int) -> BinlogPosition:
    """
    >>> binlog_position("mysql-bin.000012", 500)
    BinlogPosition(file=12, position=500)
    """
    try:
        return BinlogPosition(int(file.rpartition(".")[2]), position)
    except ValueError:
        raise UndecodableChange(f"{file[:80]!r} is no file of a binary log") from None


@dataclass(frozen=True)
class Reached:
    """How far the capture is, as it is noted: all groups up to a GTID position have passed, and how many that were.

    The last of them is described, so that a log with the same numbers and another content is found out.
    """

    gtid: str
    count: int = 0
    before: str | None = None
    """The position before the last group; None if nothing has passed yet."""

    last: str = ""
    mark: int = 0
    time_ms: int = 0
    """The latest time that a record was given. The log has times of when statements began, in whole seconds, and not in
    order; but a reader of a table takes the version with the latest time for the last one."""

    def to_note(self) -> dict[str, object]:
        return {"gtid": self.gtid, "count": self.count, "before": self.before, "last": self.last, "mark": self.mark,
                "time_ms": self.time_ms}  # fmt: skip

    @classmethod
    def from_note(cls, note: Note) -> "Reached":
        before = note.get("before")
        return cls(
            str(note["gtid"]), int(str(note["count"])), None if before is None else str(before),
            str(note.get("last", "")), int(str(note.get("mark", 0))), int(str(note.get("time_ms", 0))),
        )  # fmt: skip
