"""Values of PostgreSQL's types, from the text the server writes to JSON. Pure.

The server is asked for one way of writing (SESSION below), in UTC. What becomes of a type stands in one table, and in
docs/guide/capture.md; the rule is Debezium's, with decimals, times and intervals as text (its modes `string`,
`isostring`, `string`), because a JSON value without a schema must say all it knows: no number is rounded, no unit has
to be guessed. A type that is not known is the text that PostgreSQL shows.
"""

import re
from binascii import Error as NotHexadecimal
from binascii import a2b_hex, b2a_base64
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import NamedTuple

from headwater.errors import UndecodableChange

Convert = Callable[[bytes], bytes]

SESSION = {
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
}
"""How every session of a capture asks values to be written, whatever the database or the role says otherwise."""

ARRAY, COMPOSITE, DOMAIN, OTHER = "array", "composite", "domain", "other"
DEPTH_MAX = 32


class TypeFacts(NamedTuple):
    """The catalog entry of a type."""

    name: str
    kind: str = OTHER
    below: int = 0
    """The element of an array, the base of a domain."""

    modifier: int = -1
    """Of a domain: the modifier it gives its base."""

    delimiter: str = ","
    fields: tuple[tuple[str, int, int], ...] = ()
    """Of a composite type: name, type and modifier of each field."""


def converter(type: int, modifier: int, catalog: Mapping[int, TypeFacts], *, depth: int = 0) -> Convert:
    """The function that makes JSON of the type's text. The catalog must know the type and all it is made of.

    >>> converter(1700, -1, {1700: TypeFacts("numeric")})(b"1.50")
    b'"1.50"'
    """
    facts = catalog.get(type)
    if facts is None or depth > DEPTH_MAX:
        return text
    match facts.kind:
        case "domain":
            base = modifier if facts.modifier < 0 else facts.modifier
            return converter(facts.below, base, catalog, depth=depth + 1)
        case "array":
            below = catalog.get(facts.below)
            delimiter = below.delimiter if below else ","
            return array_of(converter(facts.below, modifier, catalog, depth=depth + 1), delimiter)
        case "composite":
            inner = [
                (quoted_name(name), converter(field, mod, catalog, depth=depth + 1))
                for name, field, mod in facts.fields
            ]
            return composite_of(inner)
    if facts.name in ("bit", "varbit"):
        return boolean_bit if facts.name == "bit" and modifier == 1 else plain
    return CONVERTERS.get(facts.name, text)


def quoted_name(name: str) -> bytes:
    return encode_basestring(name).encode() + b":"


_SPECIAL = re.compile(rb'[\x00-\x1f"\\]').search


