"""Values in the registry's wire format, as JSON for people; whatever the bytes are, nothing is raised."""

import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.registry import decoding
from headwater.registry.decoding import Decoder
from headwater.registry.journal import TopicJournal
from headwater.registry.registry import Registry
from headwater.registry.words import JSON, PROTOBUF, SchemaText

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
        {"name": "share", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}
VALUE: dict[str, Any] = {
    "id": "ä", "amount": Decimal("12.50"), "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "day": date(2026, 1, 2),
    "raw": b"\xff\x00", "share": 0.5, "tags": ["a", "b"], "next": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Log.open("data", storage=MemoryStorage()) as log:
        yield Registry(TopicJournal(log))


@pytest.fixture(scope="module")
def decoder(registry: Registry) -> Decoder:
    return Decoder(registry)


def registered(registry: Registry, subject: str, schema: SchemaText) -> int:
    return registry.register(subject, schema).id


@pytest.fixture(scope="module")
def order_id(registry: Registry) -> int:
    return registered(registry, "orders-value", SchemaText(json.dumps(ORDER)))


def framed(number: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + body


def encoded(value: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(ORDER), value)
    return written.getvalue()


def test_an_avro_value_is_shown_with_every_digit(decoder: Decoder, order_id: int) -> None:
    shown = json.loads(decoder.json_text(framed(order_id, encoded(VALUE))) or "")
    assert shown == {
        "id": "ä", "amount": "12.50", "at": "2026-01-02T03:04:05+00:00", "day": "2026-01-02", "raw": "/wA=",
        "share": 0.5, "tags": ["a", "b"], "next": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "share, text", [(float("nan"), "NaN"), (float("inf"), "Infinity"), (-float("inf"), "-Infinity")]
)
def test_what_json_has_no_number_for_is_a_text(decoder: Decoder, order_id: int, share: float, text: str) -> None:
    shown = decoder.json_text(framed(order_id, encoded({**VALUE, "share": share})))
    assert json.loads(shown or "", parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["share"] == text


def test_a_json_value_is_shown_as_it_is_and_one_that_is_none_as_bytes(registry: Registry, decoder: Decoder) -> None:
    number = registered(registry, "notes-value", SchemaText('{"type": "object"}', JSON))
    assert json.loads(decoder.json_text(framed(number, '{"n": "ä"}'.encode())) or "") == {"n": "ä"}
    assert decoder.json_text(framed(number, b'{"n": 1.100000000000000000001}')) == '{"n": 1.100000000000000000001}'
    for text in (b"{", b"NaN", b'{"n": Infinity}', b'"\xff"', b"[" * 100_000):
        assert decoder.json_text(framed(number, text)) is None


def test_protobuf_and_what_is_not_framed_are_left_as_bytes(registry: Registry, decoder: Decoder) -> None:
    text = 'syntax = "proto3"; message Order { string id = 1; }'
    number = registered(registry, "protobuf-value", SchemaText(text, PROTOBUF))
    assert decoder.json_text(framed(number, b"\x00\x0a\x01a")) is None
    for data in (b"", b"\x00", b"\x00\x00\x00\x00\x01", b'{"n": 1}', b"\x01\x00\x00\x00\x01a"):
        assert decoder.json_text(data) is None


def test_a_schema_that_is_registered_later_is_found_then(registry: Registry, decoder: Decoder) -> None:
    number = 1 + registered(registry, "before-value", SchemaText('"int"'))
    assert decoder.json_text(framed(number, b"\x02")) is None
    assert registered(registry, "later-value", SchemaText('"long"')) == number
    assert decoder.json_text(framed(number, b"\x02")) == "1"


def test_a_schema_that_only_the_library_refuses_is_no_failure(registry: Registry, decoder: Decoder) -> None:
    odd = '{"type": "bytes", "logicalType": "decimal", "precision": 0}'
    number = registered(registry, "odd-value", SchemaText(odd))
    decoder.json_text(framed(number, b"\x02a"))


def test_no_more_schemas_are_kept_than_the_limit_says(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "SCHEMAS_KEPT_MAX", 2)
    decoder = Decoder(registry)
    for one in range(5):
        enum = {"type": "enum", "name": f"E{one}", "symbols": ["A"]}
        number = registered(registry, f"kept{one}-value", SchemaText(json.dumps(enum)))
        assert decoder.json_text(framed(number, b"\x00")) == '"A"'
    assert len(decoder._schemas) <= 2


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=60))
def test_no_bytes_are_a_failure(decoder: Decoder, order_id: int, body: bytes) -> None:
    shown = decoder.json_text(framed(order_id, body))
    assert shown is None or isinstance(json.loads(shown), dict)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(index=st.integers(0, 40), byte=st.integers(0, 255))
def test_no_damaged_value_is_a_failure(decoder: Decoder, order_id: int, index: int, byte: int) -> None:
    body = bytearray(encoded(VALUE))
    body[index % len(body)] = byte
    shown = decoder.json_text(framed(order_id, bytes(body)))
    assert shown is None or isinstance(json.loads(shown), dict)
