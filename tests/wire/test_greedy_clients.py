"""Clients that send slowly, do not read, or ask for very much: others are served all the same."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from headwater.settings import WireSettings
from headwater.wire.auto_creation import AutoCreation
from headwater.wire.connection import Connection
from tests import waiting
from tests.wire.raw_client import RawClient, batch, request_frame
from tests.wire.requests import produce
from tests.wire.running import RunningServer, running_server

MIB = 1024**2
PATIENT_SECONDS = 300
MORE_THAN_A_SOCKET_TAKES = 300
"""Answers of 90 kB: Linux keeps up to 4 MB, and more where configured, for a client that does not read them."""
GOOD_SECONDS = 5
"""In which a good client is answered, on the clock of patience: a busy machine may take longer."""
ALL_TOPICS = MetadataRequest(topics=None, include_topic_authorized_operations=False)


def wait_for(holds: Callable[[], bool], what: str) -> None:
    waiting.wait_until(holds, what, seconds=PATIENT_SECONDS)


def client_of(server: RunningServer) -> RawClient:
    return RawClient(server.host, server.port, timeout=waiting.LONG)


def stored(client: RawClient, size: int) -> ErrorCode:
    response = client.call(produce("orders", batch(bytes(size)), acks=1, timeout_ms=100_000))
    code: ErrorCode = response.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize("size", [100, 3 * MIB, 10 * MIB], ids=["small", "ordinary", "large"])
def test_requests_that_trickle_do_not_keep_others_from_producing(size: int) -> None:
    patient = timedelta(hours=1)  # each of them brings enough to be left in peace otherwise
    limits: dict[str, Any] = {"buffered_request_bytes_max": 32 * MIB, "partial_request_timeout": patient}
    with running_server(**limits) as server, ExitStack() as stack:
        server.log.create_topic("orders", configs={"max.message.bytes": str(20 * MIB)})
        trickling = [stack.enter_context(client_of(server)) for _ in range(5)]
        for client in trickling:
            client.socket.settimeout(0.5)
            try:
                client.send(struct.pack(">i", 30 * MIB) + struct.pack(">hhih", 0, 9, 1, -1) + bytes(9 * MIB))
            except TimeoutError:
                pass  # the server does not take more of it
        good = stack.enter_context(client_of(server))
        assert stored(good, size) is ErrorCode.none


def test_the_slowest_is_cut_first_and_a_slow_one_alone_is_left_in_peace() -> None:
    with running_server(buffered_request_bytes_max=32 * MIB) as server, ExitStack() as stack:
        server.log.create_topic("orders", configs={"max.message.bytes": str(30 * MIB)})
        slow = stack.enter_context(client_of(server))
        frame = request_frame(produce("orders", batch(bytes(20 * MIB)), acks=1))
        slow.send(frame[: 9 * MIB])
        wait_for(
            lambda: server.look(lambda: any(one.slow_since for one in server.shared_port.connections)), "it is slow"
        )
        assert server.look(lambda: len(server.shared_port.connections)) == 1
        slow.send(frame[9 * MIB :])
        assert slow.receive_response(0, 9)[1].responses[0].partition_responses[0].error_code is ErrorCode.none


def test_of_several_slow_requests_the_one_that_is_slow_for_longest_is_cut_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One after the other, and no more than others need: those that became slow later are left in peace."""
    limits: dict[str, Any] = {
        "buffered_request_bytes_max": 64 * MIB, "partial_request_timeout": timedelta(hours=1),
    }  # fmt: skip
    with running_server(**limits) as server, ExitStack() as stack:
        server.log.create_topic("orders", configs={"max.message.bytes": str(60 * MIB)})
        slow: list[Connection] = []
        for size_mib in (14, 13, 12, 11):  # all that large requests may have, and one beyond that
            client = stack.enter_context(client_of(server))
            client.send(struct.pack(">ihhih", 50 * MIB, 0, 9, 1, -1) + bytes(size_mib * MIB))
            wait_for(lambda: len(slow_ones(server)) == len(slow) + 1, "it is slow")
            slow.append(slow_ones(server)[-1])
        since = server.look(lambda: [one.slow_since for one in slow])
        assert since == sorted(since)  # type: ignore[type-var]
        assert len(set(since)) == 4
        order = watched_cuts(server)
        good = stack.enter_context(client_of(server))
        assert stored(good, 5 * MIB) is ErrorCode.none
        assert order, "nothing was cut"
        assert order == slow[: len(order)]
        assert len(order) < 4, "only as many as it took"
        assert caplog.text.count("hardly arrives") == len(order)


