import struct

import pytest

from headwater.errors import ProtocolError
from headwater.wire.protocol.headers import read_client_id, read_start, response_start
from headwater.wire.protocol.reader import Reader

HEADER = struct.pack(">hhih", 3, 12, 42, 4) + b"java"


def test_the_start_of_a_header_has_api_version_and_correlation() -> None:
    assert read_start(memoryview(HEADER)) == (3, 12, 42)


def test_a_request_shorter_than_its_header_is_refused() -> None:
    with pytest.raises(ProtocolError, match="shorter than its header"):
        read_start(memoryview(HEADER[:7]))


@pytest.mark.parametrize("flexible, tail", [(False, b""), (True, b"\x00"), (True, b"\x01\x00\x02ab")])
def test_the_client_id_is_in_the_old_form_in_every_version(flexible: bool, tail: bytes) -> None:
    cursor = Reader(memoryview(HEADER + tail + b"body"))
    assert read_client_id(cursor, flexible=flexible) == "java"
    assert bytes(cursor.take(4)) == b"body"


def test_the_length_of_a_response_counts_its_header() -> None:
    assert response_start(42, 10, flexible=False) == struct.pack(">ii", 14, 42)
    assert response_start(42, 10, flexible=True) == struct.pack(">ii", 15, 42) + b"\x00"