def text(value: bytes) -> bytes:
    """
    >>> text(b'say "no"')
    b'"say \\\\"no\\\\""'
    """
    if _SPECIAL(value) is None:
        return b'"%b"' % value
    return encode_basestring(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def plain(value: bytes) -> bytes:
    """Text that needs no escaping: digits, letters and signs that mean nothing to JSON."""
    return b'"%b"' % value


def number(value: bytes) -> bytes:
    return value


def floating(value: bytes) -> bytes:
    """JSON has no word for what is not a number.

    >>> floating(b"1e+20"), floating(b"NaN"), floating(b"-Infinity")
    (b'1e+20', b'"NaN"', b'"-Infinity"')
    """
    return value if value[-1:].isdigit() else b'"%b"' % value


def boolean(value: bytes) -> bytes:
    return b"true" if value == b"t" else b"false"


def boolean_bit(value: bytes) -> bytes:
    return b"true" if value == b"1" else b"false"


def binary(value: bytes) -> bytes:
    """
    >>> binary(b"\\\\x00ff")
    b'"AP8="'
    """
    try:
        return b'"%b"' % b2a_base64(a2b_hex(value[2:]), newline=False)
    except NotHexadecimal:
        raise UndecodableChange(f"{value[:40]!r} is not bytea in hexadecimal") from None


def date(value: bytes) -> bytes:
    """ISO 8601, with its signed years where four digits of our era do not do; infinity as PostgreSQL writes it.

    >>> date(b"2026-01-31"), date(b"0044-03-15 BC"), date(b"12026-01-31"), date(b"infinity")
    (b'"2026-01-31"', b'"-0043-03-15"', b'"+12026-01-31"', b'"infinity"')
    """
    if len(value) == 10 or value[-1:] == b"y":
        return b'"%b"' % value
    return b'"%b"' % _with_year(value)


def timestamp(value: bytes) -> bytes:
    """
    >>> timestamp(b"2026-01-31 12:00:00.5"), timestamp(b"-infinity")
    (b'"2026-01-31T12:00:00.5"', b'"-infinity"')
    """
    if value[10:11] == b" " and value[-1:] != b"C":
        return b'"%bT%b"' % (value[:10], value[11:])
    if value[-1:] == b"y":
        return b'"%b"' % value
    return b'"%b"' % _with_year(value)


def timestamp_with_zone(value: bytes) -> bytes:
    """
    >>> timestamp_with_zone(b"2026-01-31 12:00:00+00"), timestamp_with_zone(b"0044-03-15 12:00:00.25+00 BC")
    (b'"2026-01-31T12:00:00Z"', b'"-0043-03-15T12:00:00.25Z"')
    """
    if value[10:11] == b" " and value[-3:] == b"+00":
        return b'"%bT%bZ"' % (value[:10], value[11:-3])
    if value[-1:] == b"y":
        return b'"%b"' % value
    return b'"%bZ"' % _with_year(value.replace(b"+00", b""))


def _with_year(value: bytes) -> bytes:
    before_christ = value.endswith(b" BC")
    year, _, rest = value.removesuffix(b" BC").partition(b"-")
    rest = rest.replace(b" ", b"T")
    if before_christ:
        # ISO 8601 has a year 0, which is 1 BC.
        since = int(year) - 1
        return b"%b%04d-%b" % (b"-" if since else b"", since, rest)
    return b"%b%b-%b" % (b"+" if len(year) > 4 else b"", year, rest)


def time_with_zone(value: bytes) -> bytes:
    """
    >>> time_with_zone(b"12:00:00+00"), time_with_zone(b"12:00:00.5-08"), time_with_zone(b"12:00:00+05:30")
    (b'"12:00:00Z"', b'"12:00:00.5-08:00"', b'"12:00:00+05:30"')
    """
    index = max(value.rfind(b"+"), value.rfind(b"-"))
    clock, zone = value[:index], value[index:]
    if zone == b"+00":
        return b'"%bZ"' % clock
    return b'"%b%b%b"' % (clock, zone, b":00" if len(zone) == 3 else b"")


def array_of(convert: Convert, delimiter: str = ",") -> Convert:
    """Arrays of any depth become nested JSON arrays; lower bounds other than 1 are not kept.

    >>> array_of(number)(b"{{1,NULL},{3,4}}")
    b'[[1,null],[3,4]]'
    """
    mark = re.escape(delimiter.encode())
    token = re.compile(rb'"((?:[^"\\]|\\.)*)"|([{}]|%b)|([^{}"%b]+)' % (mark, mark), re.DOTALL)

    def convert_array(value: bytes) -> bytes:
        start = value.index(b"=") + 1 if value[:1] == b"[" else 0
        parts: list[bytes] = []
        for found in token.finditer(value, start):
            if found[2] is not None:
                parts.append({b"{": b"[", b"}": b"]"}.get(found[2], b","))
            elif found[3] is not None:
                parts.append(b"null" if found[3] == b"NULL" else convert(found[3]))
            else:
                parts.append(convert(_unescape(found[1])))
        return b"".join(parts)

    return convert_array


_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


def _unescape(value: bytes) -> bytes:
    return _ESCAPE.sub(rb"\1", value) if b"\\" in value else value


_FIELD = re.compile(rb'((?:"(?:[^"\\]|\\.|"")*"|[^,()"\\]|\\.)*)([,)])', re.DOTALL)
_QUOTE = re.compile(rb'""|\\(.)', re.DOTALL)
_PIECE = re.compile(rb'"((?:[^"\\]|\\.|"")*)"|\\(.)|([^"\\]+)', re.DOTALL)


def composite_of(fields: list[tuple[bytes, Convert]]) -> Convert:
    """
    >>> composite_of([(b'"x":', number), (b'"name":', text)])(b'(1,"a, b")')
    b'{"x":1,"name":"a, b"}'
    """

    def convert_composite(value: bytes) -> bytes:
        cells = [found[1] for found in _FIELD.finditer(value, 1)]
        if not fields:
            return b"{}"
        if len(cells) != len(fields):
            return text(value)  # the type was altered after this row was written
        inner = [
            name + (b"null" if cell == b"" else convert(_unquoted(cell)))
            for (name, convert), cell in zip(fields, cells, strict=True)
        ]
        return b"{" + b",".join(inner) + b"}"

    return convert_composite


def _unquoted(cell: bytes) -> bytes:
    if b'"' not in cell and b"\\" not in cell:
        return cell
    pieces = []
    for found in _PIECE.finditer(cell):
        if found[1] is not None:
            pieces.append(_QUOTE.sub(lambda one: one[1] or b'"', found[1]))
        else:
            pieces.append(found[2] or found[3])
    return b"".join(pieces)


# What becomes of each type. What is not named is text: json, jsonb, xml, ranges, enums, geometry, money and others.
CONVERTERS: dict[str, Convert] = {
    "bool": boolean,
    "int2": number,
    "int4": number,
    "int8": number,
    "oid": number,
    "float4": floating,
    "float8": floating,
    "numeric": plain,
    "bytea": binary,
    "uuid": plain,
    "date": date,
    "timestamp": timestamp,
    "timestamptz": timestamp_with_zone,
    "time": plain,
    "timetz": time_with_zone,
    "interval": plain,
    "inet": plain,
    "cidr": plain,
    "macaddr": plain,
    "macaddr8": plain,
    "pg_lsn": plain,
}
