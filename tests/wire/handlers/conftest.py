from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.wire.group_requests import Caller
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server
from tests.wire.transaction_requests import Producer


@pytest.fixture
def group_server() -> Iterator[RunningServer]:
    """A server whose new groups do not wait for more members, with a topic of two partitions."""
    with running_server(group_initial_delay=timedelta(0)) as server:
        server.log.create_topic("orders", partitions=2)
        yield server


@pytest.fixture
def caller(group_server: RunningServer) -> Iterator[Caller]:
    with RawClient(group_server.host, group_server.port) as client:
        yield Caller(client)


@pytest.fixture
def second_caller(group_server: RunningServer) -> Iterator[Caller]:
    with RawClient(group_server.host, group_server.port) as client:
        yield Caller(client)


@pytest.fixture
def producer(group_server: RunningServer) -> Iterator[Producer]:
    """A producer with the transactional id "payments"."""
    with RawClient(group_server.host, group_server.port) as client:
        yield Producer(client)


@pytest.fixture
def second_client(group_server: RunningServer) -> Iterator[RawClient]:
    """For another producer with the same transactional id, made when the test wants it."""
    with RawClient(group_server.host, group_server.port) as client:
        yield client
