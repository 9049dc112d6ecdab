import io
import random
import struct
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer

from headwater.errors import ProtocolError
from headwater.wire.protocol.entities import entity_reader, schema_of
from headwater.wire.protocol.reader import decode
from headwater.wire.routes import FETCH, PRODUCE, ROUTES

SCHEMAS = [
    pytest.param(load_request_schema(route.api_key, version), id=f"{route.name}-{version}")
    for route in ROUTES
    if route.api_key not in (PRODUCE, FETCH)
    for version in route.versions
]

examples = settings(max_examples=8)


def encoded(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_requests_are_read_as_kio_reads_them(schema: Any) -> None:
    @examples
    @given(st.from_type(schema))
    def check(request: Any) -> None:
        try:
            data = encoded(request)
            kio_reader(schema)(data, 0)
        except ValueError:
            reject()  # kio can write durations that it cannot read
        assert decode(entity_reader(schema), memoryview(data)) == kio_reader(schema)(data, 0)[0]

    check()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_damaged_requests_raise_a_protocol_error_and_nothing_else(schema: Any) -> None:
    dice = random.Random(schema.__api_key__ * 100 + schema.__version__)

    @settings(max_examples=4)
    @given(st.from_type(schema))
    def check(request: Any) -> None:
        data = encoded(request)
        for _ in range(40):
            read_or_refuse(schema, damaged(data, dice))

    check()


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Cut, overwritten with extreme numbers, or with bytes put in or taken out."""
    broken = bytearray(data) or bytearray(1)
    position = dice.randrange(len(broken))
    match dice.randrange(5):
        case 0:
            del broken[position:]
        case 1:
            broken[position] = dice.randrange(256)
        case 2:
            broken[position : position + 4] = struct.pack(">i", dice.choice([-1, -2, 2**31 - 1, -(2**31), 10**6]))
        case 3:
            broken[position:position] = dice.randbytes(dice.randrange(1, 9))
        case 4:
            broken[position : position + 5] = b"\xff\xff\xff\xff\x0f"
    return bytes(broken)


def read_or_refuse(schema: Any, data: bytes) -> None:
    try:
        decode(entity_reader(schema), memoryview(data))
    except ProtocolError:
        return


def test_an_array_of_two_billion_topics_costs_nothing() -> None:
    with pytest.raises(ProtocolError, match="2147483647 elements are announced where 0 bytes remain"):
        decode(schema_of(3, 1).read, memoryview(struct.pack(">i", 2**31 - 1)))


def test_a_response_of_the_newest_version_is_written_for_older_ones() -> None:
    from kio.schema.errors import ErrorCode
    from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
    from kio.schema.types import ProducerId
    from kio.static.primitive import i16

    from headwater.wire.protocol.values import NO_THROTTLE

    newest = InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, producer_id=ProducerId(7), producer_epoch=i16(0)
    )
    assert schema_of(22, 0).write(newest) == struct.pack(">ihqh", 0, 0, 7, 0)
    assert schema_of(22, 5).write(newest) == struct.pack(">ihqh", 0, 0, 7, 0) + b"\x00"
