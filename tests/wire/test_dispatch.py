import random
import struct
from typing import Any

import pytest
from kio.schema.metadata.v12.request import MetadataRequest

from headwater.errors import ProtocolError
from headwater.wire.dispatch import CONTROL_REQUEST_BYTES_MAX, Call, read_call, write_answer
from headwater.wire.protocol.headers import read_start
from headwater.wire.routes import ROUTES, find_route
from tests.wire.raw_client import batch, request_frame
from tests.wire.requests import fetch, produce

METADATA = MetadataRequest(topics=None, include_topic_authorized_operations=False)


def body(request: Any) -> bytearray:
    """A request as the server sees it, without its length."""
    return bytearray(request_frame(request)[4:])


def test_a_request_finds_its_route() -> None:
    call = read_call(memoryview(body(METADATA)))
    assert isinstance(call, Call)
    assert (call.route.name, call.client_id, call.request) == ("metadata", "test", METADATA)


@pytest.mark.parametrize("api_key", [-1, 4, 5, 6, 7, 99, 32767, -32768])
def test_an_api_that_is_not_served_is_refused(api_key: int) -> None:
    with pytest.raises(ProtocolError, match="there is no API"):
        read_call(memoryview(struct.pack(">hhih", api_key, 0, 1, -1)))


@pytest.mark.parametrize("version", [-1, 14, 32767])
def test_a_version_that_is_not_served_is_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"metadata has no version {version}; 0 to 13 are served"):
        read_call(memoryview(struct.pack(">hhih", 3, version, 1, -1)))


def test_a_request_without_records_has_a_limit_of_its_own() -> None:
    frame = body(METADATA) + bytes(CONTROL_REQUEST_BYTES_MAX)
    with pytest.raises(ProtocolError, match="are allowed"):
        read_call(memoryview(frame))


def test_a_response_is_written_with_its_length() -> None:
    start = read_start(memoryview(body(fetch("orders"))))
    route = find_route(1)
    assert route is not None
    from headwater.wire.protocol.fetch import FetchResponse

    parts = write_answer(start, route, FetchResponse([]))
    data = b"".join(part for part in parts if isinstance(part, bytes))
    assert struct.unpack_from(">ii", data) == (len(data) - 4, 1)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_garbage_is_refused_in_every_version_of_every_api(route: Any) -> None:
    dice = random.Random(route.api_key)
    for version in route.versions:
        for size in (0, 1, 2, 5, 13, 40, 200):
            frame = struct.pack(">hhih", route.api_key, version, 1, -1) + dice.randbytes(size)
            read_or_refuse(bytearray(frame))


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_a_damaged_produce_request_is_read_or_refused(version: int) -> None:
    dice = random.Random(version)
    from uuid import uuid4

    topic: Any = uuid4() if version >= 13 else "orders"
    whole = body(produce(topic, batch(b"a" * 100), batch(b"b"), version=version))
    for _ in range(3000):
        read_or_refuse(damaged(whole, dice))


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
def test_a_damaged_fetch_request_is_read_or_refused(version: int) -> None:
    dice = random.Random(version)
    from uuid import uuid4

    topic: Any = uuid4() if version >= 13 else "orders"
    whole = body(fetch(topic, {0: 5, 1: 7, 2: 9}, version=version))
    for _ in range(3000):
        read_or_refuse(damaged(whole, dice))


def damaged(whole: bytearray, dice: random.Random) -> bytearray:
    """Damage after the first bytes, which choose what the rest is read as."""
    broken = bytearray(whole)
    for _ in range(dice.randrange(1, 4)):
        position = dice.randrange(8, len(broken))
        match dice.randrange(4):
            case 0:
                del broken[position:]
            case 1:
                broken[position] = dice.randrange(256)
            case 2:
                broken[position : position + 4] = struct.pack(">i", dice.choice([-1, -2, 2**31 - 1, -(2**31), 10**6]))
            case 3:
                broken[position : position + 5] = b"\xff\xff\xff\xff\x0f"
        if len(broken) <= 8:
            break
    return broken


def read_or_refuse(frame: bytearray) -> None:
    try:
        read_call(memoryview(frame))
    except ProtocolError:
        return
