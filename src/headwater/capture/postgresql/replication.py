"""A replication connection: libpq logs in, and from then on this file passes messages. Thin.

What travels inside the copy stream, big-endian:

    from the server   w data        start int64, end int64, time int64, then one message of pgoutput
                      k keepalive   end int64, time int64, answer wanted int8
    from us           r status      written int64, flushed int64, applied int64, time int64, answer wanted int8

psycopg has no interface to replication, but its layer `pq` is libpq itself: passwords (SCRAM, md5), TLS, Unix sockets,
~/.pgpass, service files and PG* variables work as they do in psql.
"""

import select
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from headwater.capture.postgresql.pgoutput import EPOCH_US
from headwater.capture.postgresql.types import SESSION
from headwater.clock import Clock
from headwater.errors import SourceRefused, SourceUnavailable, UndecodableChange

DATA = ord("w")
BEGIN, COMMIT = b"B", b"C"
_DATA = Struct(">BQQq")
_START = Struct(">Q")
_KEEPALIVE = Struct(">BQqB")
_STATUS = Struct(">cQQQqB")
CONNECT_SECONDS = 10
REFUSALS = ("42", "55", "0A", "22")
"""Classes of errors that do not go away by trying again: rights, settings, syntax."""

APPLICATION = "headwater"


class Keepalive(NamedTuple):
    end: int
    """All that was committed before this address has been sent."""

    answer: bool


def parse_data(data: bytes) -> tuple[int, bytes]:
    """Of a message of the copy stream that begins with DATA: the address in the log, and what pgoutput says."""
    if len(data) < _DATA.size:
        raise UndecodableChange(f"{data[:20]!r} is no message of a replication stream")
    return _START.unpack_from(data, 1)[0], data[_DATA.size :]


def parse_keepalive(data: bytes) -> Keepalive:
    """Any other message of the copy stream."""
    if data[:1] == b"k" and len(data) == _KEEPALIVE.size:
        _, end, _, answer = _KEEPALIVE.unpack(data)
        return Keepalive(end, bool(answer))
    raise UndecodableChange(f"{data[:20]!r} is no message of a replication stream")


def whole_end(received: Sequence[bytes]) -> int:
    """How many of these messages to take now, so that the last transaction is not cut: its begin and all after it wait
    for the next ones. One that began earlier, or begins with the first message, is taken in pieces.

    >>> begin, row, commit = (b"w" + bytes(24) + kind for kind in (b"B", b"I", b"C"))
    >>> whole_end([row, commit, begin, row]), whole_end([begin, row, row]), whole_end([begin, row, commit])
    (2, 3, 3)
    """
    for index in range(len(received) - 1, -1, -1):
        kind = received[index][_DATA.size : _DATA.size + 1] if received[index][0] == DATA else b""
        if kind == COMMIT:
            break
        if kind == BEGIN and index:
            return index
    return len(received)


def status_message(flushed: int, *, now_ms: int, answer: bool) -> bytes:
    """
    >>> len(status_message(42, now_ms=0, answer=True))
    34
    """
    return _STATUS.pack(b"r", flushed, flushed, flushed, now_ms * 1000 - EPOCH_US, answer)


class ReplicationConnection:
    """Not thread-safe. Any failure of the connection is a SourceUnavailable."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._clock = clock
        info = make_conninfo(
            url, replication="database", fallback_application_name=APPLICATION, connect_timeout=CONNECT_SECONDS
        )
        self._connection = pq.PGconn.connect(info.encode())
        if self._connection.status != pq.ConnStatus.OK:
            message = _said(self._connection)
            self._connection.finish()
            raise SourceUnavailable(f"the database does not answer: {message}")
        for name, value in SESSION.items():
            self.command(f"SET {name} TO '{value}'")

    def command(self, statement: str) -> list[dict[str, str | None]]:
        """Rows of a replication command or simple statement, as text."""
        result = self._connection.exec_(statement.encode())
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            kind = SourceRefused if state[:2] in REFUSALS else SourceUnavailable
            raise kind(f"the database refused {statement.split(' ')[0]}: {_said(result)}")
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        return [
            {name: _decoded(result.get_value(row, column)) for column, name in enumerate(names)}
            for row in range(result.ntuples)
        ]

    def start(self, slot: str, address: int, options: dict[str, str]) -> None:
        """Begin to stream. The server continues at the address, or at the confirmed one if that is later."""
        listed = ", ".join(f"\"{name}\" '{value}'" for name, value in options.items())
        where = f"{address >> 32:X}/{address & 0xFFFFFFFF:X}"
        result = self._connection.exec_(f'START_REPLICATION SLOT "{slot}" LOGICAL {where} ({listed})'.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise SourceUnavailable(f"the database does not stream slot {slot}: {_said(result)}")
        self._connection.nonblocking = 1

    def receive(self, timeout_seconds: float, *, bytes_max: int) -> list[bytes]:
        """Messages that are there, about `bytes_max` of them at most; waits for the first one."""
        try:
            found = self._ready(bytes_max)
            if not found and self._readable(timeout_seconds):
                self._connection.consume_input()
                found = self._ready(bytes_max)
        except psycopg.Error as error:
            raise SourceUnavailable(f"the connection to the database is lost: {first_line(str(error))}") from None
        return found

    def _readable(self, timeout_seconds: float) -> bool:
        return bool(select.select([self._connection.socket], [], [], timeout_seconds)[0])

    def _ready(self, bytes_max: int) -> list[bytes]:
        """Returns the messages that have arrived, without waiting."""
        found: list[bytes] = []
        room, get = bytes_max, self._connection.get_copy_data
        while room > 0:
            length, data = get(1)
            if length > 0:
                found.append(bytes(data))
                room -= length
            elif length == 0:
                if not found or not self._readable(0):
                    break
                self._connection.consume_input()
            else:
                raise SourceUnavailable(f"the database ended the stream: {_said(self._connection)}")
        return found

    def send_status(self, flushed: int, *, answer: bool) -> None:
        """Confirm that all before `flushed` is durable; the server may discard it at once."""
        message = status_message(flushed, now_ms=self._clock.now_ms(), answer=answer)
        try:
            self._connection.put_copy_data(message)
            while self._connection.flush():
                select.select([], [self._connection.socket], [], 1.0)
        except psycopg.Error as error:
            raise SourceUnavailable(f"the connection to the database is lost: {first_line(str(error))}") from None

    def close(self) -> None:
        self._connection.finish()


def _said(whom: "pq.abc.PGconn | pq.abc.PGresult") -> str:
    return first_line((whom.error_message or b"").decode(errors="replace"))


def first_line(message: str) -> str:
    """The server's own sentence, without what libpq puts around it.

    >>> first_line("ERROR:  it is too late\\nDETAIL:  by a day")
    'it is too late'
    """
    lines = message.strip().splitlines() or ["it gave no reason"]
    return lines[0].removeprefix("ERROR:").removeprefix("FATAL:").strip()


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
