"""What holds for every format."""

import json
import sys

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidFormat
from headwater.flow.formats.decoding import MODULES, Decoded, decoder_for, shortened
from headwater.flow.formats.schema import parse_ddl
from tests.flow.formats.messages import DESCRIPTOR

AVRO = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "string"}, {"name": "b", "type": ["null", "long"]},
    {"name": "c", "type": {"type": "array", "items": {"type": "map", "values": "bytes"}}},
]})  # fmt: skip
NESTED = "a string, b bigint, c array<map<string, binary>>"
FORMATS = {
    "json": (NESTED, {}),
    "debezium": (NESTED, {}),
    "csv": ("a string, b int, c decimal(5,2), d timestamp, e boolean", {}),
    "text": ("a string", {}),
    "raw": ("a binary", {}),
    "arrow": (NESTED, {}),
    "avro": (NESTED, {"avro_schema": AVRO}),
    "protobuf": ("id bigint, name string, tags array<string>", {"descriptor": DESCRIPTOR, "message": "shop.Order"}),
}


def decode(format: str, values: list[bytes | None]) -> Decoded:
    ddl, options = FORMATS[format]
    decoded = decoder_for(format, parse_ddl(ddl), options).decode(pa.array(values, type=pa.binary()))
    decoded.columns.validate(full=True)
    assert decoded.columns.schema == parse_ddl(ddl).arrow
    assert decoded.columns.num_rows == len(values)
    assert decoded.bad.tolist() == sorted(set(decoded.bad.tolist()))
    assert len(decoded.reasons) == len(decoded.bad)
    assert all(decoded.reasons)
    for place in decoded.bad:
        assert all(not column[place].is_valid for column in decoded.columns.columns)
    return decoded


def valid_row(format: str) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist([{"a": "x", "b": 1, "c": [[("k", b"v")]]}], schema=parse_ddl(NESTED).arrow)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    rows = {
        "json": b'{"a":"x","b":1,"c":[{"k":"dg=="}]}',
        "debezium": b'{"before":null,"after":{"a":"x","b":1,"c":[{"k":"dg=="}]},"op":"c"}',
        "csv": b'"x, ""y""",1,2.50,2024-02-29T00:00:00Z,true',
        "text": "é".encode(),
        "raw": b"\xff",
        "arrow": bytes(sink.getvalue()),
        "avro": b"\x02x\x02\x02\x02\x02\x02k\x02v\x00\x00",
        "protobuf": b"\x08\x05\x12\x01x\x1a\x01y",
    }
    return rows[format]


@pytest.mark.parametrize("format", MODULES)
def test_a_good_row_is_good(format: str) -> None:
    decoded = decode(format, [valid_row(format)])
    assert decoded.reasons == []
    assert all(column.null_count == 0 for column in decoded.columns.columns)


@pytest.mark.parametrize("format", MODULES)
@given(rows=st.lists(st.one_of(st.binary(max_size=60), st.none()), max_size=5))
def test_no_bytes_make_a_decoder_raise(format: str, rows: list[bytes | None]) -> None:
    decode(format, rows)


@pytest.mark.parametrize("format", MODULES)
@given(data=st.data())
def test_no_damage_to_a_good_row_makes_a_decoder_raise(format: str, data: st.DataObject) -> None:
    row = bytearray(valid_row(format))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(row)))
        if data.draw(st.booleans()):
            del row[place : place + data.draw(st.integers(1, 4))]
        else:
            row[place:place] = data.draw(st.binary(max_size=4))
    good = valid_row(format)
    decoded = decode(format, [good, bytes(row), good])
    assert set(decoded.bad.tolist()) <= {1}, "a neighbour of a bad row is not touched"


@pytest.mark.parametrize("format", MODULES)
def test_no_values_are_no_rows(format: str) -> None:
    assert decode(format, []).columns.num_rows == 0


@pytest.mark.parametrize("format", sorted(set(MODULES) - {"raw"}))
def test_a_null_value_is_bad_and_says_what_to_do(format: str) -> None:
    decoded = decode(format, [valid_row(format), None])
    assert decoded.bad.tolist() == [1]
    assert decoded.reasons == ["the value is null: read the topic as a table if that means a deletion"]


@pytest.mark.parametrize("format", MODULES)
def test_a_slice_decodes_like_its_values(format: str) -> None:
    ddl, options = FORMATS[format]
    values = pa.array([b"x", valid_row(format), valid_row(format)], type=pa.binary())
    decoder = decoder_for(format, parse_ddl(ddl), options)
    assert decoder.decode(values[1:]).columns.equals(decoder.decode(pa.array(values[1:].to_pylist())).columns)


def test_an_unknown_format_is_told_with_the_nearest() -> None:
    with pytest.raises(InvalidFormat, match=r'there is no format "jsn". Did you mean json\?'):
        decoder_for("jsn", parse_ddl("a int"))


def test_a_format_whose_library_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, MODULES["avro"], raising=False)
    with pytest.raises(
        InvalidFormat, match=r'format avro needs fastavro. Install it with "pip install headwater\[avro\]"'
    ):
        decoder_for("avro", parse_ddl("a int"))


def test_an_option_that_a_format_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidFormat, match=r'format csv has no option "delimeter". Did you mean delimiter\?'):
        decoder_for("csv", parse_ddl("a int"), {"delimeter": ";"})
    with pytest.raises(InvalidFormat, match=r'format raw has no option "x". It has no options.'):
        decoder_for("raw", parse_ddl("a binary"), {"x": ";"})


def test_what_a_sentence_quotes_stays_on_one_line() -> None:
    assert shortened("a\nb") == "a\N{REPLACEMENT CHARACTER}b"
    assert len(shortened("x" * 1000)) == 60


def test_the_avro_row_of_these_tests_is_what_fastavro_writes() -> None:
    from io import BytesIO

    written = BytesIO()
    fastavro.schemaless_writer(written, json.loads(AVRO), {"a": "x", "b": 1, "c": [{"k": b"v"}]})
    assert decode("avro", [written.getvalue()]).columns.to_pylist() == [{"a": "x", "b": 1, "c": [[("k", b"v")]]}]
