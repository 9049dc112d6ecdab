from collections.abc import Iterator

import pytest

from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[RawClient]:
    with RawClient(server.host, server.port) as client:
        yield client
