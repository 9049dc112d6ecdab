import asyncio
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest

from headwater.log.storage import LocalStorage
from headwater.record import Record
from tests.waiting import patience
from tests.wire.raw_client import RawClient, batch, framed, request_frame
from tests.wire.requests import fetch, produce
from tests.wire.running import RunningServer, running_server

MIB = 1024**2


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with running_server(new_loop=request.param) as server:
        yield server


def alive(server: RunningServer) -> bool:
    """Does a well-behaved client get its answer?"""
    with RawClient(server.host, server.port) as client:
        return client.call(ApiVersionsRequest()).error_code is ErrorCode.none


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


# Hostile bytes


@pytest.mark.parametrize(
    "what, data",
    [
        ("a negative length", struct.pack(">i", -1)),
        ("a length of nothing", struct.pack(">i", 0)),
        ("a length beyond the limit", struct.pack(">i", 2**31 - 1)),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("an unknown API", framed(struct.pack(">hhih", 77, 0, 1, -1))),
        ("an unknown version", framed(struct.pack(">hhih", 3, 99, 1, -1))),
        ("a client id longer than the request", framed(struct.pack(">hhih", 3, 12, 1, 300) + b"x")),
        ("a body that ends too early", framed(struct.pack(">hhih", 3, 12, 1, -1))),
        ("two billion topics", framed(struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1))),
        ("a produce of two billion topics", framed(struct.pack(">hhihhhii", 0, 3, 1, -1, -1, 1, 1000, 2**31 - 1))),
    ],
)
def test_hostile_bytes_end_their_connection_with_one_line_and_nothing_else(
    server: RunningServer, client: RawClient, caplog: pytest.LogCaptureFixture, what: str, data: bytes
) -> None:
    with caplog.at_level(logging.WARNING):
        client.send(data)
        assert client.closed(), what
    assert len([line for line in caplog.messages if line.startswith("closing the connection")]) == 1
    assert alive(server)


def test_what_was_asked_before_the_hostile_bytes_is_answered(client: RawClient) -> None:
    client.call(ApiVersionsRequest())
    client.send(b"\xff\xff\xff\xff")
    assert client.closed()


def test_random_bytes_hurt_no_client(server: RunningServer) -> None:
    dice = random.Random(7)
    whole = [
        request_frame(ApiVersionsRequest()),
        request_frame(produce("orders", batch(b"a"))),
        request_frame(fetch("x")),
    ]
    for _ in range(300):
        data = bytearray(dice.choice(whole))
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        with RawClient(server.host, server.port) as client:
            client.send(bytes(data))
    assert alive(server)
    wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 0)
    assert server.look(lambda: server.shared_port.budget.used) == 0


def wait_until(condition: Any, seconds: float = 10.0) -> None:
    deadline = patience() + seconds
    while not condition():
        assert patience() < deadline, "it never happened"
        time.sleep(0.01)


# Requests in pieces and in rows


def test_a_request_may_come_byte_by_byte(client: RawClient) -> None:
    for byte in request_frame(ApiVersionsRequest()):
        client.send(bytes([byte]))
    assert client.receive_frame()


def test_many_requests_may_come_at_once_and_are_answered_in_order(client: RawClient) -> None:
    count = 500  # many more than may be under way
    client.send(b"".join(request_frame(ApiVersionsRequest(), number) for number in range(count)))
    assert [client.receive_response(18, 0)[0] for _ in range(count)] == list(range(count))


