from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer


def describe(*, version: int = 2, operations: bool = False, **more: Any) -> Any:
    request_type: Any = load_request_schema(60, version)
    fields = {"include_fenced_brokers": False} if version >= 2 else {}
    return request_type(include_cluster_authorized_operations=operations, **fields, **more)


@pytest.mark.parametrize("version", range(3))
def test_there_is_one_node_and_it_controls_itself(server: RunningServer, client: RawClient, version: int) -> None:
    found = client.call(describe(version=version))
    assert (found.error_code, found.cluster_id, found.controller_id) == (ErrorCode.none, server.log.cluster_id, 1)
    assert [(broker.broker_id, broker.host, broker.port) for broker in found.brokers] == [(1, server.host, server.port)]


def test_allowed_operations_are_returned_on_request(client: RawClient) -> None:
    assert client.call(describe(operations=True)).cluster_authorized_operations > 0
    assert client.call(describe()).cluster_authorized_operations == -(2**31)


def test_no_controller_listens(client: RawClient) -> None:
    found = client.call(describe(endpoint_type=2))
    assert (found.error_code, found.brokers) == (ErrorCode.mismatched_endpoint_type, ())
