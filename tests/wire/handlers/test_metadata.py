from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.wire import topic_list
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server


def metadata(*names: str | UUID | None, version: int = 12, every: bool = False, **more: Any) -> Any:
    request_type: Any = load_request_schema(3, version)
    annotation = request_type.__dataclass_fields__["topics"].type
    array = annotation if version == 0 else annotation.__args__[0]  # from version 1 on it may be null
    topic_type = array.__args__[0]
    topics = tuple(_topic(topic_type, name) for name in names)
    fields = {"topics": None if every else topics, **more}
    known = request_type.__dataclass_fields__
    defaults = {name: False for name in known if name.startswith("include_")}
    return request_type(**{**defaults, **fields})


def _topic(topic_type: Any, name: str | UUID | None) -> Any:
    if "topic_id" not in topic_type.__dataclass_fields__:
        return topic_type(name=name)
    return topic_type(topic_id=name if isinstance(name, UUID) else None, name=None if isinstance(name, UUID) else name)


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(server: RunningServer, client: RawClient, version: int) -> None:
    topic = server.log.create_topic("orders", partitions=2)
    response = client.call(metadata("orders", version=version))
    assert [(broker.host, broker.port) for broker in response.brokers] == [(server.host, server.port)]
    (found,) = response.topics
    assert (found.error_code, found.name) == (ErrorCode.none, "orders")
    assert [(part.partition_index, part.leader_id) for part in found.partitions] == [(0, 1), (1, 1)]
    assert version < 10 or found.topic_id == topic.id
    assert version < 2 or response.cluster_id == server.log.cluster_id


@pytest.mark.parametrize("version, request_all", [(0, metadata(version=0)), (1, metadata(version=1, every=True))])
def test_all_topics_are_asked_for_by_nothing_or_null(
    server: RunningServer, client: RawClient, version: int, request_all: Any
) -> None:
    server.log.create_topic("orders")
    server.log.create_topic("users")
    assert {topic.name for topic in client.call(request_all).topics} >= {"orders", "users"}


def test_the_list_of_all_topics_is_made_once_until_a_topic_changes(
    server: RunningServer, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = [], topic_list._made

    def counted(*given: Any) -> Any:
        made.append(given)
        return make(*given)

    monkeypatch.setattr(topic_list, "_made", counted)
    server.log.create_topic("orders")

    def names() -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in client.call(metadata(every=True)).topics}

    for _ in range(10):
        assert names()["orders"] == 1
    assert len(made) == 1
    server.log.create_topic("users")
    assert "users" in names()
    server.log.add_partitions("users", 3)
    assert names()["users"] == 3
    server.log.delete_topic("orders")
    assert "orders" not in names()
    assert len(made) == 4
    (found,) = [one for one in client.call(metadata(every=True, version=9)).topics if one.name == "users"]
    asked = client.call(metadata(every=True, include_topic_authorized_operations=True))
    assert {topic.topic_authorized_operations for topic in asked.topics} != {found.topic_authorized_operations}
    assert len(made) == 6


def test_no_topics_are_asked_for_by_an_empty_list(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders")
    assert client.call(metadata(version=12)).topics == ()


def test_an_unknown_topic_is_made_where_both_sides_allow_it(server: RunningServer, client: RawClient) -> None:
    (found,) = client.call(metadata("fresh")).topics
    assert (found.error_code, len(found.partitions)) == (ErrorCode.none, 1)
    assert server.log.topic("fresh").id == found.topic_id


def test_an_unknown_topic_is_not_made_for_a_client_that_only_looks(server: RunningServer, client: RawClient) -> None:
    (found,) = client.call(metadata("fresh", allow_auto_topic_creation=False)).topics
    assert found.error_code is ErrorCode.unknown_topic_or_partition
    assert "fresh" not in {topic.name for topic in server.log.topics()}


def test_an_unknown_topic_is_not_made_where_the_node_forbids_it() -> None:
    with running_server(auto_create_topics=False) as server, RawClient(server.host, server.port) as client:
        (found,) = client.call(metadata("fresh")).topics
        assert found.error_code is ErrorCode.unknown_topic_or_partition


def test_new_topics_have_the_default_number_of_partitions() -> None:
    with running_server(default_partitions=3) as server, RawClient(server.host, server.port) as client:
        (found,) = client.call(metadata("fresh")).topics
        assert len(found.partitions) == 3


def test_a_name_that_cannot_be_is_refused(client: RawClient) -> None:
    (found,) = client.call(metadata("../etc")).topics
    assert found.error_code is ErrorCode.invalid_topic_exception


def test_topics_are_found_by_id(server: RunningServer, client: RawClient) -> None:
    topic = server.log.create_topic("orders")
    found, missing = client.call(metadata(topic.id, uuid4())).topics
    assert (found.name, found.error_code) == ("orders", ErrorCode.none)
    assert (missing.name, missing.error_code) == (None, ErrorCode.unknown_topic_id)


def test_allowed_operations_are_returned_on_request(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders")
    asked = client.call(metadata("orders", version=9, include_cluster_authorized_operations=True,
                                 include_topic_authorized_operations=True))  # fmt: skip
    silent = client.call(metadata("orders", version=9))
    assert asked.cluster_authorized_operations > 0
    assert asked.topics[0].topic_authorized_operations > 0
    assert silent.cluster_authorized_operations == silent.topics[0].topic_authorized_operations == -(2**31)


def test_clients_receive_the_advertised_host() -> None:
    with running_server(advertised_host="kafka.example") as server, RawClient(server.host, server.port) as client:
        assert client.call(metadata(version=12)).brokers[0].host == "kafka.example"


def test_a_topic_that_is_asked_for_twice_is_made_once(server: RunningServer, client: RawClient) -> None:
    assert [topic.name for topic in client.call(metadata("fresh", "fresh")).topics] == ["fresh"]
