"""Events of MariaDB's binary log, from their bytes. Pure.

    header   when (4)  type (1)  server (4)  size (4)  end (4)  flags (2)
    body     as the type says
    checksum CRC32 (4), if the log has them

`end` is the place in the file behind the event. Events are decoded as far as every type has the same form; what is
inside a table map and inside rows depends on the table, and is read in table_map.py and values.py.
"""

import zlib
from struct import Struct, error
from typing import NamedTuple

from headwater.capture.mariadb_binlog.charsets import Charsets
from headwater.capture.mariadb_binlog.gtid import Gtid
from headwater.errors import UndecodableChange

_HEADER = Struct("<IBIIIH")
_QUERY = Struct("<IIBHH")
_GTID = Struct("<QIB")
_XA = Struct("<III")
_CHECKSUM = Struct("<I")
HEADER_BYTES, CHECKSUM_BYTES, TABLE_ID_BYTES = 19, 4, 6
VERSION_BYTES = 50
ARTIFICIAL, IGNORABLE = 0x20, 0x80

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR, FORMAT, XID = 2, 3, 4, 5, 13, 14, 15, 16
TABLE_MAP, INCIDENT, HEARTBEAT, XA_PREPARE = 19, 26, 27, 38
ANNOTATE_ROWS, CHECKPOINT, GTID, GTID_LIST, START_ENCRYPTION, QUERY_COMPRESSED = 160, 161, 162, 163, 164, 165
INSERT, CHANGE, REMOVE = "insert", "update", "delete"
ROWS = {
    23: (INSERT, 1, False), 24: (CHANGE, 1, False), 25: (REMOVE, 1, False),
    30: (INSERT, 2, False), 31: (CHANGE, 2, False), 32: (REMOVE, 2, False),
    166: (INSERT, 1, True), 167: (CHANGE, 1, True), 168: (REMOVE, 1, True),
    169: (INSERT, 2, True), 170: (CHANGE, 2, True), 171: (REMOVE, 2, True),
}  # fmt: skip
"""Of each type of event with rows: what was done, the version of its form, whether it is compressed."""

PASSED_OVER = {STOP, INTVAR, RAND, USER_VAR, ANNOTATE_ROWS, CHECKPOINT, GTID_LIST, START_ENCRYPTION, 28, 29}
STANDALONE, GROUP_COMMIT, PREPARED_XA, COMPLETED_XA = 1, 2, 64, 128
COMPRESSED_BYTES_MAX = 1024**3
STATUS_BYTES = {0: 4, 1: 8, 3: 4}
STATUS_CHARSETS, STATUS_CATALOG = 4, 6
"""Of a statement's variables: how long those are that stand before its character sets."""

NO_CHARSETS = Charsets({}, {})


class Header(NamedTuple):
    time_s: int
    type: int
    server: int
    size: int
    end: int
    flags: int

    @property
    def artificial(self) -> bool:
        """Not in the file: made up by the server for whoever reads it."""
        return bool(self.flags & ARTIFICIAL)


class Rotate(NamedTuple):
    """What follows is in this file, from this place on."""

    place: int
    file: str


class Format(NamedTuple):
    version: str
    checksums: bool


class Begin(NamedTuple):
    gtid: Gtid
    flags: int

    @property
    def standalone(self) -> bool:
        """One statement follows, and no commit."""
        return bool(self.flags & STANDALONE)

    @property
    def prepared(self) -> bool:
        return bool(self.flags & PREPARED_XA)


class Query(NamedTuple):
    schema: str
    statement: str


class Commit(NamedTuple):
    """Of an engine with transactions."""


class Prepared(NamedTuple):
    """The first half of a distributed transaction ends here; `XA COMMIT` of this name is the second."""

    name: str
    at_once: bool


class TableMap(NamedTuple):
    table: int
    content: bytes
    """All behind the id: the same bytes are the same version of the same table."""


class Rows(NamedTuple):
    kind: str
    table: int
    width: int
    """How many columns the table has."""

    present: bytes
    """Which of them each row has: of an update, the row as it was."""

    present_after: bytes
    data: bytes


class Heartbeat(NamedTuple):
    """Nothing new; the server stands at the header's `end` of this file."""

    file: str


class Incident(NamedTuple):
    """The server says that its log lacks something."""

    said: str


class Other(NamedTuple):
    """Nothing that a capture needs to know."""


Event = Rotate | Format | Begin | Query | Commit | Prepared | TableMap | Rows | Heartbeat | Incident | Other


class Decoder:
    """Knows whether events end with a checksum, as the log's own description says; then each is verified. Statements
    are in the character set of whoever gave them; without the server's sets they are taken for UTF-8."""

    def __init__(self, charsets: Charsets = NO_CHARSETS) -> None:
        self._charsets = charsets
        self._checksums: bool | None = None

    def decode(self, data: bytes) -> tuple[Header, Event]:
        """One whole event. UndecodableChange if it is not one."""
        try:
            header = Header(*_HEADER.unpack_from(data))
            if header.size != len(data):
                raise UndecodableChange(f"an event of {header.size} bytes came with {len(data)}")
            if header.type == FORMAT:
                found = _format(data)
                self._checksums = found.checksums
                return header, found
            return header, _read(header, self._verified(data, header), self._charsets)
        except (error, IndexError, ValueError, zlib.error) as problem:
            raise UndecodableChange(f"an event of {len(data)} bytes cannot be read: {problem}") from None

    def _verified(self, data: bytes, header: Header) -> bytes:
        """The body without its checksum. What comes before the description of the log may have one or not."""
        if self._checksums is False:
            return data[HEADER_BYTES:]
        right = (
            len(data) >= HEADER_BYTES + CHECKSUM_BYTES
            and zlib.crc32(data[:-CHECKSUM_BYTES]) == (_CHECKSUM.unpack_from(data, len(data) - CHECKSUM_BYTES)[0])
        )
        if self._checksums and not right:
            raise UndecodableChange(
                f"an event that ends at {header.end} has a wrong checksum",
                "The database's log is damaged: copy the tables anew.",
            )
        return data[HEADER_BYTES:-CHECKSUM_BYTES] if right else data[HEADER_BYTES:]


