"""Values of views as JSON has them. Pure."""

import math
from datetime import date, datetime
from decimal import Decimal


def plain(value: object) -> object:
    """Exact numbers and times as text, binary as hexadecimal, and a text where JSON has no number.

    >>> plain({"amount": Decimal("1.50"), "share": float("nan"), "tags": [b"ab", True]})
    {'amount': '1.50', 'share': 'NaN', 'tags': ['6162', True]}
    """
    if isinstance(value, dict):
        return {str(plain(name)): plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.hex() if isinstance(value, bytes) else value