def test_of_several_that_do_not_read_the_one_that_stopped_first_is_cut_first(server: RunningServer) -> None:
    server.log.create_topic("orders", partitions=5000)
    with ExitStack() as stack:
        deaf: list[Connection] = []
        for count in range(1, 5):
            deaf_client(server, stack).send(request_frame(ALL_TOPICS) * MORE_THAN_A_SOCKET_TAKES)
            wait_for(lambda count=count: len(server.look(lambda: untaken(server))) == count, "it does not read")  # type: ignore[misc]
            (fresh,) = server.look(
                lambda: [one for one in server.shared_port.connections if one.untaken_bytes and one not in deaf]
            )
            deaf.append(fresh)
        order = watched_cuts(server)

        def cut_down_to(clients: int) -> None:
            port = server.shared_port
            room = sum(one.untaken_bytes for one in deaf[-clients:])
            port.settings = replace(port.settings, unsent_response_bytes_max=room)
            port._cut_untaken_responses()

        server.look(lambda: cut_down_to(3))
        assert order == deaf[:1]
        server.look(lambda: cut_down_to(1))
        assert order == deaf[:3]


def slow_ones(server: RunningServer) -> "list[Connection]":
    """Connections whose requests hardly arrive, the longest first."""

    def slow() -> list[Connection]:
        found = [one for one in server.shared_port.connections if one.slow_since and one.held_bytes > MIB]
        return sorted(found, key=lambda one: one.slow_since or 0)

    return server.look(slow)


def watched_cuts(server: RunningServer) -> "list[Connection]":
    """Connections that are cut off from now on, in order."""
    order: list[Connection] = []

    def watch(connection: Connection) -> None:
        cut_off = connection.cut_off

        def cut(why: str) -> None:
            order.append(connection)
            cut_off(why)

        connection.cut_off = cut  # type: ignore[method-assign]

    def watch_all() -> None:
        for one in server.shared_port.connections:
            watch(one)

    server.look(watch_all)
    return order


def test_clients_that_do_not_read_are_cut_off_before_they_cost_much(caplog: pytest.LogCaptureFixture) -> None:
    with running_server(unsent_response_bytes_max=MIB) as server, ExitStack() as stack:
        for number in range(300):
            server.log.create_topic(f"topic-{number}", partitions=10)
        for _ in range(40):
            deaf_client(server, stack).send(request_frame(ALL_TOPICS) * MORE_THAN_A_SOCKET_TAKES)
        wait_for(lambda: caplog.text.count("it does not take the") >= 20, "cut off")
        assert server.look(lambda: server.shared_port._unsent_bytes) <= 2 * MIB
        with client_of(server) as good:
            assert len(good.call(ALL_TOPICS).topics) == 300


@pytest.mark.torture  # it takes a while to make the topics, and a machine that has nothing else to do
@pytest.mark.timeout(600)
def test_two_hundred_clients_that_do_not_read_three_thousand_topics_leave_a_good_one_in_peace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running_server(connections_per_address_max=400) as server, ExitStack() as stack:
        for number in range(3000):
            server.log.create_topic(f"topic-{number:04}")
        unsent_max = server.shared_port.settings.unsent_response_bytes_max
        with client_of(server) as alone:
            answer_bytes = len(alone_answer(alone))
        deaf = [deaf_client(server, stack) for _ in range(200)]
        asking = [threading.Thread(target=ask_all, args=(client,)) for client in deaf]
        for thread in asking:
            thread.start()
        times: list[float] = []
        held, good = [0], stack.enter_context(client_of(server))

        def deaf_or_disconnected() -> int:
            return len(untaken(server)) + len(deaf) + 1 - len(server.shared_port.connections)

        while server.look(deaf_or_disconnected) < len(deaf) or len(times) < 40:
            begun = waiting.patience()
            assert len(good.call(naming("topic-0001")).topics) == 1
            assert stored_small(good) is ErrorCode.none
            times.append(waiting.patience() - begun)
            held.append(server.look(lambda: server.shared_port._unsent_bytes))
        begun = waiting.patience()
        assert len(good.call(ALL_TOPICS).topics) == 3000
        all_seconds = waiting.patience() - begun
        for client in deaf:
            client.socket.shutdown(socket.SHUT_RDWR)
        for thread in asking:
            thread.join()
    times.sort()
    with capsys.disabled():
        print(
            f"\n{len(times)} rounds of the good client beside 200 deaf ones: median {times[len(times) // 2]:.3f} s, "
            f"99 % within {times[len(times) * 99 // 100]:.2f} s, longest {times[-1]:.2f} s, all topics in "
            f"{all_seconds:.2f} s; unsent at most {max(held) / MIB:.1f} MiB, an answer has {answer_bytes / 1000:.0f} kB"
        )
    assert 0 < max(held) <= unsent_max
    assert max(times) <= GOOD_SECONDS


