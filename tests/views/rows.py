"""Rows with all the values that get lost on the way."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("middle", pa.int32()),
        ("large", pa.int64()),
        ("single", pa.float32()),
        ("number", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("exact", pa.decimal128(38, 18)),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("deep", pa.struct([("a", pa.list_(pa.struct([("d", pa.decimal128(20, 9)), ("x", pa.float64())]))),
                            ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())])),
    ]
)  # fmt: skip

NULLS: dict[str, object] = dict.fromkeys(SCHEMA.names)

FULL: dict[str, object] = {
    "id": "full",
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "middle": -(2**31),
    "large": 2**63 - 1,
    "single": 0.10000000149011612,
    "number": 0.1,
    "price": Decimal("-9999999999.99"),
    "exact": Decimal("12345678901234567890.123456789012345678"),
    "text": 'quote " comma , slash \\ line\nreturn\rtab\t unicode äß漢🎉',
    "raw": bytes(range(256)),
    "day": date(2026, 11, 15),
    "at": datetime(2026, 11, 15, 10, 40, 16, 123456, tzinfo=UTC),
    "local": datetime(2026, 11, 15, 10, 40, 16, 1),
    "tags": ["a", None, "", 'b"\n'],
    "counts": {"one": 1, "none": None, "": 3},
    "deep": {
        "a": [{"d": Decimal("0.000000001"), "x": math.inf}, None, {"d": None, "x": -0.5}],
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "raw": b"\x00\xff",
    },
}

EMPTY = {
    **NULLS,
    "id": "",
    "text": "",
    "raw": b"",
    "tags": [],
    "counts": {},
    "deep": {"a": [], "at": None, "raw": b""},
    "price": Decimal("0.00"),
    "exact": Decimal("0.000000000000000001"),
    "number": 0.0,
    "flag": False,
}

EXTREME = {
    **NULLS,
    "id": "extreme",
    "number": -math.inf,
    "single": math.inf,
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "local": datetime(1, 1, 1),
    "day": date(1, 1, 1),
    "exact": Decimal("-99999999999999999999.999999999999999999"),
    "large": -(2**63),
}

LATE = {**NULLS, "id": "late", "at": datetime(2300, 1, 1, tzinfo=UTC), "day": date(2300, 1, 1)}
EARLY = {**NULLS, "id": "early", "at": datetime(1900, 1, 1, tzinfo=UTC), "local": datetime(1583, 1, 1)}
NOT_A_NUMBER = {**NULLS, "id": "nan", "number": math.nan, "single": math.nan, "deep": None}
NO_KEY = {**NULLS, "text": "the one without a name"}

ALL = [FULL, EMPTY, EXTREME, LATE, EARLY, NOT_A_NUMBER, NO_KEY]


def table(rows: list[dict[str, object]]) -> pa.Table:
    """Dictionaries of maps are lists of pairs to Arrow."""
    paired = [
        {name: list(value.items()) if name == "counts" and isinstance(value, dict) else value
         for name, value in row.items()}
        for row in rows
    ]  # fmt: skip
    return pa.Table.from_pylist(paired, schema=SCHEMA)


def shown(value: object) -> str:
    """A text that is equal for equal values, also where NaN is not equal to itself."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{shown(key)}: {shown(item)}" for key, item in value.items())) + "}"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else repr(value)
