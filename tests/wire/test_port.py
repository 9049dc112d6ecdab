import asyncio
from typing import Any

import pytest

from headwater.settings import WireSettings
from headwater.wire.port import Port


class Client:
    def __init__(self, peer: str) -> None:
        self.peer = peer


def with_port(settings: WireSettings, body: Any) -> None:
    async def run() -> None:
        unused: Any = None
        port = Port(unused, unused, settings)
        port.start()
        try:
            body(port)
        finally:
            port.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    "address, expected",
    [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::ffff:127.0.0.1", "127.0.0.1"), ("fe80::1%eth0", "fe80::1"),
     ("local", "local")],
)  # fmt: skip
def test_clients_receive_the_address_they_used(address: str, expected: str) -> None:
    def body(port: Port) -> None:
        assert port.node_for(address).host == expected

    with_port(WireSettings(), body)


def test_clients_receive_the_advertised_address() -> None:
    def body(port: Port) -> None:
        assert port.node_for("127.0.0.1") == (7, "kafka.example", 9092)

    with_port(WireSettings(advertised_host="kafka.example", node_id=7), body)


def test_clients_are_counted_by_address_and_forgotten_once() -> None:
    def body(port: Port) -> None:
        clients: list[Any] = [Client("a"), Client("a"), Client("b")]
        assert [port.admit(client) for client in clients] == [True, False, True]
        for client in (clients[0], clients[0], clients[1]):
            port.forget(client)
        late: Any = Client("a")
        assert port.admit(late)

    with_port(WireSettings(connections_per_address_max=1), body)