def test_requests_of_different_kinds_are_answered_in_order(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders")
    metadata = MetadataRequest(topics=None, include_topic_authorized_operations=False)
    requests = [
        produce("orders", batch(b"a")),
        metadata,
        fetch("orders"),
        ApiVersionsRequest(),
        produce("orders", batch(b"b")),
    ]
    sent = [client.send_request(request) for request in requests]
    answered = [client.receive_response(request.__api_key__, request.__version__) for request in requests]
    assert [number for number, _ in answered] == sent
    assert answered[2][1].responses[0].partitions[0].records


def test_a_fetch_that_waits_does_not_hold_up_other_clients(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders")
    client.send_request(fetch("orders", wait_ms=20_000))
    begun = patience()
    assert alive(server)
    assert patience() - begun < 5


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(server: RunningServer) -> None:
    server.log.create_topic("orders")
    with RawClient(server.host, server.port) as client:
        client.send_request(fetch("orders", wait_ms=60_000))
        wait_until(lambda: server.look(lambda: any(one.busy for one in server.shared_port.connections)))
    wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 0)
    assert server.look(lambda: server.shared_port.budget.used) == 0


def test_records_after_an_unread_response_are_stored_when_their_client_disconnects(server: RunningServer) -> None:
    server.log.create_topic("orders", partitions=5000)
    ask = request_frame(MetadataRequest(topics=None, include_topic_authorized_operations=False))
    with RawClient(server.host, server.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send(ask * 200 + request_frame(produce("orders", batch(b"the last word"), acks=0)))
        wait_until(lambda: server.look(lambda: any(one.untaken_bytes for one in server.shared_port.connections)))
    wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 0)
    assert server.look(lambda: server.shared_port.budget.used) == 0
    assert [record.value for record in server.log.read("orders")] == [b"the last word"]


# What a client may cost


def test_an_announced_request_costs_nothing_until_it_comes(server: RunningServer) -> None:
    with ExitStack() as stack:
        before = resident_bytes()
        for _ in range(100):
            client = stack.enter_context(RawClient(server.host, server.port))
            client.send(struct.pack(">i", 90 * MIB) + b"the beginning")
        wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 100)
        assert server.look(lambda: server.shared_port.budget.used) <= 100 * 64 * 1024
        assert resident_bytes() - before < 32 * MIB
        assert alive(server)


def test_requests_beyond_the_budget_wait_for_each_other_and_all_get_through() -> None:
    with running_server(buffered_request_bytes_max=6 * MIB) as server, ExitStack() as stack:
        server.log.create_topic("orders", configs={"max.message.bytes": str(10 * MIB)})
        clients = [stack.enter_context(RawClient(server.host, server.port)) for _ in range(6)]
        frame = request_frame(produce("orders", batch(random.Random(1).randbytes(5 * MIB)), acks=1))
        senders = [threading.Thread(target=client.send, args=(frame,)) for client in clients]
        for sender in senders:
            sender.start()
        for client in clients:
            _, response = client.receive_response(0, 9)
            assert response.responses[0].partition_responses[0].error_code is ErrorCode.none
        for sender in senders:
            sender.join()
        assert server.log.partition("orders", 0).end_offset == 6
        assert server.look(lambda: server.shared_port.budget.used) == 0


def test_small_requests_pile_up_no_further_than_the_budget() -> None:
    with running_server(buffered_request_bytes_max=200_000, requests_in_flight_max=100) as server, ExitStack() as stack:
        server.log.create_topic("orders")
        server.log.create_topic("quiet")
        small = request_frame(produce("orders", batch(bytes(10_000))))
        for _ in range(5):
            client = stack.enter_context(RawClient(server.host, server.port))
            client.send_request(fetch("quiet", wait_ms=600_000))  # holds up what follows
            client.send(small * 50)
        wait_until(lambda: server.look(lambda: server.shared_port.budget.used) > 200_000)
        time.sleep(0.3)  # for more to come, if it would
        assert 200_000 < server.look(lambda: server.shared_port.budget.used) < 200_000 + 5 * 2 * 64 * 1024
        server.log.append("quiet", Record(b"no longer"))
        wait_until(lambda: server.log.partition("orders", 0).end_offset == 250)
        assert server.look(lambda: server.shared_port.budget.used) == 0


def test_clients_that_do_not_read_cost_a_chunk_each(tmp_path: Path) -> None:
    with running_server(storage=LocalStorage(tmp_path)) as server, ExitStack() as stack:
        server.log.create_topic("orders", configs={"max.message.bytes": str(10 * MIB)})
        for _ in range(8):
            server.log.append("orders", Record(random.Random(1).randbytes(4 * MIB)))
        alive(server)
        before = resident_bytes()
        for _ in range(60):
            client = stack.enter_context(RawClient(server.host, server.port))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send_request(fetch("orders", partition_bytes_max=64 * MIB))
        wait_until(lambda: server.look(
            lambda: sum(one._sender.blocked for one in server.shared_port.connections) == 60
        ))  # fmt: skip
        assert resident_bytes() - before < 60 * 2 * 128 * 1024 + 4 * MIB
        assert alive(server)


