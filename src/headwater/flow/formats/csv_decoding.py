"""CSV, one record in each value, its fields in the order of the schema. Compiled.

A field may stand in quotes, and a quote inside them is doubled; line breaks may stand inside quotes. Nothing at all is
null, "" in quotes is an empty text. One line break at the end of the value is dropped.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidFormat, InvalidSchema
from headwater.flow.formats.assembling import assemble
from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder, shortened
from headwater.flow.formats.kernels.cells import (
    FALSE,
    INTEGER,
    MISSING,
    NULL,
    NUMBER,
    TEXT,
    TRUE,
    Cells,
    cells_of,
    cells_of_values,
)
from headwater.flow.formats.kernels.columns import convert
from headwater.flow.formats.kernels.compiling import compiled, inner
from headwater.flow.formats.kernels.memory import address_of, byte_at, put_byte, put_int32
from headwater.flow.formats.kernels.times import TimeReading
from headwater.flow.formats.kernels.utf8 import after_letter
from headwater.flow.formats.schema import Schema, type_name
from headwater.flow.formats.time_options import time_reading

OPTIONS = ("delimiter", "quote", "timezone")
GOOD, OPEN_QUOTE, BEHIND_QUOTE, NOT_UTF8 = 0, -1, -2, -3
SENTENCES = {
    OPEN_QUOTE: "not CSV: a quote is opened and never closed",
    BEHIND_QUOTE: "not CSV: something follows a closing quote before the next delimiter",
    NOT_UTF8: "not CSV: the bytes are not UTF-8",
}


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    delimiter, quote = options.get("delimiter", ","), options.get("quote", '"')
    for name, mark in (("delimiter", delimiter), ("quote", quote)):
        if len(mark) != 1 or not mark.isascii() or mark in "\r\n":
            raise InvalidFormat(f"option {name} of format csv cannot be {mark!r}", "It is one ASCII character.")
    if delimiter == quote:
        raise InvalidFormat(f"delimiter and quote of format csv cannot both be {quote!r}")
    for field in schema.fields:
        if pa.types.is_nested(field.type):
            raise InvalidSchema(
                f'column "{field.name}" is {type_name(field.type)}, which a field of CSV cannot hold',
                "Read it as a string and take it apart in the flow, or use json.",
            )
    return CsvDecoder(schema, ord(delimiter), ord(quote), time_reading("csv", options))


class CsvDecoder:
    def __init__(self, schema: Schema, delimiter: int, quote: int, times: TimeReading) -> None:
        self._schema, self._times = schema, times
        self._delimiter = delimiter
        self._quote = quote

    def decode(self, values: pa.BinaryArray) -> Decoded:
        rows = cells_of_values(values, TEXT)
        wanted = len(self._schema.fields)
        shape = (wanted, len(rows.kinds))
        starts, ends = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
        kinds, found = np.empty(shape, dtype=np.uint8), np.zeros(shape[1], dtype=np.int32)
        body = np.empty(int((rows.ends - rows.starts).sum(dtype=np.int64)), dtype=np.uint8)
        _scan(*rows, self._delimiter, self._quote, body, starts, ends, kinds, found)
        columns = [
            convert(_typed(cells_of(body, starts[at], ends[at], kinds[at]), field.type), field.type,
                    times=self._times, required=not field.nullable)
            for at, field in enumerate(self._schema.fields)
        ]  # fmt: skip
        return assemble(self._schema, columns, found == wanted, lambda row: _why(rows, int(found[row]), row, wanted))


def _why(rows: Cells, found: int, row: int, wanted: int) -> str:
    if rows.kinds[row] == MISSING:
        return NULL_VALUE
    reason = SENTENCES.get(found, f"{found} fields, where the schema has {wanted} columns")
    return f"{reason}: {shortened(rows.text(row))}"


def _typed(cells: Cells, kind: pa.DataType) -> Cells:
    """The same cells, with numbers and truth values known for what they are where the column is of such a type."""
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return cells
    kinds = cells.kinds.copy()
    _recognise(cells.body, cells.starts, cells.ends, kinds)
    return cells_of(cells.body, cells.starts, cells.ends, kinds)


@inner
def _field(body, offset, end, delimiter, quote, target, position):  # type: ignore[no-untyped-def]
    """Copy one field without its quotes. Returns the offset of the delimiter or the end, that in the target, quoted."""
    quoted = offset < end and byte_at(body, offset) == quote
    inside = quoted
    if quoted:
        offset += 1
    while offset < end:
        byte = byte_at(body, offset)
        if inside and byte == quote:
            if offset + 1 < end and byte_at(body, offset + 1) == quote:
                offset += 1
            else:
                inside = False
                offset += 1
                break
        elif not inside and byte == delimiter:
            break
        after = offset + 1 if byte < 0x80 else after_letter(body, offset, end)
        if after < 0:
            return NOT_UTF8, position, quoted
        while offset < after:
            put_byte(target, position, byte_at(body, offset))
            position += 1
            offset += 1
    if inside:
        return OPEN_QUOTE, position, quoted
    if quoted and offset < end and byte_at(body, offset) != delimiter:
        return BEHIND_QUOTE, position, quoted
    return offset, position, quoted


@inner
def _record(  # type: ignore[no-untyped-def]
    body, offset, end, delimiter, quote, target, position, wanted, cells, row
):
    """All fields of one value: how many there are, or what is wrong; and the offset in the target."""
    starts, ends, kinds, rows = cells
    count = 0
    while True:
        begin = position
        offset, position, quoted = _field(body, offset, end, delimiter, quote, target, position)
        if offset < 0:
            return offset, position
        if count < wanted:
            put_int32(starts, count * rows + row, begin)
            put_int32(ends, count * rows + row, position)
            put_byte(kinds, count * rows + row, TEXT if quoted or position > begin else NULL)
        count += 1
        if offset >= end:
            return count, position
        offset += 1


@compiled
def _scan(  # type: ignore[no-untyped-def]
    body, row_starts, row_ends, row_kinds, delimiter, quote, unquoted, starts, ends, kinds, found
):
    text, target = address_of(body), address_of(unquoted)
    wanted, rows = kinds.shape
    cells = (address_of(starts), address_of(ends), address_of(kinds), rows)
    position = 0
    for row in range(rows):
        count = 0
        if row_kinds[row] != MISSING:
            offset, end = np.int64(row_starts[row]), np.int64(row_ends[row])
            if end > offset and byte_at(text, end - 1) == 10:
                end -= 1
                if end > offset and byte_at(text, end - 1) == 13:
                    end -= 1
            count, position = _record(text, offset, end, delimiter, quote, target, position, wanted, cells, row)
        found[row] = count
        if count != wanted:
            for number in range(wanted):
                kinds[number, row] = MISSING


@inner
def _lower_word(body, start, end, word):  # type: ignore[no-untyped-def]
    if end - start != len(word):
        return False
    for distance in range(len(word)):  # noqa: SIM110  the compiler knows no all()
        if (byte_at(body, start + distance) | 32) != word[distance]:
            return False
    return True


@inner
def _number_kind(body, offset, end):  # type: ignore[no-untyped-def]
    """INTEGER for digits with or without a sign, NUMBER with point or exponent too, else TEXT."""
    if offset < end and (byte_at(body, offset) == 43 or byte_at(body, offset) == 45):
        offset += 1
    digits, point, exponent = 0, False, False
    kind = INTEGER
    while offset < end:
        byte = byte_at(body, offset)
        if 48 <= byte <= 57:
            digits += 1
        elif byte == 46 and not point and not exponent:
            point = True
            kind = NUMBER
        elif (byte | 32) == 101 and digits > 0 and not exponent:
            exponent = True
            kind = NUMBER
            digits = 0
            if offset + 1 < end and (byte_at(body, offset + 1) == 43 or byte_at(body, offset + 1) == 45):
                offset += 1
        else:
            return TEXT
        offset += 1
    return kind if digits > 0 else TEXT


_TRUE_WORD, _FALSE_WORD = np.frombuffer(b"true", dtype=np.uint8), np.frombuffer(b"false", dtype=np.uint8)


@compiled
def _recognise(body, starts, ends, kinds):  # type: ignore[no-untyped-def]
    text = address_of(body)
    for row in range(len(starts)):
        if kinds[row] == TEXT:
            if _lower_word(text, starts[row], ends[row], _TRUE_WORD):
                kinds[row] = TRUE
            elif _lower_word(text, starts[row], ends[row], _FALSE_WORD):
                kinds[row] = FALSE
            else:
                kinds[row] = _number_kind(text, np.int64(starts[row]), np.int64(ends[row]))
