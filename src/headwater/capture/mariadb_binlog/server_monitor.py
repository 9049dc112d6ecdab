"""The state of a server: whether it can be captured, and the lag of the capture."""

from collections import deque

from headwater.capture.mariadb_binlog.assembler import Assembler
from headwater.capture.mariadb_binlog.database import Database
from headwater.capture.mariadb_binlog.positions import BinlogPosition
from headwater.capture.mariadb_binlog.table_map import METADATA
from headwater.capture.source import SourceStatus
from headwater.clock import Clock
from headwater.errors import SourceRefused

LOOK_INTERVAL_MS = 1_000


def require(database: Database) -> int:
    """The server's number. SourceRefused if its log lacks what a capture needs."""
    version = database.one("SELECT VERSION()")
    if "mariadb" not in version.lower():
        raise SourceRefused(
            f"the server is {version}, and no MariaDB",
            "Captures read MariaDB's GTIDs and its consistent snapshots, which MySQL has not.",
        )
    for name, wanted, statement in (
        ("log_bin", "1", "set log_bin in the server's configuration and restart it"),
        ("binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW'"),
        ("binlog_row_metadata", "FULL", METADATA),
        ("binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL'"),
    ):
        found = database.one(f"SELECT @@global.{name}")
        if found != wanted:
            raise SourceRefused(f"{name} is {found}, and must be {wanted}", f"Run: {statement};")
    return int(database.one("SELECT @@global.server_id"))


class Watch:
    """Looks once a second how far the server is. `status` is as it was then."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._looked_at_ms = -(10**9)
        self._seen: deque[tuple[BinlogPosition, int]] = deque()
        self.status = SourceStatus()

    def look(self, assembler: Assembler) -> None:
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._looked_at_ms < LOOK_INTERVAL_MS:
            return
        self._looked_at_ms = now_ms
        end = self._database.log_end()
        if not self._seen or end > self._seen[-1][0]:
            self._seen.append((end, now_ms))
        at = assembler.at
        while self._seen and at is not None and self._seen[0][0] <= at:
            self._seen.popleft()
        self.status.lag_seconds = (now_ms - self._seen[0][1]) / 1000 if self._seen else 0.0
        # Files between the two may have any size: then only the time is reported.
        known = at is not None and at.file == end.file
        self.status.lag_bytes = max(0, end.position - at.position) if known and at is not None else None
