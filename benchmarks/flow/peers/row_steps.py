"""Steps in front of what is measured: none, ones that tasks evaluate on Arrow, or one that only Spark can evaluate."""

from collections.abc import Sequence
from typing import Any

NONE, TRANSLATED, SPARK = KINDS = ("none", "translated", "spark")


def with_steps(rows: Any, steps: str, *, number: str, text: str, others: Sequence[str]) -> Any:
    """All rows pass, with the same columns: one of numbers, one of texts, and others."""
    if steps == TRANSLATED:
        return rows.where(f"{number} >= 0 and {text} is not null").select(text, *others, f"{number} * 2 as {number}")
    if steps == SPARK:
        return rows.where(f"soundex({text}) is not null")
    return rows
