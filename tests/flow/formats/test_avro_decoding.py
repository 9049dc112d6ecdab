import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from headwater.errors import InvalidFormat
from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl

WRITER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "note", "type": ["null", "string"]},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "rates", "type": {"type": "map", "values": "double"}},
    {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
    {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "plain", "type": "long"},
]}  # fmt: skip
DDL = """id bigint, amount decimal(12,2), at timestamp, day date, note string, status string, tags array<string>,
         rates map<string, double>, place struct<city: string>, key string"""
ROW = {
    "id": 5, "amount": Decimal("12.50"), "at": datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC), "day": date(2024, 2, 29),
    "note": None, "status": "PAID", "tags": ["a"], "rates": {"EUR": 1.5}, "place": {"city": "Bonn"},
    "key": uuid.UUID(int=7), "plain": 9,
}  # fmt: skip


def written(row: dict[str, Any], schema: dict[str, Any] = WRITER) -> bytes:
    target = BytesIO()
    fastavro.schemaless_writer(target, schema, row)
    return target.getvalue()


def decode(ddl: str, *values: bytes, **options: Any) -> Decoded:
    texts = {name: json.dumps(value) for name, value in options.items()}
    return decoder_for("avro", parse_ddl(ddl), texts).decode(pa.array(values, type=pa.binary()))


def test_a_record_is_read_by_name() -> None:
    decoded = decode(DDL, written(ROW), avro_schema=WRITER)
    assert decoded.reasons == []
    wanted = {**ROW, "rates": [("EUR", 1.5)], "key": str(uuid.UUID(int=7))}
    del wanted["plain"]
    assert decoded.columns.to_pylist() == [wanted]


def test_the_schema_is_found_by_the_id_before_the_record() -> None:
    small = {"type": "record", "name": "A", "fields": [{"name": "id", "type": "int"}]}
    framed = b"\x00\x00\x00\x00\x07" + written({"id": 3}, small), b"\x00\x00\x00\x01\x00" + written(ROW)
    decoded = decode("id bigint", *framed, schema_ids={"7": json.dumps(small), "256": WRITER})
    assert decoded.columns.column(0).to_pylist() == [3, 5]
    unknown = decode("id bigint", b"\x00\x00\x00\x00\x08\x02", b"\x01", schema_ids={"7": small})
    assert unknown.reasons == ["schema id 8 is not among those given: 7",
                               "not Avro with a schema id: it begins with 01"]  # fmt: skip


@pytest.mark.parametrize(
    ("ddl", "value", "reason"),
    [
        ("id bigint", b"", "not Avro of the given schema: "),
        ("id bigint", written(ROW)[:-1], "not Avro of the given schema: "),
        ("id bigint", written(ROW) + b"x", "not Avro of the given schema: 1 bytes are left over"),
        ("id tinyint", written({**ROW, "id": 300}), "id: 300 does not fit tinyint"),
        ("id string", written(ROW), "id: 5 does not fit string"),
        ("plain timestamp", written(ROW), "plain: 9 does not fit timestamp"),
        ("amount decimal(5,1)", written({**ROW, "amount": Decimal("1.25")}), "amount: 1.25 does not fit decimal(5,1)"),
        ("note string NOT NULL", written(ROW), "note: null, and the schema says NOT NULL"),
    ],
)
def test_a_bad_row_has_a_reason_and_harms_no_other(ddl: str, value: bytes, reason: str) -> None:
    fine = written({**ROW, "note": "x", "id": 1, "amount": Decimal("1.5")})
    decoded = decode(ddl, fine, value, avro_schema=WRITER)
    assert 1 in decoded.bad.tolist()
    assert decoded.reasons[-1].startswith(reason)
    assert not decoded.columns.column(0)[1].is_valid


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "format avro needs one of the options avro_schema and schema_ids"),
        ({"avro_schema": "{"}, "option avro_schema of format avro is not JSON"),
        ({"avro_schema": '{"type": "recrd"}'}, "the Avro schema cannot be read"),
        ({"avro_schema": '"string"'}, "the Avro schema is not a record"),
        ({"avro_schema": json.dumps(WRITER).replace('"id"', '"idd"')}, 'has no field "id". Did you mean idd?'),
        ({"schema_ids": "[1]"}, "option schema_ids of format avro is not an object from id to schema"),
        ({"avro_schema": json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "id", "type": {"type": "array", "items": "null"}}]})}, "an array whose elements take no bytes"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_any_row(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidFormat) as caught:
        decoder_for("avro", parse_ddl("id bigint"), options)
    assert sentence in str(caught.value)
