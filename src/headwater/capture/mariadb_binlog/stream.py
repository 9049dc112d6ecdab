"""The connection that the server sends its log through: as to a replica that asks for it by GTID. Thin."""

import zlib
from contextlib import closing
from typing import Any

from headwater.capture.mariadb_binlog.database import connect, database_errors
from headwater.capture.mariadb_binlog.packets import Packets
from headwater.clock import Clock
from headwater.errors import SourceGap, SourceRefused, SourceUnavailable

BINLOG_DUMP = 0x12
FIRST_PLACE = 4
CAPABILITY_GTID = 4
HEARTBEAT_NANOSECONDS = 200_000_000
SILENCE_MS_MAX = 15_000
BEGIN_MS_MAX = 60_000
RECEIVE_BYTES = 256 * 1024
OK, EOF, ERROR = 0x00, 0xFE, 0xFF
LOG_GONE, ACCESS_DENIED = 1236, (1045, 1227)
TAKEN_OVER = ("same server_id", "same server_uuid")
SETTINGS = (
    "SET @master_binlog_checksum = @@global.binlog_checksum",
    f"SET @master_heartbeat_period = {HEARTBEAT_NANOSECONDS}",
    f"SET @mariadb_slave_capability = {CAPABILITY_GTID}",
    "SET @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0",
    "SET SESSION net_write_timeout = 86400",
)


def server_id_of(name: str) -> int:
    """A replica's number: always the same for a capture, and large, where people seldom count.

    >>> server_id_of("headwater_shop_1") >= 2**31
    True
    """
    return 2**31 + zlib.crc32(name.encode()) % (2**31 - 1)


class LogStream:
    """Events as they are written. The server ends an older stream of the same capture by itself."""

    def __init__(self, url: str, clock: Clock, *, position: str, server_id: int, hint: str) -> None:
        self._clock, self._hint = clock, hint
        self._packets = Packets()
        self._waiting: list[bytes] = []
        self._silent_ms = 0
        self._connection: Any = connect(url)
        try:
            self._begin(position, server_id)
        except BaseException:
            self.close()
            raise

    def _begin(self, position: str, server_id: int) -> None:
        with database_errors(), closing(self._connection.cursor()) as cursor:
            for statement in SETTINGS:
                cursor.execute(statement)
            cursor.execute("SET @slave_connect_state = %s", (position,))
            asked = FIRST_PLACE.to_bytes(4, "little") + bytes(2) + server_id.to_bytes(4, "little")
            # From here on the connection is one-way: the driver's own reader has nothing left in its buffer.
            self._connection._execute_command(BINLOG_DUMP, asked)
            self._socket = self._connection._sock
        waited_from_ms = self._clock.elapsed_ms()
        while not self._waiting:
            self._waiting = self._received(1.0)
            if self._clock.elapsed_ms() - waited_from_ms > BEGIN_MS_MAX:
                raise SourceUnavailable(f"the database did not begin to send its log from {position or 'its start'}")

    def receive(self, timeout_seconds: float) -> list[bytes]:
        """Events that are there; waits for the first one."""
        if self._waiting:
            found, self._waiting = self._waiting, []
            return found
        return self._received(timeout_seconds)

    def _received(self, timeout_seconds: float) -> list[bytes]:
        started_ms = self._clock.elapsed_ms()
        try:
            self._socket.settimeout(max(0.001, timeout_seconds))
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            self._silent_ms += self._clock.elapsed_ms() - started_ms
            if self._silent_ms > SILENCE_MS_MAX:
                raise SourceUnavailable("the database has been silent, though it should send a heartbeat") from None
            return []
        except OSError as error:
            raise SourceUnavailable(f"the database ended the stream: {error}") from None
        if not data:
            raise SourceUnavailable("the database ended the stream")
        self._silent_ms = 0
        return [self._event(packet) for packet in self._packets.feed(data)]

    def _event(self, packet: bytes) -> bytes:
        if packet[:1] == bytes([OK]):
            return packet[1:]
        if packet[:1] == bytes([ERROR]):
            self._fail(int.from_bytes(packet[1:3], "little"), packet[9:].decode("utf-8", "replace"))
        raise SourceUnavailable("the database ended the stream: it shuts down, or has nothing more to say")

    def _fail(self, code: int, said: str) -> None:
        if code in ACCESS_DENIED:
            raise SourceRefused(
                f"the database does not send its log: {said}", "Run: GRANT REPLICATION SLAVE ON *.* TO the user."
            )
        if code == LOG_GONE and not any(words in said for words in TAKEN_OVER):
            raise SourceGap(f"the database cannot resume at the capture's position: {said}", self._hint)
        raise SourceUnavailable(f"the database ended the stream: {said}")

    def close(self) -> None:
        # Without the goodbye that PyMySQL would send: the server does not listen.
        self._connection._force_close()
