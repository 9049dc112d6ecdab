"""date_format with a pattern that is a literal; the session's zone is UTC (pure)."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array
from headwater.flow.expressions.functions.times import UNITS_US
from headwater.flow.expressions.tree import Expression, Untranslatable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CYCLE_YEARS, CYCLE_US = 400, 146_097 * UNITS_US["day"]
"""After which the calendar repeats: Python knows four digits of a year, and a timestamp has more."""
FIELDS: dict[str, tuple[str, Callable[[datetime, int], str]]] = {
    "yyyy": ("day", lambda time, year: _year(year if year > 0 else 1 - year)),
    "MM": ("day", lambda time, year: f"{time.month:02}"),
    "dd": ("day", lambda time, year: f"{time.day:02}"),
    "HH": ("hour", lambda time, year: f"{time.hour:02}"),
    "mm": ("minute", lambda time, year: f"{time.minute:02}"),
    "ss": ("second", lambda time, year: f"{time.second:02}"),
    "SSS": ("millisecond", lambda time, year: f"{time.microsecond // 1000:03}"),
}
"""What every Java writes the same, in every language: the unit that a text depends on, and the text."""
PARTS = re.compile(r"(?P<field>([A-Za-z])\2*)|'(?P<quoted>[^']+)'(?!')|(?P<plain>[^A-Za-z'\[\]{}#])")


def _year(of_era: int) -> str:
    return f"{of_era:04}" if of_era < 10_000 else f"+{of_era}"


def parts_of(pattern: str) -> tuple[tuple[str, str], ...]:
    """Fields and texts of a pattern of Java's, or Untranslatable.

    >>> parts_of("dd.MM.'T'")
    (('field', 'dd'), ('text', '.'), ('field', 'MM'), ('text', '.'), ('text', 'T'))
    """
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(pattern):
        part = PARTS.match(pattern, position)
        if part is None or (part["field"] and part["field"] not in FIELDS):
            raise Untranslatable(f"date_format with {pattern!r}")
        found.append(("field", part["field"]) if part["field"] else ("text", part["quoted"] or part["plain"]))
        position = part.end()
    return tuple(found)


def written(node: Expression, rows: int, value: Values) -> Evaluated:
    """Each text is made once: the times of a batch are in few days, minutes or seconds."""
    parts, values = node.option("parts"), as_array(value, rows)
    unit_us = min((UNITS_US[FIELDS[text][0]] for kind, text in parts if kind == "field"), default=UNITS_US["day"])
    micros = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    units = pa.array(np.floor_divide(micros, unit_us), mask=missing).dictionary_encode()
    texts = [_text(parts, one * unit_us) for one in units.dictionary.to_pylist()]
    return Evaluated(pa.array(texts, pa.string()).take(units.indices))


def _text(parts: tuple[tuple[str, str], ...], micros: int) -> str:
    cycles, within = divmod(micros, CYCLE_US)
    time = EPOCH + timedelta(microseconds=within)
    year = time.year + cycles * CYCLE_YEARS
    return "".join(FIELDS[text][1](time, year) if kind == "field" else text for kind, text in parts)