def test_a_client_that_does_not_read_its_answers_is_not_given_more_of_them(server: RunningServer) -> None:
    for number in range(200):
        server.log.create_topic(f"topic-{number}", partitions=5)
    with RawClient(server.host, server.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.socket.settimeout(1)
        frame = request_frame(MetadataRequest(topics=None, include_topic_authorized_operations=False))
        client.send(frame * 400)
        wait_until(lambda: server.look(lambda: any(one._sender.blocked for one in server.shared_port.connections)))
        time.sleep(0.3)
        waiting = server.look(lambda: [len(one._answers) for one in server.shared_port.connections])
        assert max(waiting) <= 2


def test_a_client_that_reads_late_gets_all_of_it(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders", configs={"max.message.bytes": str(10 * MIB)})
    content = random.Random(1).randbytes(9 * MIB)
    server.log.append("orders", Record(content))
    client.send_request(fetch("orders", partition_bytes_max=64 * MIB))
    time.sleep(0.3)
    assert content in client.receive_response(1, 12)[1].responses[0].partitions[0].records


def test_a_client_that_asks_and_does_not_read_is_not_read_from_either(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders", configs={"max.message.bytes": str(10 * MIB)})
    server.log.append("orders", Record(bytes(9 * MIB)))
    client.socket.settimeout(1)
    frame = request_frame(fetch("orders", partition_bytes_max=64 * MIB))
    with pytest.raises(TimeoutError):
        client.send(frame * 1_000_000)
    frames = server.look(lambda: [len(one._frames) for one in server.shared_port.connections])
    assert sum(frames) < 3000
    assert alive(server)


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_address_max"])
def test_clients_beyond_the_limit_are_turned_away(limit: str) -> None:
    settings: dict[str, Any] = {limit: 3}
    with running_server(**settings) as server:
        with ExitStack() as stack:
            clients = [stack.enter_context(RawClient(server.host, server.port)) for _ in range(3)]
            assert [client.call(ApiVersionsRequest()).error_code for client in clients] == [ErrorCode.none] * 3
            with RawClient(server.host, server.port) as fourth:
                assert fourth.closed()
            assert clients[0].call(ApiVersionsRequest()).error_code is ErrorCode.none
        wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 0)
        assert alive(server), "a client that leaves makes room"


# Time


def test_a_request_that_does_not_arrive_ends_its_connection() -> None:
    with running_server(partial_request_timeout=timedelta(milliseconds=300)) as server:
        with RawClient(server.host, server.port) as client:
            begun = patience()
            for byte in struct.pack(">i", 1000) + b"x" * 100:
                try:
                    client.send(bytes([byte]))
                except (BrokenPipeError, ConnectionResetError):
                    break
                time.sleep(0.02)
            assert client.closed()
            assert patience() - begun < 2, "a trickle does not keep it alive"
        assert alive(server)


def test_a_client_that_was_quiet_has_all_the_time_there_is_for_its_next_request() -> None:
    timeout = timedelta(seconds=3)  # a busy machine is not away for as long between two pieces of a request
    with running_server(partial_request_timeout=timeout) as server, RawClient(server.host, server.port) as client:
        client.call(ApiVersionsRequest())
        time.sleep(3.2)
        frame = request_frame(ApiVersionsRequest())
        client.send(frame[:7])
        time.sleep(0.3)
        client.send(frame[7:])
        assert client.receive_frame()


def test_an_idle_client_is_let_go_but_not_one_that_waits_for_its_answer() -> None:
    with running_server(idle_connection_timeout=timedelta(milliseconds=300)) as server:
        server.log.create_topic("orders")
        with RawClient(server.host, server.port) as idle, RawClient(server.host, server.port) as waiting:
            waiting.send_request(fetch("orders", wait_ms=900))
            begun = patience()
            assert idle.closed()
            assert patience() - begun < 0.85
            assert waiting.receive_frame()


def test_a_client_that_never_reads_is_cut_off() -> None:
    with running_server(stalled_client_timeout=timedelta(milliseconds=300)) as server:
        server.log.create_topic("orders", configs={"max.message.bytes": str(20 * MIB)})
        server.log.append("orders", Record(bytes(16 * MIB)))
        with RawClient(server.host, server.port) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send_request(fetch("orders", partition_bytes_max=64 * MIB))
            wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 1)
            wait_until(lambda: server.look(lambda: len(server.shared_port.connections)) == 0)


def test_a_handler_that_breaks_ends_its_connection_only(
    server: RunningServer, client: RawClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(type(server.log), "topics", lambda self: 1 / 0)
    client.send_request(MetadataRequest(topics=None, include_topic_authorized_operations=False))
    assert client.closed()
    assert "unforeseen" in caplog.text
    assert alive(server)
