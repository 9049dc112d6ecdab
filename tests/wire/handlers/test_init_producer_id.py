from dataclasses import replace
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


def test_a_transactional_id_keeps_its_producer_id_and_gets_a_new_epoch(client: RawClient) -> None:
    first, second = client.call(init("payments")), client.call(init("payments"))
    assert (first.error_code, first.producer_epoch) == (ErrorCode.none, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


def test_only_the_newest_producer_may_continue_after_an_error(client: RawClient) -> None:
    request_type: Any = load_request_schema(22, 4)
    first = client.call(init("payments"))
    newer = client.call(init("payments"))
    late = request_type(
        transactional_id="payments", transaction_timeout=timedelta(seconds=60),
        producer_id=first.producer_id, producer_epoch=first.producer_epoch,
    )  # fmt: skip
    assert client.call(late).error_code == ErrorCode.producer_fenced
    renewed = client.call(replace(late, producer_epoch=newer.producer_epoch))
    assert (renewed.error_code, renewed.producer_epoch) == (ErrorCode.none, 2)


def test_a_transaction_may_not_be_open_for_ever(client: RawClient) -> None:
    request_type: Any = load_request_schema(22, 4)
    endless = request_type(transactional_id="payments", transaction_timeout=timedelta(days=1))
    assert client.call(endless).error_code == ErrorCode.invalid_transaction_timeout
