from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.log.storage.memory import MemoryStorage
from tests.wire.raw_client import RawClient
from tests.wire.running import running_server


def init(transactional_id: str | None = None, *, version: int = 4) -> Any:
    request_type: Any = load_request_schema(22, version)
    return request_type(transactional_id=transactional_id, transaction_timeout=timedelta(seconds=60))


@pytest.mark.parametrize("version", range(6))
def test_a_producer_gets_an_id_of_its_own_in_every_version(client: RawClient, version: int) -> None:
    first, second = client.call(init(version=version)), client.call(init(version=version))
    assert (first.error_code, first.producer_epoch) == (ErrorCode.none, 0)
    assert second.producer_id != first.producer_id


def test_an_id_is_not_given_again_after_a_restart() -> None:
    storage = MemoryStorage()
    ids = []
    for _ in range(2):
        with running_server(storage=storage) as server, RawClient(server.host, server.port) as client:
            ids += [client.call(init()).producer_id for _ in range(3)]
    assert len(set(ids)) == 6


def test_transactions_are_refused_for_good(client: RawClient) -> None:
    refused = client.call(init("payments"))
    assert (refused.error_code, refused.producer_id) == (ErrorCode.unsupported_version, -1)
    assert not refused.error_code.retriable
