"""Values of MariaDB's types, from the bytes of a row in the log to JSON. Pure.

What becomes of a type stands in one table here and in one in text_values.py, which reads the same values as text where
a table is copied; tests compare the two. The rule is that of the other captures: nothing is rounded, and what JSON has
no word for is text.
"""

from struct import Struct, error

import numpy

from headwater.capture.change import Row
from headwater.capture.mariadb_binlog import table_map as types
from headwater.capture.mariadb_binlog.charsets import Charsets, Convert, base64
from headwater.capture.mariadb_binlog.table_map import Column
from headwater.capture.mariadb_binlog.temporal import Reader, date, datetime_of, time_of, timestamp_of, year
from headwater.errors import UndecodableChange

INTEGERS = {types.TINY: 1, types.SHORT: 2, types.INT24: 3, types.LONG: 4, types.LONGLONG: 8}
NULL = b"null"
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_DIGITS_PER_WORD = 9
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def reader(column: Column, charsets: Charsets, *, as_text: Convert | None = None) -> Reader:
    """The function that reads a column's values. `as_text`: how to write a type that the log knows only as bytes."""
    kind, meta = column.type, column.meta
    if kind in INTEGERS:
        return integer(INTEGERS[kind], signed=not column.unsigned)
    match kind:
        case types.FLOAT:
            return single
        case types.DOUBLE:
            return double
        case types.DECIMAL:
            return decimal(meta & 0xFF, meta >> 8)
        case types.VARCHAR | types.VAR_STRING:
            return sized(1 if meta < 256 else 2, charsets.converter(column.collation))
        case types.STRING:
            return fixed(meta, as_text or charsets.converter(column.collation))
        case types.BLOB:
            return sized(meta, charsets.converter(column.collation))
        case types.GEOMETRY:
            return sized(meta, base64)
        case types.ENUM:
            return enum(meta, _member_names(column, charsets))
        case types.SET:
            return members(meta, _member_names(column, charsets))
        case types.BIT:
            return bits(8 * (meta >> 8) + (meta & 0xFF))
        case types.YEAR:
            return year
        case types.DATE | types.NEWDATE:
            return date
        case types.TIME2:
            return time_of(meta)
        case types.DATETIME2:
            return datetime_of(meta)
        case types.TIMESTAMP2:
            return timestamp_of(meta)
    raise UndecodableChange(
        f"column {column.name} is of type {kind}, which captures cannot read",
        "Times of before MariaDB 10.1: ALTER TABLE … FORCE. Compressed columns: MODIFY them without COMPRESSED.",
    )


class RowReader:
    """Reads rows of one version of a table."""

    def __init__(self, readers: list[Reader]) -> None:
        self._readers = readers
        self._bytes_of_all = (len(readers) + 7) // 8

    def rows(self, data: bytes, present: bytes, present_after: bytes | None = None) -> list[tuple[Row, Row | None]]:
        """All rows of an event; of an update, in pairs."""
        found: list[tuple[Row, Row | None]] = []
        pairs = present_after is not None
        first, second = self._chosen(present), self._chosen(present_after or present)
        at, end = 0, len(data)
        try:
            while at < end:
                after = None
                row, at = self._row(data, at, first)
                if pairs:
                    after, at = self._row(data, at, second)
                found.append((row, after))
        except (IndexError, error) as problem:
            raise UndecodableChange(f"rows of {end} bytes cannot be read at {at}: {problem}") from None
        if at != end:
            raise UndecodableChange(f"rows of {end} bytes end at {at}")
        return found

    def _chosen(self, present: bytes) -> list[bool] | None:
        """None if all columns are there."""
        bits = int.from_bytes(present, "little")
        found = [bool(bits >> index & 1) for index in range(len(self._readers))]
        if not any(found):
            raise UndecodableChange("rows have no column at all")
        return None if all(found) else found

    def _row(self, data: bytes, at: int, chosen: list[bool] | None) -> tuple[Row, int]:
        if chosen is not None:
            return self._part(data, at, chosen)
        values_start = at + self._bytes_of_all
        nulls = int.from_bytes(data[at:values_start], "little")
        at, row = values_start, list[bytes | None]()
        for read in self._readers:
            if nulls & 1:
                row.append(NULL)
            else:
                value, at = read(data, at)
                row.append(value)
            nulls >>= 1
        return row, at

    def _part(self, data: bytes, at: int, chosen: list[bool]) -> tuple[Row, int]:
        """A row without some of its columns: they are unknown."""
        values_start = at + (sum(chosen) + 7) // 8
        nulls = int.from_bytes(data[at:values_start], "little")
        at, row = values_start, list[bytes | None]()
        for read, there in zip(self._readers, chosen, strict=True):
            if not there:
                row.append(None)
                continue
            if nulls & 1:
                row.append(NULL)
            else:
                value, at = read(data, at)
                row.append(value)
            nulls >>= 1
        return row, at


