"""The broker under test and the clients that talk to it.

`HEADWATER_TEST_BROKER` chooses the broker: `headwater` (the default) or `kafka` start one for the session, and an
address `host:port` means one that runs already. The suite was written against Apache Kafka, which is its oracle:
what fails there is wrong in the suite.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.clients.adapters import adapter_named
from tests.clients.brokers.apache_kafka import start_apache_kafka
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, NotAvailable
from tests.clients.client import Client
from tests.clients.leaders import wait_for_leaders
from tests.clients.membership import Member, Membership

STARTERS: dict[str, Callable[[Path], BrokerProcess]] = {"headwater": start_headwater, "kafka": start_apache_kafka}

GetClient = Callable[[str], Client]
StartMember = Callable[[Client, Membership], Member]


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker listens."""
    chosen = os.environ.get("HEADWATER_TEST_BROKER", "headwater")
    if chosen not in STARTERS:
        yield chosen
        return
    broker = STARTERS[chosen](tmp_path_factory.mktemp("broker"))
    yield broker.address
    broker.stop()


@pytest.fixture(scope="session")
def get_client(bootstrap: str) -> Iterator[GetClient]:
    """The client of a name, one for the whole session; skips where it cannot be had."""
    opened: list[Client] = []

    @cache
    def get(name: str) -> Client | str:
        try:
            opened.append(adapter_named(name)(bootstrap))
        except NotAvailable as reason:
            return str(reason)
        return opened[-1]

    def get_or_skip(name: str) -> Client:
        found = get(name)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    yield get_or_skip
    for client in opened:
        client.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, get_client: GetClient) -> Client:
    """The client under test: parametrize with `indirect` and clients_with(...)."""
    return get_client(request.param)


@pytest.fixture
def admin(get_client: GetClient) -> Client:
    """A client that can do what the one under test cannot: prepare topics and look at results."""
    return get_client("librdkafka")


@pytest.fixture
def name() -> str:
    """A name for a topic or group that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(admin: Client, name: str) -> Callable[..., str]:
    """Create a topic under a name of its own and answer the name."""

    def make(partitions: int = 1, **configs: str) -> str:
        admin.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        wait_for_leaders(admin, name, partitions)
        return name

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic of one partition with the default settings."""
    return make_topic()


@pytest.fixture
def start_member() -> Iterator[StartMember]:
    """Start a member of a group in a process; whatever still runs is stopped at the end."""
    members: list[Member] = []

    def start(client: Client, membership: Membership) -> Member:
        members.append(Member(client.member_command(membership)))
        return members[-1]

    yield start
    for member in members:
        member.stop()
