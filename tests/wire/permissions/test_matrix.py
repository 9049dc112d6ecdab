"""Every API × every permission it needs × allowed, denied, not logged in: the answers of Apache Kafka, from one table.

A row says which permissions a request needs and with which error it is refused without each. What may be seen, but is
left out of answers, is in test_hidden.py.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.access.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.errors import UnknownTopic
from headwater.log.log import Log
from headwater.wire.permissions.table import RULES
from headwater.wire.protocol.entities import default_of, shape_of
from headwater.wire.routes import ROUTES
from tests.wire.logins import add_user, allow, forget_acls, guarded_server, logged_in
from tests.wire.raw_client import RawClient, batch
from tests.wire.running import RunningServer

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTION = ResourceType.TRANSACTIONAL_ID
NAMES = {TOPIC: "orders", GROUP: "shop", TRANSACTION: "payments", CLUSTER: CLUSTER_NAME}
CODES = {
    TOPIC: ErrorCode.topic_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
    TRANSACTION: ErrorCode.transactional_id_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
}


class Need(NamedTuple):
    operation: str
    resource_type: ResourceType
    refused_with: ErrorCode | None = None
    """None: the one of the type of resource."""

    @property
    def code(self) -> ErrorCode:
        return self.refused_with or CODES[self.resource_type]

    def give(self, server: RunningServer) -> None:
        allow(server, "User:alice", Operation[self.operation], self.resource_type, NAMES[self.resource_type])


class Row(NamedTuple):
    api: str
    needs: tuple[Need, ...] = ()
    fields: Mapping[str, Any] = {}
    versions: range = range(100)
    what: str = ""


BROKER = {"resource_type": 4, "resource_name": "0"}
OLD_TRANSACTION = ErrorCode.cluster_authorization_failed
TABLE = (
    Row("produce", (Need("WRITE", TOPIC),)),
    Row("produce", (Need("WRITE", TRANSACTION), Need("WRITE", TOPIC)), {"transactional_id": "payments"},
        what="in a transaction"),
    Row("fetch", (Need("READ", TOPIC),)),
    Row("list_offsets", (Need("DESCRIBE", TOPIC),)),
    Row("metadata", (Need("DESCRIBE", TOPIC),), {"topic_id": None}),
    Row("offset_commit", (Need("READ", GROUP), Need("READ", TOPIC))),
    Row("offset_fetch", (Need("DESCRIBE", GROUP), Need("DESCRIBE", TOPIC))),
    Row("find_coordinator", (Need("DESCRIBE", GROUP),), {"key_type": 0}, what="of a group"),
    Row("find_coordinator", (Need("DESCRIBE", TRANSACTION),),
        {"key_type": 1, "key": "payments", "coordinator_keys": ("payments",)}, range(1, 100), "of a transaction"),
    Row("join_group", (Need("READ", GROUP),)),
    Row("heartbeat", (Need("READ", GROUP),)),
    Row("leave_group", (Need("READ", GROUP),)),
    Row("sync_group", (Need("READ", GROUP),)),
    Row("describe_groups", (Need("DESCRIBE", GROUP),)),
    Row("list_groups"),
    Row("create_topics", (Need("CREATE", TOPIC),), what="of this name"),
    Row("create_topics", (Need("CREATE", CLUSTER, CODES[TOPIC]),), what="any"),
    Row("delete_topics", (Need("DELETE", TOPIC),), {"topic_id": None}, what="by name"),
    Row("delete_topics", (Need("DELETE", TOPIC),), {"name": None}, range(6, 100), what="by id"),
    Row("delete_records", (Need("DELETE", TOPIC),)),
    Row("init_producer_id", (Need("IDEMPOTENT_WRITE", CLUSTER),), {"transactional_id": None}, what="of no topic"),
    Row("init_producer_id", (Need("WRITE", TOPIC, CODES[CLUSTER]),), {"transactional_id": None}, what="of some topic"),
    Row("init_producer_id", (Need("WRITE", TRANSACTION),), what="for transactions"),
    Row("offset_for_leader_epoch", (Need("DESCRIBE", TOPIC),)),
    Row("add_partitions_to_txn", (Need("WRITE", TRANSACTION), Need("WRITE", TOPIC)), {}, range(4)),
    Row("add_partitions_to_txn", (Need("CLUSTER_ACTION", CLUSTER),), {}, range(4, 100), "of brokers"),
    Row("add_offsets_to_txn", (Need("WRITE", TRANSACTION), Need("READ", GROUP))),
    Row("end_txn", (Need("WRITE", TRANSACTION),)),
    Row("write_txn_markers", (Need("CLUSTER_ACTION", CLUSTER),), what="of brokers"),
    Row("write_txn_markers", (Need("ALTER", CLUSTER),), what="of administrators"),
    Row("txn_offset_commit", (Need("WRITE", TRANSACTION), Need("READ", GROUP), Need("READ", TOPIC))),
    Row("describe_acls", (Need("DESCRIBE", CLUSTER),)),
    Row("create_acls", (Need("ALTER", CLUSTER),)),
    Row("delete_acls", (Need("ALTER", CLUSTER),)),
    Row("describe_configs", (Need("DESCRIBE_CONFIGS", TOPIC),), what="of a topic"),
    Row("describe_configs", (Need("DESCRIBE_CONFIGS", CLUSTER),), BROKER, what="of the node"),
    Row("alter_configs", (Need("ALTER_CONFIGS", TOPIC),), what="of a topic"),
    Row("alter_configs", (Need("ALTER_CONFIGS", CLUSTER),), BROKER, what="of the node"),
    Row("incremental_alter_configs", (Need("ALTER_CONFIGS", TOPIC),), what="of a topic"),
    Row("incremental_alter_configs", (Need("ALTER_CONFIGS", CLUSTER),), BROKER, what="of the node"),
    Row("describe_log_dirs", (Need("DESCRIBE", CLUSTER),), {}, range(3, 100)),
    Row("create_partitions", (Need("ALTER", TOPIC),)),
    Row("delete_groups", (Need("DELETE", GROUP),)),
    Row("offset_delete", (Need("DELETE", GROUP), Need("READ", TOPIC))),
    Row("describe_client_quotas", (Need("DESCRIBE_CONFIGS", CLUSTER),)),
    Row("alter_client_quotas", (Need("ALTER_CONFIGS", CLUSTER),)),
    Row("describe_user_scram_credentials", (Need("DESCRIBE", CLUSTER),)),
    Row("alter_user_scram_credentials", (Need("ALTER", CLUSTER),)),
    Row("describe_cluster"),
    Row("describe_producers", (Need("READ", TOPIC),)),
    Row("describe_transactions", (Need("DESCRIBE", TRANSACTION),)),
    Row("list_transactions"),
    Row("consumer_group_heartbeat", (Need("READ", GROUP), Need("DESCRIBE", TOPIC)),
        {"subscribed_topic_names": ("orders",)}),
    Row("consumer_group_describe", (Need("DESCRIBE", GROUP),)),
    Row("find_coordinator", (Need("CLUSTER_ACTION", CLUSTER),), {"key_type": 2}, range(4, 100), "of a share state"),
    Row("share_group_heartbeat", (Need("READ", GROUP), Need("DESCRIBE", TOPIC)),
        {"subscribed_topic_names": ("orders",), "member_epoch": 5}),
    Row("share_group_describe", (Need("DESCRIBE", GROUP),)),
    Row("share_fetch", (Need("READ", GROUP), Need("READ", TOPIC)),
        {"acknowledgement_batches": (), "forgotten_topics_data": ()}),
    Row("share_acknowledge", (Need("READ", GROUP),)),
    Row("describe_share_group_offsets", (Need("DESCRIBE", GROUP), Need("DESCRIBE", TOPIC))),
    Row("alter_share_group_offsets", (Need("READ", GROUP), Need("READ", TOPIC))),
    Row("delete_share_group_offsets", (Need("DELETE", GROUP), Need("READ", TOPIC))),
    Row("alter_replica_log_dirs", (Need("ALTER", CLUSTER),)),
    Row("elect_leaders", (Need("ALTER", CLUSTER),)),
    Row("alter_partition_reassignments", (Need("ALTER", CLUSTER),)),
    Row("list_partition_reassignments", (Need("DESCRIBE", CLUSTER),)),
    Row("describe_quorum", (Need("DESCRIBE", CLUSTER),)),
    Row("list_config_resources", (Need("DESCRIBE_CONFIGS", CLUSTER),), {"resource_types": (2,)}),
    Row("describe_topic_partitions", (Need("DESCRIBE", TOPIC),), {"cursor": None}),
)  # fmt: skip

BEFORE_THE_LOGIN = {"api_versions", "sasl_handshake", "sasl_authenticate"}

TEXTS = {
    "group_id": "shop", "groups": "shop", "groups_names": "shop", "group_ids": "shop", "key": "shop",
    "coordinator_keys": "shop", "topic_name": "orders",
    "transactional_id": "payments", "transactional_ids": "payments", "v3_and_below_transactional_id": "payments",
    "name": "orders", "topic": "orders", "resource_name": "orders", "topic_names": "orders",
}  # fmt: skip
NUMBERS = {"resource_type": 2, "acks": -1, "producer_id": -1, "producer_epoch": -1}


def request_of(row: Row, version: int, log: Log) -> Any:
    (route,) = [one for one in ROUTES if one.name == row.api]
    fields = {"topic_id": log.topic("orders").id, **row.fields}
    if row.api != "produce" or row.what == "":
        fields = {**({"transactional_id": None} if row.api == "produce" else {}), **fields}
    return filled(load_request_schema(route.api_key, version), fields)


def filled(entity_type: Any, fields: Mapping[str, Any]) -> Any:
    """A request with one element in each array, about orders, shop and payments."""
    return entity_type(**{one.name: _value(one, fields) for one in dataclasses.fields(entity_type)})


def _value(one: Any, fields: Mapping[str, Any]) -> Any:
    shape, kind = shape_of(one.type), one.metadata.get("kafka_type")
    if one.name in fields:
        return fields[one.name]
    if one.name == "replica_state":
        return default_of(one)
    if kind is None:
        value: Any = filled(shape.inner, fields)
    elif kind == "string":
        value = TEXTS.get(one.name, "other")
    elif kind == "records":
        value = batch(b"some value")
    elif kind == "bytes":
        value = b""
    elif str(kind).startswith("timedelta"):
        value = timedelta(0)
    else:
        value = NUMBERS.get(one.name, 0 if shape.array else default_of(one))
    return (value,) if shape.array else value


def codes_in(answer: Any) -> set[ErrorCode]:
    """Every code of a refused permission, wherever in an answer."""
    return {code for code in _codes(answer) if code in CODES.values()}


def _codes(entity: Any) -> Iterator[ErrorCode]:
    for one in dataclasses.fields(entity):
        value = getattr(entity, one.name)
        if one.metadata.get("kafka_type") == "error_code":
            yield value
        elif one.metadata.get("kafka_type") is None:
            for inner in value if isinstance(value, tuple) else () if value is None else (value,):
                yield from _codes(inner)


class Cell(NamedTuple):
    row: Row
    version: int
    without: Need | None = None
    """The permission that is missing; None: all are given."""

    @property
    def name(self) -> str:
        without = self.without and f"without {self.without.operation} {self.without.resource_type.name}"
        return f"{self.row.api} {self.row.what} {self.version} {without or 'allowed'}"


def cells(missing: Callable[[Row], tuple[Need | None, ...]], *, newest: bool = False) -> list[Any]:
    """Of every version of every API, or of the newest alone."""
    found = [
        Cell(row, version, without)
        for row in TABLE for route in ROUTES if route.name == row.api
        for version in [one for one in route.versions if one in row.versions][-1 if newest else 0 :]
        for without in missing(row)
    ]  # fmt: skip
    return [pytest.param(cell, id=cell.name) for cell in found]


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningServer]:
    with guarded_server() as server:
        yield server


@pytest.fixture
def alice(guarded: RunningServer) -> Iterator[RawClient]:
    with logged_in(guarded, "alice") as client:
        yield client


@pytest.fixture
def admin(guarded: RunningServer) -> Iterator[RawClient]:
    with logged_in(guarded, "admin") as client:
        yield client


@pytest.fixture
def server(guarded: RunningServer) -> RunningServer:
    """With the topic, which an allowed request may have deleted, and without permissions."""
    forget_acls(guarded)
    try:
        guarded.log.topic("orders")
    except UnknownTopic:
        guarded.log.create_topic("orders")
    return guarded


def answer_of(cell: Cell, server: RunningServer, client: RawClient) -> Any:
    for need in cell.row.needs:
        if need is not cell.without:
            need.give(server)
    return client.call(request_of(cell.row, cell.version, server.log))


@pytest.mark.parametrize("cell", cells(lambda row: (None,)))
def test_who_has_every_permission_is_not_refused(cell: Cell, server: RunningServer, alice: RawClient) -> None:
    assert codes_in(answer_of(cell, server, alice)) == set()


@pytest.mark.parametrize("cell", cells(lambda row: row.needs))
def test_who_lacks_one_permission_is_refused_for_it(cell: Cell, server: RunningServer, alice: RawClient) -> None:
    assert cell.without is not None
    assert codes_in(answer_of(cell, server, alice)) == {cell.without.code}


@pytest.mark.parametrize("cell", cells(lambda row: row.needs[:1], newest=True))
def test_who_has_no_permission_is_refused_for_the_first(cell: Cell, server: RunningServer, alice: RawClient) -> None:
    alone = cell._replace(row=cell.row._replace(needs=()))
    assert cell.without is not None
    assert codes_in(answer_of(alone, server, alice)) == {cell.without.code}


@pytest.mark.parametrize("cell", cells(lambda row: (None,), newest=True))
def test_a_super_user_needs_no_permission(cell: Cell, server: RunningServer, admin: RawClient) -> None:
    alone = cell._replace(row=cell.row._replace(needs=()))
    assert codes_in(answer_of(alone, server, admin)) == set()


@pytest.mark.parametrize("cell", cells(lambda row: (None,), newest=True))
def test_who_has_not_logged_in_gets_no_answer(cell: Cell, server: RunningServer) -> None:
    with RawClient(server.host, server.port) as client:
        client.send_request(request_of(cell.row, cell.version, server.log))
        assert client.closed()


def test_every_api_of_the_port_is_in_the_table() -> None:
    served = {route.name for route in ROUTES}
    assert served == {row.api for row in TABLE} | BEFORE_THE_LOGIN
    assert served == set(RULES)


def test_the_dirs_of_the_log_are_left_out_of_answers_that_have_no_error(
    server: RunningServer, alice: RawClient
) -> None:
    answer = alice.call(request_of(Row("describe_log_dirs"), 2, server.log))
    assert answer.results == ()


def test_a_permission_that_is_taken_away_counts_for_connections_that_are_open(
    server: RunningServer, alice: RawClient
) -> None:
    row = Row("list_offsets", (Need("DESCRIBE", TOPIC),))
    assert codes_in(answer_of(Cell(row, 5), server, alice)) == set()
    forget_acls(server)
    assert codes_in(answer_of(Cell(row, 5, row.needs[0]), server, alice)) == {CODES[TOPIC]}


def test_a_user_who_is_added_may_do_nothing_at_first(server: RunningServer) -> None:
    add_user(server, "bob")
    with logged_in(server, "bob") as bob:
        assert codes_in(bob.call(request_of(Row("fetch"), 12, server.log))) == {CODES[TOPIC]}
