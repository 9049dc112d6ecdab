"""Names of what a client may not see are in no answer, and what is not there looks the same as what is hidden."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from headwater.access.acls import Operation, Pattern, Permission, ResourceType
from headwater.log.topic import ACCESS_TOPIC
from headwater.settings import SecuritySettings
from tests.wire.logins import allow, forget_acls, guarded_server, logged_in
from tests.wire.permissions.test_matrix import Row, request_of
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import fetch, produce
from tests.wire.running import RunningServer

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTION = ResourceType.TRANSACTIONAL_ID
HIDDEN = "payroll"
ALICE = "User:alice"
MINUTE = timedelta(minutes=1)
CHANGES = [("delete_records", 2), ("create_partitions", 3), ("incremental_alter_configs", 1), ("alter_configs", 2),
           ("delete_topics", 5)]  # fmt: skip
"""APIs that change what a topic is or has, and a version of each."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningServer]:
    with guarded_server() as server:
        server.log.create_topic("orders")
        server.log.create_topic(HIDDEN)
        with logged_in(server, "admin") as admin:
            begin_transaction(admin, server)
        yield server


@pytest.fixture
def server(guarded: RunningServer) -> RunningServer:
    forget_acls(guarded)
    return guarded


@pytest.fixture
def alice(guarded: RunningServer) -> Iterator[RawClient]:
    with logged_in(guarded, "alice") as client:
        yield client


def begin_transaction(admin: RawClient, server: RunningServer) -> None:
    """The transaction payments, with partitions of both topics, and offsets of the group shop for both."""
    made = admin.call(request_of(Row("init_producer_id", fields={"transaction_timeout": MINUTE}), 4, server.log))
    assert made.error_code is ErrorCode.none, made
    said = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    for topic in ("orders", HIDDEN):
        added = admin.call(request_of(Row("add_partitions_to_txn", fields={**said, "name": topic}), 3, server.log))
        (one,) = added.results_by_topic_v3_and_below
        assert one.results_by_partition[0].partition_error_code is ErrorCode.none, added
        alone = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "name": topic}
        stored = admin.call(request_of(Row("offset_commit", fields=alone), 8, server.log))
        assert stored.topics[0].partitions[0].error_code is ErrorCode.none, stored


def frame_of(client: RawClient, request: Any) -> bytes:
    client.send_request(request)
    return client.receive_frame()


def all_topics() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)


def one_topic(name: str | None, topic_id: UUID | None = None) -> MetadataRequest:
    asked = MetadataRequestTopic(topic_id=topic_id, name=None if name is None else TopicName(name))
    return MetadataRequest(topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False)


def test_a_list_of_all_topics_has_only_those_that_may_be_seen(server: RunningServer, alice: RawClient) -> None:
    allow(server, ALICE, Operation.READ, TOPIC, "orders")
    frame = frame_of(alice, all_topics())
    assert b"orders" in frame
    assert HIDDEN.encode() not in frame


def test_a_denial_hides_a_topic_from_who_may_see_all(server: RunningServer, alice: RawClient) -> None:
    allow(server, ALICE, Operation.ALL, TOPIC, "*")
    allow(server, "User:*", Operation.ALL, TOPIC, "pay", permission=Permission.DENY, pattern=Pattern.PREFIXED)
    frame = frame_of(alice, all_topics())
    assert b"orders" in frame
    assert HIDDEN.encode() not in frame


def test_a_hidden_topic_is_answered_as_one_that_does_not_exist(server: RunningServer, alice: RawClient) -> None:
    (hidden,) = alice.call(one_topic(HIDDEN)).topics
    (missing,) = alice.call(one_topic("nothing")).topics
    assert hidden.error_code is missing.error_code is ErrorCode.topic_authorization_failed
    assert hidden.topic_id == missing.topic_id
    assert hidden.partitions == missing.partitions == ()


def test_the_id_of_a_hidden_topic_is_answered_as_one_that_no_topic_has(server: RunningServer, alice: RawClient) -> None:
    hidden_id = server.log.topic(HIDDEN).id
    (hidden,) = alice.call(one_topic(None, hidden_id)).topics
    (missing,) = alice.call(one_topic(None, UUID(int=7))).topics
    assert hidden.error_code is missing.error_code is ErrorCode.unknown_topic_id
    assert hidden.name is missing.name is None


def test_groups_and_transactions_are_listed_only_for_who_may_see_them(server: RunningServer, alice: RawClient) -> None:
    lists = [ListGroupsRequest(states_filter=()), request_of(Row("list_transactions"), 1, server.log)]
    frames = [frame_of(alice, one) for one in lists]
    assert not [frame for frame in frames if b"shop" in frame or b"payments" in frame]


