import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.errors import InvalidSetting, ProtocolError, UnavailableError
from headwater.flow.kafka.connection import Address, Broken, Connection, parse_address
from headwater.flow.kafka.fields import int32
from headwater.flow.kafka.messages import metadata_request
from tests.waiting import LONG


@contextmanager
def port_that_answers(answer: bytes) -> Iterator[Address]:
    """Takes one connection, waits for a request, sends these bytes and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(65_536)
                accepted.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address(*listening.getsockname())
        thread.join()


def asking(address: Address) -> bytes:
    connection = Connection(address, client_id="test", timeout_seconds=LONG)
    try:
        return bytes(connection.ask(metadata_request(None))._content)
    finally:
        connection.close()


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:70000", "host:abc"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="HOST:PORT"):
        parse_address(text)


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = Address(*taken.getsockname())
    with pytest.raises(UnavailableError, match=f"nothing answers at 127.0.0.1:{free.port}"):
        Connection(free, client_id="test", timeout_seconds=LONG)


def test_an_answer_is_given_to_its_request() -> None:
    with port_that_answers(int32(6) + int32(1) + b"ab") as address:
        assert asking(address).endswith(b"ab")


@pytest.mark.parametrize("length", [-1, 0, 3, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_before_anything_is_allocated(length: int) -> None:
    with port_that_answers(int32(length)) as address, pytest.raises(ProtocolError, match="is it a Kafka port"):
        asking(address)


def test_the_answer_to_another_request_is_refused() -> None:
    with port_that_answers(int32(4) + int32(77)) as address, pytest.raises(ProtocolError, match="77"):
        asking(address)


def test_an_answer_that_stops_in_the_middle_is_a_broken_connection() -> None:
    with port_that_answers(int32(100) + b"abc") as address, pytest.raises(Broken, match="closed the connection"):
        asking(address)
