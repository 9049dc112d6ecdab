"""The messages of PostgreSQL's logical decoding plugin pgoutput, protocol versions 1 to 4. Pure.

A message is one byte that names its kind, then its fields, big-endian; text ends with a zero byte:

    B begin             commit address int64, time int64, transaction int32
    C commit            flags int8, commit address int64, end address int64, time int64
    O origin            address int64, name
    R relation          id int32, namespace, name, replica identity char, columns int16,
                        each: flags int8 (1: part of the identity), name, type int32, modifier int32
    Y type              id int32, namespace, name
    I insert            relation int32, 'N', tuple
    U update            relation int32, ['K' or 'O', tuple], 'N', tuple
    D delete            relation int32, 'K' or 'O', tuple
    T truncate          relations int32, options int8, that many int32
    M logical message   flags int8 (1: part of a transaction), address int64, prefix, length int32, content
    S stream start      transaction int32, first int8          E stream stop
    c stream commit     transaction int32, then as commit
    A stream abort      transaction int32, subtransaction int32, [version 4: address int64, time int64]
    b begin prepare     prepare address int64, end int64, time int64, transaction int32, name
    P prepare           flags int8, then as begin prepare       p stream prepare: the same
    K commit prepared   flags int8, commit address int64, end int64, time int64, transaction int32, name
    r rollback prepared flags int8, prepare end int64, rollback end int64, two times int64, transaction int32, name

    tuple               columns int16, each: 'n' null; 'u' unchanged and not sent; 't' text or 'b' binary: length int32,
                        that many bytes

Between S and E, the messages R, Y, I, U, D, T and M begin with the transaction they belong to, int32. Times are
microseconds since 2000-01-01. Only UndecodableChange escapes, and no length is believed before it is compared with what
is there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from struct import error as TooShort
from typing import Final, NamedTuple

from headwater.errors import UndecodableChange

EPOCH_US = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970."""


class Unchanged:
    """A large value that an update did not touch, and that the database therefore did not send."""

    def __repr__(self) -> str:
        return "UNCHANGED"


class Binary(bytes):
    """A value in the type's binary form: sent only to those who ask for it."""


UNCHANGED: Final = Unchanged()
Cell = bytes | None | Unchanged
Cells = list[Cell]


class Begin(NamedTuple):
    commit: int
    time_us: int
    transaction: int


class Commit(NamedTuple):
    commit: int
    end: int
    time_us: int


class Origin(NamedTuple):
    address: int
    name: str


class Column(NamedTuple):
    name: str
    type: int
    modifier: int
    identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    id: int
    namespace: str
    name: str
    identity: str
    """d: the primary key, f: the full row, i: an index, n: nothing."""

    columns: tuple[Column, ...]
    transaction: int = 0


class Type(NamedTuple):
    id: int
    namespace: str
    name: str
    transaction: int = 0


class Insert(NamedTuple):
    relation: int
    new: Cells
    transaction: int = 0


class Update(NamedTuple):
    relation: int
    old: Cells | None
    new: Cells
    whole: bool
    """Whether `old` is the full row; else it is the identity only."""

    transaction: int = 0


class Delete(NamedTuple):
    relation: int
    old: Cells
    whole: bool
    transaction: int = 0


class Truncate(NamedTuple):
    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool
    transaction: int = 0


class LogicalMessage(NamedTuple):
    address: int
    prefix: str
    content: bytes
    transactional: bool
    transaction: int = 0


class StreamStart(NamedTuple):
    transaction: int
    first: bool


class StreamStop(NamedTuple):
    pass


class StreamCommit(NamedTuple):
    transaction: int
    commit: int
    end: int
    time_us: int


class StreamAbort(NamedTuple):
    transaction: int
    subtransaction: int
    address: int = 0
    time_us: int = 0


class BeginPrepare(NamedTuple):
    prepare: int
    end: int
    time_us: int
    transaction: int
    name: str


class Prepare(NamedTuple):
    prepare: int
    end: int
    time_us: int
    transaction: int
    name: str


class StreamPrepare(NamedTuple):
    prepare: int
    end: int
    time_us: int
    transaction: int
    name: str


class CommitPrepared(NamedTuple):
    commit: int
    end: int
    time_us: int
    transaction: int
    name: str


class RollbackPrepared(NamedTuple):
    prepare_end: int
    end: int
    prepare_time_us: int
    time_us: int
    transaction: int
    name: str


Message = (
    Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage
    | StreamStart | StreamStop | StreamCommit | StreamAbort
    | BeginPrepare | Prepare | StreamPrepare | CommitPrepared | RollbackPrepared
)  # fmt: skip

