"""Hostile clients that do not log in: the node goes on, holds little for them, and others log in and are served."""

import logging
import os
import resource
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode

from headwater.access.authority import Authority
from headwater.clock import SystemClock
from headwater.settings import SecuritySettings
from tests.waiting import wait_until
from tests.wire.login_attacks import Address, LoginAttacker, client_hello
from tests.wire.logins import PLAIN, add_user, guarded_server, log_in, logged_in
from tests.wire.raw_client import RawClient, batch, request_frame
from tests.wire.requests import fetch, produce
from tests.wire.running import RunningServer

MIB = 1024**2
UNFINISHED_MAX = 64
OPERATIONS, MANY_OPERATIONS = 1_500, 50_000
HALF_OPEN, MANY_HALF_OPEN = 300, 10_000
GROWTH_MIB = 64
HURRIED = replace(
    PLAIN, mechanisms=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), failed_login_delay=timedelta(milliseconds=10),
    unfinished_logins_max=UNFINISHED_MAX, login_timeout=timedelta(hours=1),
)  # fmt: skip
FORMS = [pytest.param(OPERATIONS, id="short"), pytest.param(MANY_OPERATIONS, id="long", marks=pytest.mark.torture)]


@pytest.fixture
def server(caplog: pytest.LogCaptureFixture) -> Iterator[RunningServer]:
    with guarded_server(HURRIED) as server:
        server.log.create_topic("orders")
        yield server
    assert_no_surprise(caplog)


@pytest.fixture
def encrypted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[RunningServer]:
    authority = Authority(tmp_path, SystemClock())
    authority.make()
    server_file = authority.issue("server", ("localhost",), days=30, client=False)
    security = replace(HURRIED, certificate=server_file, certificate_key=server_file.with_suffix(".key"))
    with guarded_server(security) as server:
        server.log.create_topic("orders")
        yield server
    assert_no_surprise(caplog)


def assert_no_surprise(caplog: pytest.LogCaptureFixture) -> None:
    said = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert said == []


def memory_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def ended(connection: socket.socket) -> bool:
    """Has the node closed it?"""
    return bool(select.select([connection], [], [], 0.05)[0]) and connection.recv(1) == b""


def serves(client: RawClient) -> None:
    """Stores and reads back."""
    stored = client.call(produce("orders", batch(b"some value"))).responses[0].partition_responses[0]
    assert stored.error_code is ErrorCode.none
    found = client.call(fetch("orders", {0: stored.base_offset})).responses[0].partitions[0]
    assert b"some value" in (found.records or b"")


def attacked(attacker: LoginAttacker, operations: int, good: RawClient) -> float:
    """How much memory the attack has cost; the good client is served in between."""
    for _ in range(200):
        attacker.one()
    before = memory_mib()
    while attacker.done < operations:
        attacker.one()
        if attacker.done % 100 == 0:
            serves(good)
    grown = memory_mib() - before
    attacker.close()
    return grown


@pytest.mark.parametrize("operations", FORMS)
def test_mutated_requests_before_the_login(operations: int, server: RunningServer) -> None:
    with logged_in(server, "admin") as good:
        attacker = LoginAttacker(Address(server.host, server.port), seed=7, encrypted=False)
        assert attacked(attacker, operations, good) < GROWTH_MIB
        serves(good)
    with logged_in(server, "admin") as another:
        serves(another)
    wait_until(lambda: server.look(lambda: len(server.security.unfinished)) == 0, "no login is left unfinished")


@pytest.mark.parametrize("operations", FORMS)
def test_mutated_beginnings_of_an_encrypted_connection(
    operations: int, encrypted: RunningServer, tmp_path: Path
) -> None:
    with encrypted_client(encrypted, tmp_path) as good:
        attacker = LoginAttacker(Address(encrypted.host, encrypted.port), seed=8, encrypted=True)
        assert attacked(attacker, operations, good) < GROWTH_MIB
        serves(good)
    wait_until(lambda: encrypted.look(lambda: len(encrypted.security.unfinished)) == 0, "no handshake is left")


def encrypted_client(server: RunningServer, folder: Path) -> RawClient:
    client = RawClient(server.host, server.port)
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
    assert log_in(client, "admin").error_code is ErrorCode.none
    return client


