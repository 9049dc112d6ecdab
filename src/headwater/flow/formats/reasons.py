"""Why a row is bad, for a person: the path to the field, what stands there (shortened), what was expected."""

import pyarrow as pa

from headwater.flow.formats.decoding import shortened
from headwater.flow.formats.kernels.cells import ESCAPED, INTEGER, MISSING, NULL, NUMBER, TEXT, WRONG
from headwater.flow.formats.kernels.columns import Column
from headwater.flow.formats.schema import type_name


def reason_of(column: Column, row: int, path: str) -> str:
    """The first thing that is wrong in a row of the column, inside or outside.

    Follows the wrong states down to the innermost part: the outer ones are wrong only because of it.
    """
    for part in column.parts:
        first, end = (row, row + 1) if part.offsets is None else (part.offsets[row], part.offsets[row + 1])
        for inner in range(first, end):
            if part.column.states[inner] == WRONG:
                return reason_of(part.column, inner, path + _step(column, part.label, inner, int(first)))
    return f"{path}: {_complaint(column, row)}"


def _step(column: Column, label: str, inner: int, first: int) -> str:
    if pa.types.is_map(column.type):
        return f'["{shortened(column.parts[0].column.cells.text(inner), limit=30)}"]'
    return label or f"[{inner - first}]"


def _complaint(column: Column, row: int) -> str:
    kind, cell = column.type, column.cells.kinds[row]
    if cell <= NULL:
        return f"{'missing' if cell == MISSING else 'null'}, and the schema says NOT NULL"
    text = shortened(column.cells.text(row))
    if cell in (TEXT, ESCAPED):
        text = f'"{text}"'
    name = type_name(kind)
    if cell == ESCAPED:
        return f"{text} holds half a surrogate pair, which is no text"
    if pa.types.is_timestamp(kind) and cell in (INTEGER, NUMBER):
        likely = _likely_unit(text)
        if column.times.unit:
            hint = f": it looks like {likely}" if likely else ""
            return f"{text} {column.times.unit} are no time between the years 1 and 9999{hint}"
        hint = f"; it looks like {likely}" if likely else ""
        return f"{text} is a number: set the option timestamp to seconds, millis or micros if it counts those{hint}"
    if (pa.types.is_integer(kind) and cell == INTEGER) or (pa.types.is_decimal(kind) and cell in (INTEGER, NUMBER)):
        return f"{text} does not fit {_with_article(name)}"
    if pa.types.is_binary(kind) and cell == TEXT:
        return f"{text} is not base64"
    return f"{text} is not {_with_article(name)}"


def _likely_unit(text: str) -> str | None:
    """That in which a number is a time of this century.

    >>> _likely_unit("1795000000000000000"), _likely_unit("1795000000"), _likely_unit("12")
    ('nanoseconds', 'seconds', None)
    """
    units = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
    try:
        number = float(text)
    except ValueError:
        return None
    return next((name for name, second in units.items() if 946_684_800 <= number / second < 4_102_444_800), None)


def _with_article(name: str) -> str:
    """
    >>> _with_article("int"), _with_article("date")
    ('an int', 'a date')
    """
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