_INT16, _INT32 = Struct(">H"), Struct(">I")
_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_ORIGIN = Struct(">Q")
_COLUMN = Struct(">Ii")
_TRUNCATE = Struct(">IB")
_MESSAGE = Struct(">BQ")
_ROW = Struct(">IB")
_STREAM_START = Struct(">IB")
_STREAM_COMMIT = Struct(">IBQQq")
_STREAM_ABORT = Struct(">II")
_ABORTED = Struct(">Qq")
_BEGIN_PREPARE = Struct(">QQqI")
_PREPARE = Struct(">BQQqI")
_ROLLBACK_PREPARED = Struct(">BQQqqI")
NULL, _UNCHANGED_CELL, TEXT, _BINARY = b"nutb"
_KEY, _OLD, NEW = b"KON"
_STREAM_BEGINS = ord("S")
_STREAM_BOUNDS = frozenset(b"SE")


class Decoder:
    """Remembers one thing only: whether a stream of an unfinished transaction is open."""

    def __init__(self) -> None:
        self._streaming = False

    def decode(self, message: bytes) -> Message:
        """One whole message. UndecodableChange if it is not one."""
        if not message:
            raise UndecodableChange("an empty message came from the database")
        kind = message[0]
        reader = _READERS.get(kind)
        if reader is None:
            raise UndecodableChange(f"a message of the unknown kind {message[:1]!r} came from the database")
        try:
            found, end = reader(message, 1, self._streaming)
        except (TooShort, IndexError):
            raise UndecodableChange(f"a message {message[:1]!r} of {len(message)} bytes is cut off") from None
        if end != len(message):
            raise UndecodableChange(f"a message {message[:1]!r} has {len(message) - end} bytes after its end")
        if kind in _STREAM_BOUNDS:
            self._streaming = kind == _STREAM_BEGINS
        return found


def _text(message: bytes, position: int) -> tuple[str, int]:
    end = message.find(b"\0", position)
    if end < 0:
        raise UndecodableChange(f"a message {message[:1]!r} has a name without an end")
    try:
        return message[position:end].decode(), end + 1
    except UnicodeDecodeError:
        raise UndecodableChange(f"a message {message[:1]!r} has a name that is not UTF-8") from None


def _transaction(message: bytes, position: int, streaming: bool) -> tuple[int, int]:
    if not streaming:
        return 0, position
    return _INT32.unpack_from(message, position)[0], position + 4


def read_tuple(message: bytes, position: int) -> tuple[Cells, int]:
    (count,) = _INT16.unpack_from(message, position)
    position += 2
    cells: Cells = []
    append, int32, end, text = cells.append, _INT32.unpack_from, len(message), TEXT
    for _ in range(count):
        kind = message[position]
        if kind == text:
            start = position + 5
            position = start + int32(message, position + 1)[0]
            if position > end:
                raise UndecodableChange(f"a value claims {position - start} bytes where {end - start} remain")
            append(message[start:position])
        elif kind == NULL:
            append(None)
            position += 1
        else:
            cell, position = _read_rare_cell(message, position)
            append(cell)
    return cells, position


def _read_rare_cell(message: bytes, position: int) -> tuple[Cell, int]:
    kind = message[position]
    if kind == _UNCHANGED_CELL:
        return UNCHANGED, position + 1
    if kind != _BINARY:
        raise UndecodableChange(f"a value is of the unknown kind {chr(kind)!r}")
    start = position + 5
    end = start + _INT32.unpack_from(message, position + 1)[0]
    if end > len(message):
        raise UndecodableChange(f"a value claims {end - start} bytes where {len(message) - start} remain")
    return Binary(message[start:end]), end


def _expect(message: bytes, position: int, *kinds: int) -> int:
    if message[position] not in kinds:
        raise UndecodableChange(f"a message {message[:1]!r} has {chr(message[position])!r} where a row should begin")
    return message[position]


