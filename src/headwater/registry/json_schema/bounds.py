"""Bounds of numbers and texts: is every value within the writer's also within the reader's?"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Words = Mapping[str, Any]


def numbers(reader: Words, writer: Words, path: str, *, whole: bool) -> list[str]:
    """`whole`: the writer's numbers have no fraction."""
    found = []
    for sign, word in ((1, "inimum"), (-1, "aximum")):
        mine, yours = _bound(reader, word, sign), _bound(writer, word, sign)
        if mine is not None and (yours is None or yours < mine):
            found.append(f"{path}: the reader's m{word} is narrower")
    step, other = reader.get("multipleOf"), writer.get("multipleOf", 1 if whole else None)
    if step is not None and (other is None or (Fraction(str(other)) / Fraction(str(step))).denominator != 1):
        found.append(f"{path}: multipleOf is new or another")
    return found


def _bound(words: Words, word: str, sign: int) -> tuple[Fraction, bool] | None:
    """The bound so that a greater one is narrower; the flag says that the bound itself is left out."""
    plain, exclusive = words.get(f"m{word}"), words.get(f"exclusiveM{word}")
    bounds: list[tuple[Fraction, bool]] = []
    if plain is not None:
        # In the fourth draft the word exclusive is a flag of the other.
        bounds.append((sign * Fraction(str(plain)), exclusive is True))
    if exclusive is not None and not isinstance(exclusive, bool):
        bounds.append((sign * Fraction(str(exclusive)), True))
    return max(bounds, default=None)


def strings(reader: Words, writer: Words, path: str) -> list[str]:
    found = counts(reader, writer, "Length", path)
    if "pattern" in reader and reader["pattern"] != writer.get("pattern"):
        found.append(f"{path}: pattern is new or another")
    return found


def counts(reader: Words, writer: Words, what: str, path: str) -> list[str]:
    """How long, or how many, at least and at most."""
    found = []
    if reader.get(f"min{what}", 0) > writer.get(f"min{what}", 0):
        found.append(f"{path}: the reader's min{what} is narrower")
    if f"max{what}" in reader and writer.get(f"max{what}", float("inf")) > reader[f"max{what}"]:
        found.append(f"{path}: the reader's max{what} is narrower")
    return found
