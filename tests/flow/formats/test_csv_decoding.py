import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidFormat, InvalidSchema
from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl


def decode(ddl: str, *values: bytes, **options: str) -> Decoded:
    decoded = decoder_for("csv", parse_ddl(ddl), options).decode(pa.array(values, type=pa.binary()))
    decoded.columns.validate(full=True)
    return decoded


def row(ddl: str, value: bytes, **options: str) -> list[Any]:
    decoded = decode(ddl, value, **options)
    assert decoded.reasons == []
    return [column[0].as_py() for column in decoded.columns.columns]


letters = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)


@given(st.lists(st.lists(letters, min_size=3, max_size=3), max_size=5), st.sampled_from(",;\t|"))
def test_what_the_csv_module_writes_is_read_as_it_was(rows: list[list[str]], delimiter: str) -> None:
    values = []
    for fields in rows:
        written = io.StringIO()
        csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow(fields)
        values.append(written.getvalue().encode())
    decoded = decode("a string, b string, c string", *values, delimiter=delimiter)
    assert decoded.reasons == []
    assert [list(found.values()) for found in decoded.columns.to_pylist()] == rows


def test_every_flat_type_is_read() -> None:
    ddl = "a bigint, b tinyint, c double, d float, e boolean, f decimal(6,2), g timestamp, h date, i string, j binary"
    found = row(ddl, b"-12,+7,.5,1e3,TRUE,1.005,2024-02-29T12:00:00+01:00,2024-02-29,x y,YWI=\r\n")
    assert found == [-12, 7, 0.5, 1000.0, True, Decimal("1.01"), datetime(2024, 2, 29, 11, tzinfo=UTC),
                     date(2024, 2, 29), "x y", b"ab"]  # fmt: skip


def test_nothing_is_null_and_empty_quotes_are_an_empty_text() -> None:
    assert row("a string, b string, c int", b',"",') == [None, "", None]


def test_a_line_break_may_stand_in_quotes() -> None:
    assert row("a string, b int", b'"x\ny",1\n') == ["x\ny", 1]


def test_delimiter_and_quote_can_be_chosen() -> None:
    assert row("a string, b int", b"'x;''y''';007", delimiter=";", quote="'") == ["x;'y'", 7]


@pytest.mark.parametrize(
    ("ddl", "value", "reason"),
    [
        ("a int, b int", b"1", "1 fields, where the schema has 2 columns: 1"),
        ("a int, b int", b"1,2,3", "3 fields, where the schema has 2 columns: 1,2,3"),
        ("a string", b'"x', 'not CSV: a quote is opened and never closed: "x'),
        ("a string", b'"x"y', 'not CSV: something follows a closing quote before the next delimiter: "x"y'),
        ("a string", b"\xff", "not CSV: the bytes are not UTF-8: �"),
        ("a int", b"x", 'a: "x" is not an int'),
        ("a int", b"1.5", "a: 1.5 is not an int"),
        ("a tinyint", b"128", "a: 128 does not fit a tinyint"),
        ("a double", b"1e", 'a: "1e" is not a double'),
        ("a boolean", b"yes", 'a: "yes" is not a boolean'),
        ("a int NOT NULL", b"", "a: null, and the schema says NOT NULL"),
    ],
)
def test_a_bad_row_has_a_reason_for_a_person(ddl: str, value: bytes, reason: str) -> None:
    decoded = decode(ddl, value)
    assert decoded.reasons == [reason]
    assert decoded.columns.column(0).null_count == 1


def test_mistakes_are_told_before_any_row() -> None:
    with pytest.raises(InvalidSchema, match='column "a" is array<int>, which a field of CSV cannot hold'):
        decoder_for("csv", parse_ddl("a array<int>"))
    with pytest.raises(
        InvalidFormat, match=r"option delimiter of format csv cannot be ',,'. It is one ASCII character"
    ):
        decoder_for("csv", parse_ddl("a int"), {"delimiter": ",,"})
    with pytest.raises(InvalidFormat, match="cannot both be"):
        decoder_for("csv", parse_ddl("a int"), {"delimiter": '"'})