def _read_begin(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    commit, time, transaction = _BEGIN.unpack_from(message, position)
    return Begin(commit, time + EPOCH_US, transaction), position + _BEGIN.size


def _read_commit(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    _, commit, end, time = _COMMIT.unpack_from(message, position)
    return Commit(commit, end, time + EPOCH_US), position + _COMMIT.size


def _read_origin(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    (address,) = _ORIGIN.unpack_from(message, position)
    name, position = _text(message, position + 8)
    return Origin(address, name), position


def _read_relation(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, position = _transaction(message, position, streaming)
    (id,) = _INT32.unpack_from(message, position)
    namespace, position = _text(message, position + 4)
    name, position = _text(message, position)
    identity = chr(message[position])
    if identity not in "dfin":
        raise UndecodableChange(f"relation {name} has the unknown replica identity {identity!r}")
    (count,) = _INT16.unpack_from(message, position + 1)
    position += 3
    columns = []
    for _ in range(count):
        flags = message[position]
        column, position = _text(message, position + 1)
        type, modifier = _COLUMN.unpack_from(message, position)
        position += _COLUMN.size
        columns.append(Column(column, type, modifier, bool(flags & 1)))
    # The catalog's own namespace is sent as an empty name.
    return Relation(id, namespace or "pg_catalog", name, identity, tuple(columns), transaction), position


def _read_type(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, position = _transaction(message, position, streaming)
    (id,) = _INT32.unpack_from(message, position)
    namespace, position = _text(message, position + 4)
    name, position = _text(message, position)
    return Type(id, namespace or "pg_catalog", name, transaction), position


def _read_insert(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction = 0
    if streaming:
        transaction, position = _transaction(message, position, streaming)
    relation, kind = _ROW.unpack_from(message, position)
    if kind != NEW:
        _expect(message, position + 4, NEW)
    cells, position = read_tuple(message, position + 5)
    return Insert(relation, cells, transaction), position


def _read_update(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, position = _transaction(message, position, streaming)
    (relation,) = _INT32.unpack_from(message, position)
    old, whole = None, False
    kind = _expect(message, position + 4, _KEY, _OLD, NEW)
    position += 5
    if kind != NEW:
        whole = kind == _OLD
        old, position = read_tuple(message, position)
        _expect(message, position, NEW)
        position += 1
    new, position = read_tuple(message, position)
    return Update(relation, old, new, whole, transaction), position


def _read_delete(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, position = _transaction(message, position, streaming)
    (relation,) = _INT32.unpack_from(message, position)
    kind = _expect(message, position + 4, _KEY, _OLD)
    old, position = read_tuple(message, position + 5)
    return Delete(relation, old, kind == _OLD, transaction), position


def _read_truncate(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, position = _transaction(message, position, streaming)
    count, options = _TRUNCATE.unpack_from(message, position)
    position += _TRUNCATE.size
    if count > (len(message) - position) // 4:
        raise UndecodableChange(f"a truncation claims {count} tables where {len(message) - position} bytes remain")
    relations = Struct(f">{count}I").unpack_from(message, position)
    return Truncate(relations, bool(options & 1), bool(options & 2), transaction), position + 4 * count


def _read_message(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, position = _transaction(message, position, streaming)
    flags, address = _MESSAGE.unpack_from(message, position)
    prefix, position = _text(message, position + _MESSAGE.size)
    (length,) = _INT32.unpack_from(message, position)
    position += 4
    if length > len(message) - position:
        raise UndecodableChange(f"a logical message claims {length} bytes where {len(message) - position} remain")
    content = message[position : position + length]
    return LogicalMessage(address, prefix, content, bool(flags & 1), transaction), position + length


def _read_stream_start(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, first = _STREAM_START.unpack_from(message, position)
    return StreamStart(transaction, bool(first)), position + _STREAM_START.size


def _read_stream_stop(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    return StreamStop(), position


def _read_stream_commit(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, _, commit, end, time = _STREAM_COMMIT.unpack_from(message, position)
    return StreamCommit(transaction, commit, end, time + EPOCH_US), position + _STREAM_COMMIT.size


def _read_stream_abort(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    transaction, subtransaction = _STREAM_ABORT.unpack_from(message, position)
    position += _STREAM_ABORT.size
    if position == len(message):
        return StreamAbort(transaction, subtransaction), position
    address, time = _ABORTED.unpack_from(message, position)
    return StreamAbort(transaction, subtransaction, address, time + EPOCH_US), position + _ABORTED.size


def _read_begin_prepare(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    prepare, end, time, transaction = _BEGIN_PREPARE.unpack_from(message, position)
    name, position = _text(message, position + _BEGIN_PREPARE.size)
    return BeginPrepare(prepare, end, time + EPOCH_US, transaction, name), position


_Prepared = type[Prepare] | type[StreamPrepare] | type[CommitPrepared]


def _reader_of(kind: _Prepared) -> "Callable[[bytes, int, bool], tuple[Message, int]]":
    def read(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
        _, address, end, time, transaction = _PREPARE.unpack_from(message, position)
        name, position = _text(message, position + _PREPARE.size)
        return kind(address, end, time + EPOCH_US, transaction, name), position

    return read


def _read_rollback_prepared(message: bytes, position: int, streaming: bool) -> tuple[Message, int]:
    _, prepare_end, end, prepared, time, transaction = _ROLLBACK_PREPARED.unpack_from(message, position)
    name, position = _text(message, position + _ROLLBACK_PREPARED.size)
    return RollbackPrepared(prepare_end, end, prepared + EPOCH_US, time + EPOCH_US, transaction, name), position


# Every kind of message there is, by its first byte.
_READERS: dict[int, Callable[[bytes, int, bool], tuple[Message, int]]] = {
    ord("B"): _read_begin,
    ord("C"): _read_commit,
    ord("O"): _read_origin,
    ord("R"): _read_relation,
    ord("Y"): _read_type,
    ord("I"): _read_insert,
    ord("U"): _read_update,
    ord("D"): _read_delete,
    ord("T"): _read_truncate,
    ord("M"): _read_message,
    ord("S"): _read_stream_start,
    ord("E"): _read_stream_stop,
    ord("c"): _read_stream_commit,
    ord("A"): _read_stream_abort,
    ord("b"): _read_begin_prepare,
    ord("P"): _reader_of(Prepare),
    ord("p"): _reader_of(StreamPrepare),
    ord("K"): _reader_of(CommitPrepared),
    ord("r"): _read_rollback_prepared,
}