def ask_all(client: RawClient) -> None:
    """Ask for all topics, more often than a socket has room for the answers, or until the connection is closed."""
    with suppress(OSError):
        client.send(request_frame(ALL_TOPICS) * 100)


def alone_answer(client: RawClient) -> bytes:
    client.send_request(ALL_TOPICS)
    return client.receive_frame()


def stored_small(client: RawClient) -> ErrorCode:
    response = client.call(produce("topic-0001", batch(b"x"), acks=1))
    code: ErrorCode = response.responses[0].partition_responses[0].error_code
    return code


def test_the_last_to_stop_reading_is_the_last_to_be_cut_off(server: RunningServer) -> None:
    """Even if all of them stop within one sweep, as a client that is only slow to read does."""
    server.log.create_topic("orders", partitions=5000)
    with ExitStack() as stack:
        for count in range(1, 6):
            deaf_client(server, stack).send(request_frame(ALL_TOPICS) * MORE_THAN_A_SOCKET_TAKES)
            wait_for(lambda count=count: len(server.look(lambda: untaken(server))) == count, "it does not read")  # type: ignore[misc]
            assert len(set(server.look(lambda: untaken(server)))) == count


def deaf_client(server: RunningServer, stack: ExitStack) -> RawClient:
    client = stack.enter_context(client_of(server))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return client


def untaken(server: RunningServer) -> list[float]:
    """Since when each client that does not read has not read."""
    return [one.untaken_since for one in server.shared_port.connections if one.untaken_bytes]


def test_what_was_held_for_a_client_is_forgotten_with_it(server: RunningServer) -> None:
    server.log.create_topic("orders", partitions=5000)
    for _ in range(3):
        with RawClient(server.host, server.port) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(request_frame(ALL_TOPICS) * MORE_THAN_A_SOCKET_TAKES)
            wait_for(lambda: server.look(lambda: server.shared_port._unsent_bytes) > 0, "held")
    wait_for(lambda: server.look(lambda: not server.shared_port.connections), "gone")
    assert server.look(lambda: server.shared_port._unsent_bytes) == 0


# Topics made by naming them


def naming(*names: str) -> Any:
    asked = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names)
    return MetadataRequest(topics=asked, include_topic_authorized_operations=False)


def test_one_request_makes_so_many_topics_and_no_more() -> None:
    with running_server(auto_created_topics_per_minute_max=7) as server, client_of(server) as client:
        codes = [topic.error_code for topic in client.call(naming(*map("t{}".format, range(50)))).topics]
        assert codes.count(ErrorCode.none) in (7, 8)  # a slow machine may have earned one more meanwhile
        assert set(codes[10:]) == {ErrorCode.unknown_topic_or_partition}
        assert server.log.topic_count in (7, 8)


def test_a_node_with_many_topics_gets_no_more_by_naming_them() -> None:
    with running_server(auto_created_topics_max=5) as server, client_of(server) as client:
        client.call(naming(*map("t{}".format, range(50))))
        assert server.log.topic_count == 5
        server.log.create_topic("asked-for")


def test_topics_are_earned_again_with_time() -> None:
    counter, settings = AutoCreation(), WireSettings(auto_created_topics_per_minute_max=60)
    made = [counter.refusal(settings, topics=0, now=1000.0) for _ in range(61)]
    assert made[:60] == [""] * 60
    assert "within a minute (auto_created_topics_per_minute_max)" in made[60]
    assert [bool(counter.refusal(settings, topics=0, now=now)) for now in (1000.5, 1001.1, 1001.2)] == [
        True, False, True,
    ]  # fmt: skip
    assert "auto_created_topics_max (9)" in counter.refusal(
        WireSettings(auto_created_topics_max=9), topics=9, now=2000.0
    )


def test_refusals_are_said_once_in_a_while() -> None:
    counter = AutoCreation()
    assert [counter.worth_saying(now) for now in (100.0, 100.1, 107.0)] == [True, False, True]
