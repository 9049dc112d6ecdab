"""A value of the late topic, in which the row stands as Spark wrote it: numbers keep every digit. Pure.

{"reason": "…", …, "batch": 12, "row": {"amount": 12345678901234567.89}}

The row comes last. Before it, no text can be `"row": ` with quotes of its own: within texts they are escaped.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

ROW = ', "row": '
ROW_CHARACTERS_MAX = 16 * 1024**2
"""Four bytes each at most, and a request has room for 100 MiB."""


def with_row(said: Mapping[str, Any], row: str) -> bytes:
    """What is said of a row, and the row, which is JSON; null if no topic could take it: it lies in the log.

    >>> with_row({"batch": 1}, '{"n": 0.10}')
    b'{"batch": 1, "row": {"n": 0.10}}'
    """
    if len(row) > ROW_CHARACTERS_MAX:
        said, row = {**said, "row_characters": len(row)}, "null"
    return f"{json.dumps(said, ensure_ascii=False)[:-1]}{ROW}{row}}}".encode()


def said_and_row(value: bytes) -> tuple[dict[str, Any], str]:
    """
    >>> said_and_row(b'{"batch": 1, "row": {"n": 0.10}}')
    ({'batch': 1}, '{"n": 0.10}')
    """
    said, _, row = value.decode().partition(ROW)
    return json.loads(said + "}"), row[:-1]


def exact(number: str) -> float | str:
    """As a number, if one has all of its digits; else as text.

    >>> exact("0.50"), exact("12345678901234567.89")
    (0.5, '12345678901234567.89')
    """
    return float(number) if Decimal(repr(float(number))) == Decimal(number) else number