def test_groups_and_transactions_are_listed_for_who_may_see_them(server: RunningServer, alice: RawClient) -> None:
    allow(server, ALICE, Operation.DESCRIBE, GROUP, "shop")
    allow(server, ALICE, Operation.DESCRIBE, TRANSACTION, "payments")
    assert b"shop" in frame_of(alice, ListGroupsRequest(states_filter=()))
    everything = Row(
        "list_transactions", fields={"state_filters": (), "producer_id_filters": (), "duration_filter": -1}
    )
    request = request_of(everything, 1, server.log)
    assert b"payments" in frame_of(alice, request)


def test_a_described_transaction_shows_no_hidden_topic(server: RunningServer, alice: RawClient) -> None:
    allow(server, ALICE, Operation.DESCRIBE, TRANSACTION, "payments")
    allow(server, ALICE, Operation.DESCRIBE, TOPIC, "orders")
    frame = frame_of(alice, request_of(Row("describe_transactions"), 0, server.log))
    assert b"orders" in frame
    assert HIDDEN.encode() not in frame


@pytest.mark.parametrize("version", [2, 7, 8])
def test_all_offsets_of_a_group_show_no_hidden_topic(version: int, server: RunningServer, alice: RawClient) -> None:
    allow(server, ALICE, Operation.DESCRIBE, GROUP, "shop")
    allow(server, ALICE, Operation.DESCRIBE, TOPIC, "orders")
    request = request_of(Row("offset_fetch", fields={"topics": None}), version, server.log)
    frame = frame_of(alice, request)
    assert b"orders" in frame
    assert HIDDEN.encode() not in frame


def test_a_topic_that_may_not_be_deleted_by_its_id_keeps_its_name(server: RunningServer, alice: RawClient) -> None:
    by_id = Row("delete_topics", fields={"name": None, "topic_id": server.log.topic(HIDDEN).id})
    frame = frame_of(alice, request_of(by_id, 6, server.log))
    assert HIDDEN.encode() not in frame
    assert server.log.topic(HIDDEN).name == HIDDEN


def test_what_is_refused_has_no_effect(server: RunningServer, alice: RawClient) -> None:
    before = server.log.partition(HIDDEN, 0).end_offset
    answer = alice.call(produce(HIDDEN, batch(b"not mine")))
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.topic_authorization_failed
    assert server.log.partition(HIDDEN, 0).end_offset == before


def test_records_without_an_answer_end_the_connection_if_they_are_refused(
    server: RunningServer, alice: RawClient
) -> None:
    alice.send_request(produce(HIDDEN, batch(b"not mine"), acks=0))
    assert alice.closed()


def test_the_topic_with_the_passwords_is_read_and_written_by_no_client(server: RunningServer) -> None:
    with logged_in(server, "admin") as admin:
        read = admin.call(fetch(ACCESS_TOPIC, {0: 0}))
        assert read.responses[0].partitions[0].error_code is ErrorCode.topic_authorization_failed
        assert not read.responses[0].partitions[0].records
        written = admin.call(produce(ACCESS_TOPIC, batch(b"{}")))
        assert written.responses[0].partition_responses[0].error_code is not ErrorCode.none


@pytest.mark.parametrize("api, version", CHANGES)
def test_the_topic_with_the_permissions_is_changed_by_no_client(api: str, version: int, server: RunningServer) -> None:
    allow(server, ALICE, Operation.ALL, TOPIC, "*")
    before = server.log.topic(ACCESS_TOPIC), server.log.partition(ACCESS_TOPIC, 0).start_offset
    named = {
        "name": ACCESS_TOPIC,
        "topic_names": (ACCESS_TOPIC,),
        "resource_name": ACCESS_TOPIC,
        "offset": -1,
        "count": 9,
    }
    with logged_in(server, "alice") as alice:
        alice.call(request_of(Row(api, fields=named), version, server.log))
    assert (server.log.topic(ACCESS_TOPIC), server.log.partition(ACCESS_TOPIC, 0).start_offset) == before


def test_where_everything_without_an_acl_is_free_the_permissions_are_not() -> None:
    free = SecuritySettings(mechanisms=("PLAIN",), allowed_without_acl=True)
    with guarded_server(free) as server, logged_in(server, "alice") as alice:
        server.log.create_topic("orders")
        answer = alice.call(produce("orders", batch(b"mine")))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
        refused = alice.call(request_of(Row("create_acls"), 3, server.log))
        assert refused.results[0].error_code is ErrorCode.cluster_authorization_failed
        assert ACCESS_TOPIC.encode() not in frame_of(alice, all_topics())