def _format(data: bytes) -> Format:
    body = data[HEADER_BYTES:]
    version = int.from_bytes(body[:2], "little")
    header_bytes = body[2 + VERSION_BYTES + 4]
    if version != 4 or header_bytes != HEADER_BYTES:
        raise UndecodableChange(
            f"the log is of version {version} with headers of {header_bytes} bytes, and not 4 and 19"
        )
    server = body[2 : 2 + VERSION_BYTES].split(b"\0")[0].decode("ascii", "replace")
    return Format(server, body[-CHECKSUM_BYTES - 1] == 1)


def _read(header: Header, body: bytes, charsets: Charsets) -> Event:
    kind = header.type
    if kind in ROWS:
        return _rows(kind, body)
    if kind == TABLE_MAP:
        return TableMap(int.from_bytes(body[:TABLE_ID_BYTES], "little"), body[TABLE_ID_BYTES:])
    if kind == GTID:
        sequence, domain, flags = _GTID.unpack_from(body)
        return Begin(Gtid(domain, header.server, sequence), flags)
    if kind == XID:
        return Commit()
    if kind in (QUERY, QUERY_COMPRESSED):
        return _query(body, charsets, compressed=kind == QUERY_COMPRESSED)
    if kind == ROTATE:
        return Rotate(int.from_bytes(body[:8], "little"), body[8:].decode())
    if kind == HEARTBEAT:
        return Heartbeat(body.decode())
    if kind == XA_PREPARE:
        return _prepared(body)
    if kind == INCIDENT:
        return Incident(body[3:].decode("utf-8", "replace"))
    if kind in PASSED_OVER or header.flags & IGNORABLE:
        return Other()
    raise UndecodableChange(
        f"the database's log has an event of the unknown type {kind}", "Captures are tested with MariaDB 10.11."
    )


def _query(body: bytes, charsets: Charsets, *, compressed: bool) -> Query:
    _, _, schema_length, _, status_length = _QUERY.unpack_from(body)
    start = _QUERY.size + status_length
    end = start + schema_length
    statement = body[end + 1 :]
    if compressed:
        statement = inflated(statement)
    collation = _client_collation(body[_QUERY.size : start])
    return Query(body[start:end].decode("utf-8", "replace"), charsets.decoded(statement, collation))


def _client_collation(status: bytes) -> int:
    """In which collation a statement was given, of the variables in front of it; 0 if they do not say.

    >>> _client_collation(bytes([0, 1, 2, 3, 4, 6, 3]) + b"std" + bytes([4, 8, 0, 8, 0, 45, 0]))
    8
    """
    at = 0
    while at < len(status):
        kind = status[at]
        if kind == STATUS_CHARSETS:
            return int.from_bytes(status[at + 1 : at + 3], "little")
        if kind == STATUS_CATALOG:
            at += 2 + status[at + 1]
        elif kind in STATUS_BYTES:
            at += 1 + STATUS_BYTES[kind]
        else:
            return 0  # all that may stand before the character sets is known
    return 0


def _prepared(body: bytes) -> Prepared:
    at_once = bool(body[0])
    number, first, second = _XA.unpack_from(body, 1)
    content = body[1 + _XA.size :]
    return Prepared(xa_name(number, content[:first], content[first : first + second]), at_once)


def xa_name(number: int, first: bytes, second: bytes) -> str:
    """As the statements name it.

    >>> xa_name(1, b"a", b"")
    "X'61',X'',1"
    """
    return f"X'{first.hex()}',X'{second.hex()}',{number}"


def _rows(kind: int, body: bytes) -> Rows:
    what, version, compressed = ROWS[kind]
    table = int.from_bytes(body[:TABLE_ID_BYTES], "little")
    at = TABLE_ID_BYTES + 2
    if version == 2:
        at += int.from_bytes(body[at : at + 2], "little")
    width, at = packed_integer(body, at)
    size = (width + 7) // 8
    present = present_after = body[at : at + size]
    at += size
    if what == CHANGE:
        present_after = body[at : at + size]
        at += size
    if at > len(body) or width == 0:
        raise UndecodableChange(f"rows of {width} columns are cut off")
    data = body[at:]
    return Rows(what, table, width, present, present_after, inflated(data) if compressed else data)


def inflated(data: bytes) -> bytes:
    """What MariaDB has compressed: a byte that says how many bytes of length follow, the length, and zlib's stream."""
    first = data[0]
    count = first & 0x07
    length = int.from_bytes(data[1 : 1 + count], "big")
    if (first & 0x70) != 0 or not 1 <= count <= 4 or length > COMPRESSED_BYTES_MAX:
        raise UndecodableChange(f"an event is compressed in an unknown way: {data[:5]!r}")
    found = zlib.decompressobj().decompress(data[1 + count :], length + 1)
    if len(found) != length:
        raise UndecodableChange(f"an event unpacks to {len(found)} bytes, and not {length}")
    return found


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """A number in one byte, or in as many as its first one says.

    >>> packed_integer(bytes([250]), 0), packed_integer(bytes([252, 1, 1]), 0)
    ((250, 1), (257, 3))
    """
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}.get(first)
    if size is None or at + 1 + size > len(data):
        raise UndecodableChange(f"{first} begins no number")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
