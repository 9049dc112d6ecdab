from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.log import Log
from headwater.testing import MemoryStorage
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server


def delete(*topics: str | UUID | None, version: int = 6) -> Any:
    request_type: Any = load_request_schema(20, version)
    if version < 6:
        return request_type(topic_names=topics, timeout=timedelta(seconds=1))
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0]
    named = tuple(
        topic_type(name=None, topic_id=topic) if isinstance(topic, UUID) else topic_type(name=topic, topic_id=None)
        for topic in topics
    )
    return request_type(topics=named, timeout=timedelta(seconds=1))


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name_in_every_version(server: RunningServer, client: RawClient, version: int) -> None:
    server.log.create_topic("orders")
    response = client.call(delete("orders", version=version))
    assert [(result.name, result.error_code) for result in response.responses] == [("orders", ErrorCode.none)]
    assert server.log.topics() == []


def test_a_topic_is_deleted_by_id(server: RunningServer, client: RawClient) -> None:
    topic = server.log.create_topic("orders")
    (result,) = client.call(delete(topic.id)).responses
    assert (result.name, result.topic_id, result.error_code) == ("orders", topic.id, ErrorCode.none)
    assert server.log.topics() == []


def test_a_topic_that_is_offline_is_deleted_by_name() -> None:
    storage = MemoryStorage()
    with Log.open("data", storage=storage) as log:
        log.create_topic("orders")
    for name in ("orders.json", "orders.copy"):
        storage.open(f"topics/{name}").truncate(5)
    with running_server(storage=storage) as server, RawClient(server.host, server.port) as client:
        assert server.log.offline_topics().keys() == {"orders"}
        (result,) = client.call(delete("orders")).responses
        assert (result.name, result.error_code, result.error_message) == ("orders", ErrorCode.none, None)
        assert not server.log.offline_topics()


@pytest.mark.parametrize(
    "topic, code",
    [
        ("nowhere", ErrorCode.unknown_topic_or_partition),
        (uuid4(), ErrorCode.unknown_topic_id),
        (None, ErrorCode.invalid_request),
        ("__consumer_offsets", ErrorCode.invalid_topic_exception),
    ],
)
def test_what_cannot_be_deleted_is_refused(
    server: RunningServer, client: RawClient, topic: str | UUID | None, code: ErrorCode
) -> None:
    server.log.create_topic("__consumer_offsets")
    (result,) = client.call(delete(topic)).responses
    assert result.error_code is code
    assert result.error_message
