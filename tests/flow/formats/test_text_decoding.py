import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidSchema
from headwater.flow.formats.decoding import decoder_for
from headwater.flow.formats.schema import parse_ddl


def readable(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode))), st.integers(0, 2))
def test_a_value_is_its_text_or_bad_if_it_is_not_utf8(values: list[bytes], start: int) -> None:
    decoded = decoder_for("text", parse_ddl("line string")).decode(pa.array(values, type=pa.binary())[start:])
    decoded.columns.validate(full=True)
    assert decoded.columns.column(0).to_pylist() == [readable(value) for value in values[start:]]
    assert decoded.bad.tolist() == [place for place, value in enumerate(values[start:]) if readable(value) is None]


def test_the_reason_shows_what_stands_there() -> None:
    decoded = decoder_for("text", parse_ddl("line string")).decode(pa.array([b"ab\xff"]))
    assert decoded.reasons == ["the bytes are not UTF-8: ab�"]


def test_the_schema_is_one_string() -> None:
    with pytest.raises(InvalidSchema, match="format text gives one string, and the schema is: a int"):
        decoder_for("text", parse_ddl("a int"))
