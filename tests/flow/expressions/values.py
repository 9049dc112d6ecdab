"""Values at the edges of every type, as the rows of one frame."""

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC
SCHEMA = (
    "b boolean, b2 boolean, t tinyint, s smallint, i int, i2 int, l long, l2 long, f float, d double, d2 double, "
    "m decimal(12,2), m2 decimal(10,4), w decimal(18,3), n string, n2 string, digits string, y binary, day date, "
    "day2 date, at timestamp, at2 timestamp, near timestamp_ntz, a array<string>, ai array<int>, "
    "st struct<u: int, v: string>, st2 struct<u: int, v: string>, g decimal(38,10), g2 decimal(38,10), "
    "small decimal(9,8), written string, line string, mp map<string, int>, mi map<int, string>, ad array<double>"
)

DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    3.5,
    1e300,
    -1e300,
    1e-300,
    float("nan"),
    float("inf"),
    float("-inf"),
    2147483647.0,
    2147483647.5,
    -2147483648.5,
    2147483648.0,
    9.2e18,
    9.3e18,
    -9.3e18,
    2.0**63,
    -(2.0**63),
    0.1,
    123456.789,
]
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "abc",
    "Abc def",
    "  padded  ",
    "\tx\n",
    "ß",
    "straße",
    "İstanbul",
    "ΑΣ",
    "日本語",
    "e\u0301",
    "😀x",
    "x%y",
    "x_y",
    "x\\y",
    "100%",
    "a,b,c",
    ",",
    "a,,b",
    "true",
    "axb\ny",
    "ǆ",
    "ﬁ",
]
DIGITS = [
    "0",
    "1",
    "-1",
    "+7",
    " 42 ",
    "1.5",
    ".5",
    "5.",
    "-.5",
    "1e3",
    "1E-3",
    "abc",
    "",
    "127",
    "128",
    "32768",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "NaN",
    "nan",
    "Infinity",
    "-inf",
    "+Inf",
    "1d",
    "2f",
    "0x1",
    "1_000",
    "t",
    "TRUE",
    "yes",
    "no",
    "f",
    "٣",
    "\u00a01",
    "1 2",
    "--1",
    "00012",
]
WRITTEN = [
    "2024-02-29",
    "2023-02-29",
    " 2024-1-5 ",
    "2024",
    "2024-13",
    "2024-12",
    "20240101",
    "2024-01-01T",
    "2024-01-01 anything",
    "2024-01-01x",
    "2024-01-01T12:30:00Z",
    "2024-00-10",
    "2024-10-00",
    "+2024-01-01",
    "-0001-01-01",
    "0000-01-01",
    "5881580-07-11",
    "5881580-07-12",
    "-5877641-06-23",
    "9999999-01-01",
    "12345678-01-01",
    "999-01-01",
    "2024-001-01",
    "2024-01-001",
    "2024-01-",
    "2024-",
    "-",
    "",
    "T",
    "abc",
    "٢٠٢٤-01-01",
    "epoch",
    "now",
    "2024-01-01\t",
    "1.5",
    "-1.005",
    "1.115e1",
    "123456789012",
    "9999999999.994",
    "9999999999.995",
    "1e-30",
    "-1e400",
    "0e999999999",
    "1e",
    "5.",
    ".5",
    "+.5E+1",
    ".",
    "1_0",
    "\x7f1",
    "NaN",
]
LINES = [
    "",
    "a",
    "ab12",
    "AB-12",
    "order-7:paid",
    "a\n",
    "a\r\n",
    "a\r",
    "\na",
    "a\u2028",
    "a\u0085b",
    "a\x0bb",
    "a b\tc",
    "日本a",
    "😀😀",
    "aaa",
    "abab",
    "12.50",
    "x=1;y=22",
    "é1",
    "٣",
    "_",
    "a.b",
    "a+b",
    "user@example.org",
    "\r\n",
    "a\n\n",
    "hello world  ",
    "https://example.org/a/b?c=d",
    "2024-02-29T10:00:00Z",
]
DAYS = [
    dt.date(1970, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(2024, 2, 29),
    dt.date(1582, 10, 4),
    dt.date(1582, 10, 15),
    dt.date(2000, 1, 3),
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
    dt.date(2026, 12, 28),
    dt.date(2021, 1, 3),
]
TIMES = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2024, 2, 29, 12, 30, 15, 123456),
    dt.datetime(1900, 1, 1),
    dt.datetime(2026, 3, 29, 1, 30),
    dt.datetime(2026, 10, 25, 0, 59, 59),
    dt.datetime(1582, 10, 15),
    dt.datetime(2, 1, 1, 0, 0, 1),
    dt.datetime(9998, 12, 31, 23, 59, 59),
]
POOLS: dict[str, list[Any]] = {
    "b": [True, False],
    "t": [0, 1, -1, 127, -128, 5],
    "s": [0, 1, -1, 32767, -32768, 300],
    "i": [0, 1, -1, 2, 3, 7, -7, 2**31 - 1, -(2**31), 1000],
    "l": [0, 1, -1, 3, -3, 2**63 - 1, -(2**63), 10**10, 86_400],
    "f": [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), 16777216.0, 3.0e38],
    "d": DOUBLES,
    "m": [Decimal(one) for one in ("0.00", "1.10", "-1.10", "9999999999.99", "-9999999999.99", "0.01", "123.45")],
    "m2": [Decimal(one) for one in ("0.0000", "1.0001", "-2.5000", "999999.9999", "0.3333")],
    "w": [Decimal(one) for one in ("0.000", "123456789012345.678", "-999999999999999.999", "0.001")],
    "g": [
        Decimal(one)
        for one in (
            "0E-10",
            "1",
            "-1",
            "3",
            "7.5",
            "-0.0000000001",
            "9999999999999999999999999999.9999999999",
            "0.15",
            "-2.5",
        )
    ],
    "small": [Decimal(one) for one in ("0", "0.00000001", "-0.00000001", "1.5", "-9.99999999", "0.99999999")],
    "written": WRITTEN,
    "line": LINES,
    "mp": [[], [("x", 1)], [("x", None), ("y", 2)], [("", 3), ("日", 4)]],
    "mi": [[], [(1, "x")], [(2, None), (1, "y")]],
    "ad": [[], [0.0], [float("nan"), -0.0], [None, 1.0]],
    "n": TEXTS,
    "digits": DIGITS,
    "y": [b"", b"a", b"\x00\xff", b"abc"],
    "day": DAYS,
    "at": [one.replace(tzinfo=UTC) for one in TIMES],
    "near": TIMES,
    "a": [[], ["x"], ["x", None, "z"], [None]],
    "ai": [[], [1, 2, 3], [None, 5], [7]],
    "st": [{"u": 1, "v": "x"}, {"u": None, "v": ""}, {"u": -5, "v": None}],
}


def pool_of(name: str) -> list[Any]:
    return POOLS[name] if name in POOLS else POOLS[name[:-1]]


def rows(count: int, seed: int, schema: pa.Schema) -> pa.RecordBatch:
    """Every column takes each of its values, and one row in six is null."""
    chance = random.Random(seed)
    columns = []
    for field in schema:
        pool = pool_of(field.name)
        values = [pool[number % len(pool)] if number < len(pool) else chance.choice(pool) for number in range(count)]
        chance.shuffle(values)
        values = [None if chance.random() < 1 / 6 else one for one in values]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, names=schema.names)
