"""Rows cut to the size that a record, a mail or a webhook can carry. Pure."""

import json
from collections.abc import Mapping
from typing import Any

ROW_BYTES_MAX = 65_536
CUT = "…"
SIGN_BYTES_MAX = 6
"""The most bytes that a character takes in JSON, such as \\u0000."""
SHARE_BYTES_MIN = 100


def fitting(row: Mapping[str, Any], bytes_max: int = ROW_BYTES_MAX) -> dict[str, Any]:
    """The row if it is not too long. Else what is long of it is cut to text that ends in …, and of more columns than
    fit even so the last ones are left out.

    >>> fitting({"errors": 9, "page": "a" * 1000}, 300)
    {'errors': 9, 'page': 'aaaaaaaaaaaaaaaaaaaaaaaa…'}
    >>> fitting({"errors": 9, "page": "a" * 200}, 300)["page"] == "a" * 200
    True
    """
    if _bytes(row) <= bytes_max:
        return dict(row)
    share, left = max(SHARE_BYTES_MIN, bytes_max // len(row)), bytes_max
    cut: dict[str, Any] = {}
    for name, value in row.items():
        short = value if _bytes(value) <= share else _cut(value, share)
        left -= _bytes({name: short})
        if left < 0:
            break
        cut[name] = short
    return cut


def _bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _cut(value: object, bytes_max: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[: bytes_max // SIGN_BYTES_MAX - 1] + CUT