def test_a_client_hello_that_is_cut_at_any_byte(encrypted: RunningServer, tmp_path: Path) -> None:
    hello = client_hello()
    for length in range(len(hello)):
        with socket.create_connection((encrypted.host, encrypted.port)) as cut:
            cut.sendall(hello[:length])
    with encrypted_client(encrypted, tmp_path) as good:
        serves(good)
    wait_until(lambda: encrypted.look(lambda: len(encrypted.security.unfinished)) == 0, "no handshake is left")


def test_an_encrypted_request_that_is_cut_at_any_byte(encrypted: RunningServer, tmp_path: Path) -> None:
    """Records of TLS, after the handshake: recorded on the way, and cut."""
    frame = request_frame(ApiVersionsRequest())
    for length in range(0, len(frame) + 60, 3):
        with half_encrypted(encrypted, tmp_path, frame, length):
            pass
    with encrypted_client(encrypted, tmp_path) as good:
        serves(good)


def half_encrypted(server: RunningServer, folder: Path, data: bytes, length: int) -> socket.socket:
    """A connection on which the handshake is whole, and of the record with the data only some bytes are sent."""
    plain = socket.create_connection((server.host, server.port))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    secure = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            secure.do_handshake()
            break
        except ssl.SSLWantReadError:
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
    plain.sendall(outgoing.read())
    secure.write(data)
    plain.sendall(outgoing.read()[:length])
    return plain


@pytest.mark.parametrize(
    "count", [pytest.param(HALF_OPEN, id="short"), pytest.param(MANY_HALF_OPEN, id="long", marks=pytest.mark.torture)]
)
@pytest.mark.parametrize("which", ["server", "encrypted"])
def test_of_many_half_open_logins_the_oldest_are_cut_off(
    which: str, count: int, request: pytest.FixtureRequest
) -> None:
    server: RunningServer = request.getfixturevalue(which)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, opened = memory_mib(), []
    try:
        for _ in range(count):
            opened.append(socket.create_connection((server.host, server.port)))
            if len(opened) > 4 * UNFINISHED_MAX:
                opened.pop(0).close()
        wait_until(
            lambda: server.look(lambda: len(server.security.unfinished)) == UNFINISHED_MAX, "the newest are kept"
        )
        wait_until(lambda: ended(opened[0]), "the oldest are cut off")
        assert memory_mib() - before < GROWTH_MIB
    finally:
        for one in opened:
            one.close()
    wait_until(lambda: server.look(lambda: len(server.security.unfinished)) == 0, "all are forgotten")


def test_while_many_do_not_log_in_others_do(server: RunningServer) -> None:
    opened = [socket.create_connection((server.host, server.port)) for _ in range(2 * UNFINISHED_MAX)]
    try:
        with logged_in(server, "admin") as good:
            serves(good)
            more = [socket.create_connection((server.host, server.port)) for _ in range(2 * UNFINISHED_MAX)]
            serves(good)  # it has logged in: those who have not cannot push it out
            for one in more:
                one.close()
    finally:
        for one in opened:
            one.close()


def test_who_does_not_log_in_in_time_is_cut_off() -> None:
    impatient = SecuritySettings(mechanisms=("PLAIN",), login_timeout=timedelta(milliseconds=1))
    with guarded_server(impatient) as server, RawClient(server.host, server.port) as client:
        assert client.closed()


def test_a_long_request_before_the_login_is_refused_before_it_is_read(server: RunningServer) -> None:
    with RawClient(server.host, server.port) as client:
        client.send(struct.pack(">i", server.security.settings.login_request_bytes_max + 1))
        wait_until(lambda: ended(client.socket), "the connection is closed")


def test_after_the_login_long_requests_are_taken(server: RunningServer) -> None:
    with logged_in(server, "admin") as good:
        answer = good.call(produce("orders", batch(bytes(200_000))))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_a_failed_login_ends_the_connection(server: RunningServer) -> None:
    with RawClient(server.host, server.port) as client:
        answer = log_in(client, "admin", "wrong password")
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert answer.error_message
        assert "wrong" not in answer.error_message
        assert client.closed()


def test_the_answer_to_a_wrong_password_is_that_to_an_unknown_user(server: RunningServer) -> None:
    add_user(server, "carol")
    with RawClient(server.host, server.port) as client:
        known = log_in(client, "carol", "wrong password")
    with RawClient(server.host, server.port) as client:
        unknown = log_in(client, "nobody", "wrong password")
    assert known == unknown
