import pyarrow as pa
import pytest

from headwater.errors import InvalidSchema
from headwater.flow.formats.decoding import decoder_for
from headwater.flow.formats.schema import parse_ddl


def test_bytes_stay_as_they_are_and_null_stays_null() -> None:
    decoded = decoder_for("raw", parse_ddl("value binary")).decode(pa.array([b"\xff", None, b""], type=pa.binary()))
    assert decoded.columns.column(0).to_pylist() == [b"\xff", None, b""]
    assert decoded.reasons == []


def test_null_is_bad_where_the_schema_says_so() -> None:
    decoded = decoder_for("raw", parse_ddl("value binary NOT NULL")).decode(pa.array([b"", None], type=pa.binary()))
    assert decoded.bad.tolist() == [1]


def test_the_schema_is_one_binary() -> None:
    with pytest.raises(InvalidSchema, match="format raw gives one binary, and the schema is: a binary, b int"):
        decoder_for("raw", parse_ddl("a binary, b int"))
