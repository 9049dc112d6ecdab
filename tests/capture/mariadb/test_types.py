"""Every type, from the log and from a copy, against what the database itself says."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import validate

from headwater.capture.appender import LogAppender
from headwater.capture.notes import Notes
from headwater.errors import CaptureError
from tests.capture.mariadb.kit import Captured, run

Make = Callable[..., Captured]


def text_in(encoding: str, size: int) -> st.SearchStrategy[str]:
    """What CHAR keeps has no spaces at its end."""
    return st.text(st.characters(codec=encoding, exclude_characters="\0", exclude_categories=["Cs"]), max_size=size)


def clock(value: timedelta) -> str:
    """As MariaDB writes a time."""
    whole, sign = abs(value), "-" if value < timedelta(0) else ""
    seconds = whole.days * 86_400 + whole.seconds
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{whole.microseconds:06d}"


def whole_seconds(value: datetime) -> datetime:
    return value.replace(microsecond=0)


def cut(value: timedelta, unit: timedelta) -> timedelta:
    return value // unit * unit


FINITE = partial(st.floats, allow_nan=False, allow_infinity=False)
SPANS = st.timedeltas(timedelta(hours=-838), timedelta(hours=838))
MOMENTS = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31))
STAMPS = st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 18))
LATIN1_SURE = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20)

# Of each column: its type, values as SQL has them, and what the topic must say of one.
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any], Callable[[Any], Any] | None]] = {
    "tiny": ("TINYINT", st.integers(-(2**7), 2**7 - 1), int),
    "year": ("YEAR", st.one_of(st.just(0), st.integers(1901, 2155)), int),
    "tiny_u": ("TINYINT UNSIGNED", st.integers(0, 2**8 - 1), int),
    "small": ("SMALLINT", st.integers(-(2**15), 2**15 - 1), int),
    "medium": ("MEDIUMINT", st.integers(-(2**23), 2**23 - 1), int),
    "medium_u": ("MEDIUMINT UNSIGNED", st.integers(0, 2**24 - 1), int),
    "whole": ("INT", st.integers(-(2**31), 2**31 - 1), int),
    "filled": ("INT UNSIGNED ZEROFILL", st.integers(0, 2**32 - 1), int),
    "big": ("BIGINT", st.integers(-(2**63), 2**63 - 1), int),
    "big_u": ("BIGINT UNSIGNED", st.integers(0, 2**64 - 1), int),
    "single": ("FLOAT", FINITE(width=32), lambda one: float(str(numpy.float32(one)))),
    "twice": ("DOUBLE", FINITE(), float),
    "money": ("DECIMAL(20, 4)", st.decimals(-(10**15), 10**15, places=4), lambda one: f"{one:.4f}"),
    "huge": ("DECIMAL(65, 30)", st.decimals(-(10**34), 10**34, places=30), lambda one: f"{one:.30f}"),
    "small_money": ("DECIMAL(3, 3) UNSIGNED", st.decimals(0, Decimal("0.999"), places=3), lambda one: f"{one:.3f}"),
    "one_bit": ("BIT(1)", st.booleans(), bool),
    "bits": ("BIT(19)", st.integers(0, 2**19 - 1), lambda one: f"{one:019b}"),
    "day": ("DATE", st.dates(date(1, 1, 1)), lambda one: one.isoformat()),
    "clock": ("TIME", SPANS.map(lambda one: cut(one, timedelta(seconds=1))), lambda one: clock(one)[:-7]),
    "clock_3": ("TIME(3)", SPANS.map(lambda one: cut(one, timedelta(milliseconds=1))), lambda one: clock(one)[:-3]),
    "clock_6": ("TIME(6)", SPANS, clock),
    "moment": ("DATETIME", MOMENTS.map(whole_seconds), lambda one: f"{one:%Y-%m-%dT%H:%M:%S}".rjust(19, "0")),
    "moment_6": ("DATETIME(6)", MOMENTS, lambda one: f"{one:%Y-%m-%dT%H:%M:%S.%f}".rjust(26, "0")),
    "stamp": ("TIMESTAMP NULL", STAMPS.map(whole_seconds), lambda one: f"{one:%Y-%m-%dT%H:%M:%SZ}"),
    "stamp_6": ("TIMESTAMP(6) NULL", STAMPS, lambda one: f"{one:%Y-%m-%dT%H:%M:%S.%fZ}"),
    "fixed": ("CHAR(20)", text_in("utf-8", 20), lambda one: one.rstrip(" ")),
    "text": ("VARCHAR(300)", text_in("utf-8", 80), str),
    "western": ("VARCHAR(50) CHARACTER SET latin1", LATIN1_SURE, str),
    "russian": ("TEXT CHARACTER SET koi8r", st.text("abcжщЯ ", max_size=20), str),
    "wide": ("VARCHAR(50) CHARACTER SET utf16", text_in("utf-8", 20), str),
    "japanese": ("VARCHAR(50) CHARACTER SET sjis", st.text("aあ漢字ｱ", max_size=20), str),
    "raw": ("BINARY(6)", st.binary(max_size=6), lambda one: base64.b64encode(one.ljust(6, b"\0")).decode()),
    "raw_300": ("VARBINARY(300)", st.binary(max_size=100), lambda one: base64.b64encode(one).decode()),
    "body": ("BLOB", st.binary(max_size=100), lambda one: base64.b64encode(one).decode()),
    "choice": ("ENUM('a', 'b''x', 'ü')", st.sampled_from(["a", "b'x", "ü"]), str),
    "choices": ("SET('x', 'y', 'zü') CHARACTER SET latin1", st.sampled_from(["", "x", "x,zü", "x,y,zü"]), str),
    "id_text": ("UUID", st.one_of(st.uuids(version=4), st.uuids(version=1)), str),
    "address": ("INET4", st.ip_addresses(v=4), str),
    "place": ("POINT", st.tuples(st.integers(-99, 99), st.integers(-99, 99)), None),
}  # fmt: skip

FLOW_TYPES = {
    "tiny": "tinyint", "tiny_u": "smallint", "filled": "bigint", "big_u": "decimal(20,0)", "money": "decimal(20,4)",
    "huge": "string", "one_bit": "boolean", "bits": "string", "moment_6": "timestamp_ntz", "stamp": "timestamp",
    "raw": "binary", "place": "binary", "id_text": "string", "western": "string", "choice": "string", "clock": "string",
}  # fmt: skip

ROWS = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, (_, values, _) in COLUMNS.items()}),
    min_size=1,
    max_size=8,
)


def parameter(name: str, value: Any) -> Any:
    if value is None or name not in ("id_text", "address", "place", "one_bit", "clock", "clock_3", "clock_6"):
        return value
    if name == "place":
        return f"POINT({value[0]} {value[1]})"
    return int(value) if name == "one_bit" else clock(value) if name.startswith("clock") else str(value)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(ROWS)
def check_values(database: Any, captured: Captured, rows: list[dict[str, Any]]) -> None:
    start = len(captured.values("everything"))
    places = ", ".join("ST_GeomFromText(%s)" if name == "place" else "%s" for name in COLUMNS)
    run(database, "TRUNCATE TABLE everything")
    with database.cursor() as cursor:
        for number, row in enumerate(rows):
            values = [parameter(name, row[name]) for name in COLUMNS]
            cursor.execute(f"INSERT INTO everything VALUES ({number}, {places})", values)
    captured.source.copy_again([])
    captured.caught_up(database)
    rows_emitted = captured.emitted("everything")[start:]
    from_log, copied = ([after for operation, _, after in rows_emitted if operation == wanted] for wanted in "cr")
    assert from_log == copied
    for row, after in zip(rows, from_log, strict=True):
        for name, (_, _, expected) in COLUMNS.items():
            if expected is not None:
                assert after[name] == (None if row[name] is None else expected(row[name])), name


def test_every_value_is_emitted_as_it_is_from_the_log_and_from_a_copy(database: Any, capture: Make) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
    run(database, f"CREATE TABLE everything (id INT PRIMARY KEY, {columns})")
    run(database, "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
    captured = capture("everything").start().caught_up(database)
    check_values(database, captured)
    notes = Notes(LogAppender(captured.log), "shop").all()
    note = notes[f"schema/{database.name}.everything"]
    assert note["version"] == 1  # the log and the catalog say the same of every type
    properties = note["row"]["properties"]  # type: ignore[index]
    assert {name: properties[name]["x-headwater-type"] for name in FLOW_TYPES} == FLOW_TYPES
    for value in captured.values("everything"):
        validate(value["after"] or value["before"], note["row"])


ODD = [
    ("DATE", "'0000-00-00'", "0000-00-00"),
    ("DATE", "'2026-00-00'", "2026-00-00"),
    ("DATETIME(2)", "'0000-00-00'", "0000-00-00T00:00:00.00"),
    ("TIMESTAMP NULL", "'0000-00-00'", "0000-00-00T00:00:00Z"),
    ("TIME", "'-838:59:59'", "-838:59:59"),
    ("ENUM('a')", "'none of them'", ""),
    ("FLOAT(7, 3)", "1.2345", 1.234),
    ("DOUBLE(10, 2)", "12.345", 12.35),
    ("DECIMAL(10, 2) ZEROFILL", "1.5", "1.50"),
    ("VARCHAR(9) CHARACTER SET latin1", "UNHEX('8081')", "€\x81"),
    ("VARCHAR(9) CHARACTER SET utf8mb3 COLLATE uca1400_ai_ci", "'Ж'", "Ж"),
    ("VARCHAR(9) CHARACTER SET utf16 COLLATE uca1400_as_cs", "'Ж'", "Ж"),
    ("JSON", "'{\"a\": 1.50}'", '{"a": 1.50}'),
    ("INET6", "'::ffff:1.2.3.4'", "::ffff:1.2.3.4"),
    ("INET6", "'2001:db8::1'", "2001:db8::1"),
    ("INET6", "'::'", "::"),
    ("UUID", "'01890a5d-ac96-774b-bcce-b302099a8057'", "01890a5d-ac96-774b-bcce-b302099a8057"),
    ("INT AS (id + 1) VIRTUAL", "DEFAULT", 2),
    ("INT AS (id + 1) PERSISTENT", "DEFAULT", 2),
    ("INT INVISIBLE", "7", 7),
    ("BIT(64)", "0xFFFFFFFFFFFFFFFF", "1" * 64),
    ("VARCHAR(9) CHARACTER SET armscii8", "UNHEX('B2')", "Ա"),
    ("LINESTRING", "ST_GeomFromText('LINESTRING(0 0, 1 1)', 4326)",
     "5hAAAAECAAAAAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADwPwAAAAAAAPA/"),
]  # fmt: skip


def test_odd_values_are_emitted_as_they_are_stored(database: Any, capture: Make) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(ODD))
    run(database, f"CREATE TABLE odd (id INT PRIMARY KEY, {columns})", "SET sql_mode = '', time_zone = '+00:00'")
    captured = capture("odd").start().caught_up(database)
    names = ", ".join(f"c{number}" for number in range(len(ODD)))
    run(database, f"INSERT INTO odd (id, {names}) VALUES (1, {', '.join(value for _, value, _ in ODD)})")
    captured.source.copy_again([])
    captured.caught_up(database)
    from_log, copied = (after for _, _, after in captured.emitted("odd"))
    for number, (kind, value, rows_emitted) in enumerate(ODD):
        assert (from_log[f"c{number}"], copied[f"c{number}"]) == (rows_emitted, rows_emitted), (kind, value)


@pytest.mark.parametrize("kind", ["TEXT COMPRESSED", "VARCHAR(9) COMPRESSED"])
def test_a_type_that_cannot_be_read_is_refused_and_named(database: Any, capture: Make, kind: str) -> None:
    run(database, f"CREATE TABLE odd (id INT PRIMARY KEY, squeezed {kind})")
    captured = capture("odd").start()
    run(database, "INSERT INTO odd VALUES (1, 'x')")
    with pytest.raises(CaptureError, match="squeezed"):
        captured.caught_up(database)


def test_json_of_every_row_is_json(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE texts (id INT PRIMARY KEY, value TEXT)")
    captured = capture("texts").start().caught_up(database)
    with database.cursor() as cursor:
        cursor.execute("INSERT INTO texts VALUES (1, %s)", ('"\\\n\t\x00\x1f\u2028/',))
    captured.caught_up(database)
    assert json.loads(captured.records("texts")[0].value or b"")["after"]["value"] == '"\\\n\t\x00\x1f\u2028/'


def test_a_moment_is_emitted_in_utc_whatever_the_zone_of_the_session(database: Any, capture: Make) -> None:
    run(database, "CREATE TABLE stamps (id INT PRIMARY KEY, at TIMESTAMP)", "SET time_zone = '+05:30'")
    run(database, "INSERT INTO stamps VALUES (1, '2026-01-31 12:00:00')")
    captured = capture("stamps").start().caught_up(database)
    moment = datetime.fromisoformat(captured.emitted("stamps")[0][2]["at"])
    assert moment == datetime(2026, 1, 31, 6, 30, tzinfo=UTC)