# -- numbers -----------------------------------------------------------------------------------------------------------


def integer(size: int, *, signed: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        return b"%d" % int.from_bytes(data[at:end], "little", signed=signed), end

    return read


def single(data: bytes, at: int) -> tuple[bytes, int]:
    """
    >>> single(Struct("<f").pack(0.1), 0)
    (b'0.1', 4)
    """
    return float_text(_FLOAT.unpack_from(data, at)[0]), at + 4


def float_text(value: float) -> bytes:
    """The shortest digits that mean this number of 32 bits."""
    return str(numpy.float32(value)).encode()


def double(data: bytes, at: int) -> tuple[bytes, int]:
    return repr(_DOUBLE.unpack_from(data, at)[0]).encode(), at + 8


def decimal(precision: int, scale: int) -> Reader:
    """Nine digits in four bytes, counted from the point; the sign is the first bit, all bits are turned if it is minus.

    >>> decimal(4, 2)(bytes([0x81, 0x32]), 0), decimal(4, 2)(bytes([0x7E, 0xCD]), 0)
    ((b'"1.50"', 2), (b'"-1.50"', 2))
    """
    words_before, odd_before = divmod(precision - scale, _DIGITS_PER_WORD)
    fraction_words, fraction_odd = divmod(scale, _DIGITS_PER_WORD)
    before = [odd_before] * bool(odd_before) + [_DIGITS_PER_WORD] * words_before
    fraction = [_DIGITS_PER_WORD] * fraction_words + [fraction_odd] * bool(fraction_odd)
    size = sum(_BYTES_OF_DIGITS[digits] for digits in before + fraction)
    turned = (1 << 8 * size) - 1

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        packed = int.from_bytes(data[at:end], "big") ^ 1 << (8 * size - 1)
        minus = bool(packed >> (8 * size - 1))
        raw = ((packed ^ turned) if minus else packed).to_bytes(size, "big")
        position, parts = 0, list[bytes]()
        for digits in before + fraction:
            count = _BYTES_OF_DIGITS[digits]
            parts.append(b"%0*d" % (digits, int.from_bytes(raw[position : position + count], "big")))
            position += count
        whole = b"".join(parts[: len(before)]).lstrip(b"0") or b"0"
        rest = b"." + b"".join(parts[len(before) :]) if scale else b""
        return b'"%b%b%b"' % (b"-" if minus else b"", whole, rest), end

    return read


def bits(count: int) -> Reader:
    """One bit is a truth; several are their digits.

    >>> bits(1)(bytes([1]), 0), bits(10)(bytes([2, 5]), 0)
    ((b'true', 1), (b'"1000000101"', 2))
    """
    size = (count + 7) // 8

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        return bits_text(int.from_bytes(data[at:end], "big"), count), end

    return read


def bits_text(number: int, count: int) -> bytes:
    if count == 1:
        return b"true" if number else b"false"
    return b'"%b"' % format(number, f"0{count}b").encode()


# -- text and bytes ----------------------------------------------------------------------------------------------------


def sized(prefix: int, convert: Convert) -> Reader:
    """As many bytes as the prefix says."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        start = at + prefix
        end = start + int.from_bytes(data[at:start], "little")
        if end > len(data):
            raise UndecodableChange(f"a value claims {end - start} bytes where {len(data) - start} remain")
        return convert(data[start:end]), end

    return read


def fixed(length: int, convert: Convert) -> Reader:
    """CHAR and BINARY: what fills them up is not in the log, and of bytes it belongs to the value."""
    prefix = 1 if length < 256 else 2
    if convert is not base64:
        return sized(prefix, convert)
    return sized(prefix, lambda value: base64(value.ljust(length, b"\0")))


def _member_names(column: Column, charsets: Charsets) -> list[bytes]:
    """Names of members, without their quotes, as they stand in JSON."""
    convert = charsets.converter(column.collation)
    return [convert(member)[1:-1] for member in column.members]


def enum(size: int, names: list[bytes]) -> Reader:
    """By number, from 1; 0 is what was none of them when that was not refused."""
    texts = [b'""', *(b'"%b"' % name for name in names)]

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        return texts[int.from_bytes(data[at:end], "little")], end

    return read


def members(size: int, names: list[bytes]) -> Reader:
    """A bit each, emitted as MariaDB shows them: "a,c"."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        chosen = int.from_bytes(data[at:end], "little")
        return b'"%b"' % b",".join(name for index, name in enumerate(names) if chosen >> index & 1), end

    return read
