"""A version of a table, as the log describes it before its rows. Pure.

With binlog_row_metadata = FULL the log itself has all that is needed to read the rows that follow: names, types, signs,
character sets, members of enums, the primary key. So rows are read by the table of their own time, and no code has to
understand ALTER TABLE.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.capture.mariadb_binlog.events import packed_integer
from headwater.errors import SourceGap, UndecodableChange

TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 6, 7, 8, 9
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 11, 12, 13, 14, 15, 16, 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
DECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 246, 247, 248, 252, 253, 254, 255
META_BYTES = {
    FLOAT: 1, DOUBLE: 1, VARCHAR: 2, BIT: 2, DECIMAL: 2, BLOB: 1, GEOMETRY: 1, STRING: 2, VAR_STRING: 2, ENUM: 2,
    SET: 2, TIME2: 1, TIMESTAMP2: 1, DATETIME2: 1, BLOB_COMPRESSED: 1, VARCHAR_COMPRESSED: 2,
}  # fmt: skip
NUMBERS = {TINY, SHORT, LONG, LONGLONG, INT24, FLOAT, DOUBLE, DECIMAL, YEAR}
TEXTS = {VARCHAR, VAR_STRING, STRING, BLOB, BLOB_COMPRESSED, VARCHAR_COMPRESSED, GEOMETRY}
SIGNS, DEFAULT_CHARSET, COLUMN_CHARSETS, NAMES, SETS, ENUMS = 1, 2, 3, 4, 5, 6
KEY, KEY_WITH_PREFIXES, MEMBERS_DEFAULT_CHARSET, MEMBERS_CHARSETS = 8, 9, 10, 11
METADATA = "SET GLOBAL binlog_row_metadata = 'FULL'"


class Column(NamedTuple):
    name: str
    type: int
    """What the value is, also where the log says STRING of an enum or a set."""

    meta: int
    """What the type says beside: a length, digits, or how many bytes a length has."""

    unsigned: bool = False
    collation: int = 0
    members: tuple[bytes, ...] = ()
    """Of an enum or a set."""


class Described(NamedTuple):
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    """Indexes of the primary key's columns, ascending."""


def describe(content: bytes) -> Described:
    """What a table map says, without the id in front. SourceGap if it lacks the names: its rows cannot be decoded."""
    try:
        return _describe(content)
    except (IndexError, ValueError) as problem:
        raise UndecodableChange(f"the description of a table cannot be read: {problem}") from None


def _describe(content: bytes) -> Described:
    schema, at = _short_text(content, 2)
    table, at = _short_text(content, at)
    count, at = packed_integer(content, at)
    types = content[at : at + count]
    meta_bytes, at = packed_integer(content, at + count)
    metas = content[at : at + meta_bytes]
    at += meta_bytes + (count + 7) // 8
    if len(types) < count or at > len(content):
        raise UndecodableChange(f"the description of table {schema}.{table} is cut off")
    more = dict(_fields(content, at))
    if NAMES not in more:
        raise SourceGap(
            f"the database's log has no names for the columns of {schema}.{table}",
            f'Run "{METADATA}", then copy the tables again: "headwater capture snapshot NAME".',
        )
    kinds = list(_kinds(types, metas))
    names = [name.decode() for name in _texts(more[NAMES])]
    if len(names) != count:
        raise UndecodableChange(f"table {schema}.{table} has {count} columns and {len(names)} names")
    signs = _signs(more.get(SIGNS, b""), [kind for kind, _ in kinds])
    collations = _collations(more, kinds)
    members = {which: list(_members(more.get(of, b"")))[::-1] for which, of in ((SET, SETS), (ENUM, ENUMS))}
    columns = tuple(
        Column(
            names[index], kind, meta, signs[index], collations.get(index, 0),
            members[kind].pop() if kind in members else (),
        )
        for index, (kind, meta) in enumerate(kinds)
    )  # fmt: skip
    key = _key(more)
    if any(index >= count for index in key):
        raise UndecodableChange(f"the key of table {schema}.{table} has a column that it does not have")
    return Described(schema, table, columns, key)


def _short_text(content: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + content[at]
    return content[at + 1 : end].decode(), end + 1


def _fields(content: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(content):
        kind = content[at]
        size, at = packed_integer(content, at + 1)
        if at + size > len(content):
            raise UndecodableChange("the description of a table is cut off")
        yield kind, content[at : at + size]
        at += size


def _kinds(types: bytes, metas: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    for kind in types:
        size = META_BYTES.get(kind, 0)
        raw = metas[at : at + size]
        at += size
        if kind == STRING:
            yield _string(raw[0], raw[1])
        elif kind in (DECIMAL, BIT):
            yield kind, raw[0] | raw[1] << 8
        else:
            yield kind, int.from_bytes(raw, "little")


def _string(first: int, second: int) -> tuple[int, int]:
    """CHAR, ENUM and SET share a type; two bits of a long CHAR's length hide in it.

    >>> _string(247, 1), _string(254, 40), _string(206, 252)
    ((247, 1), (254, 40), (254, 1020))
    """
    if first & 0x30 != 0x30:
        return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4
    return first, second


def _signs(bits: bytes, kinds: list[int]) -> list[bool]:
    found, at = list[bool](), 0
    for kind in kinds:
        if kind in NUMBERS:
            found.append(at // 8 < len(bits) and bool(bits[at // 8] & 0x80 >> at % 8))
            at += 1
        else:
            found.append(False)
    return found


def _numbers(data: bytes) -> list[int]:
    found, at = list[int](), 0
    while at < len(data):
        number, at = packed_integer(data, at)
        found.append(number)
    return found


def _texts(data: bytes) -> list[bytes]:
    found, at = list[bytes](), 0
    while at < len(data):
        size, at = packed_integer(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _members(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed_integer(data, at)
        members = []
        for _ in range(count):
            size, at = packed_integer(data, at)
            members.append(data[at : at + size])
            at += size
            if at > len(data):
                raise UndecodableChange("the members of an enum or a set are cut off")
        yield tuple(members)


def _collations(more: dict[int, bytes], kinds: list[tuple[int, int]]) -> dict[int, int]:
    """By index of the column: listed one by one, or as one of all with exceptions."""
    found: dict[int, int] = {}
    for wanted, one_by_one, default in (
        (TEXTS, COLUMN_CHARSETS, DEFAULT_CHARSET),
        ({ENUM, SET}, MEMBERS_CHARSETS, MEMBERS_DEFAULT_CHARSET),
    ):
        indexes = [index for index, (kind, _) in enumerate(kinds) if kind in wanted]
        if one_by_one in more:
            found |= dict(zip(indexes, _numbers(more[one_by_one]), strict=True))
        elif default in more:
            usual, *others = _numbers(more[default])
            exceptions = dict(zip(others[::2], others[1::2], strict=True))
            found |= {index: exceptions.get(number, usual) for number, index in enumerate(indexes)}
    return found


def _key(more: dict[int, bytes]) -> tuple[int, ...]:
    if KEY in more:
        return tuple(sorted(_numbers(more[KEY])))
    return tuple(sorted(_numbers(more.get(KEY_WITH_PREFIXES, b""))[::2]))
