"""Every API this server speaks, in one table.

An API is a file in handlers/, a row here and a test file. README.md shows the table; a test keeps it true.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NamedTuple

from kio.schema.index import api_key_map

from headwater.wire.context import Context
from headwater.wire.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from headwater.wire.protocol import fetch as fetch_format
from headwater.wire.protocol import metadata as metadata_format
from headwater.wire.protocol import produce as produce_format
from headwater.wire.protocol.entities import schema_of
from headwater.wire.protocol.reader import Reader
from headwater.wire.sender import Part

Handle = Callable[[Any, Context], Awaitable[Any]]

PRODUCE = 0
FETCH = 1
METADATA = 3
API_VERSIONS = 18


class Codec(NamedTuple):
    """One version of an API, from and to bytes."""

    read: Callable[[Reader], Any]
    write: Callable[[Any], list[Part]]
    flexible_request: bool
    flexible_response_header: bool


class Route(NamedTuple):
    api_key: int
    versions: range
    handle: Handle
    announced_from: int | None = None
    """Announce versions from here on, although only `versions` are served."""

    @property
    def name(self) -> str:
        return api_key_map[self.api_key]

    @property
    def announced(self) -> range:
        return range(self.versions.start if self.announced_from is None else self.announced_from, self.versions.stop)

    @property
    def versions_text(self) -> str:
        return f"{self.versions.start} to {self.versions.stop - 1}"

    @property
    def carries_records(self) -> bool:
        return self.api_key == PRODUCE

    def throttle_position(self, version: int) -> int | None:
        """Where a response that is written by hand says how long the client has to wait; None: its schema knows."""
        if self.api_key == PRODUCE:
            return -5 if version >= produce_format.FLEXIBLE_FROM else -4
        if self.api_key == FETCH or (self.api_key == METADATA and version >= metadata_format.THROTTLE_FROM):
            return 0
        return None

    def codec(self, version: int) -> Codec:
        return _codec(self.api_key, version)


def versions(first: int, last: int) -> range:
    """Both are served."""
    return range(first, last + 1)


ROUTES: tuple[Route, ...] = (
    # Clients up to librdkafka 2.8 take a broker that does not announce version 0 of Produce for one that cannot take
    # compressed batches. They never send it. Apache Kafka 4 announces it for the same reason.
    Route(PRODUCE, produce_format.VERSIONS, produce.handle, announced_from=0),
    Route(FETCH, fetch_format.VERSIONS, fetch.handle),
    Route(2, versions(1, 11), list_offsets.handle),
    Route(METADATA, metadata_format.VERSIONS, metadata.handle),
    Route(8, versions(2, 10), offset_commit.handle),
    Route(9, versions(1, 10), offset_fetch.handle),
    Route(10, versions(0, 6), find_coordinator.handle),
    Route(11, versions(0, 9), join_group.handle),
    Route(12, versions(0, 4), heartbeat.handle),
    Route(13, versions(0, 5), leave_group.handle),
    Route(14, versions(0, 5), sync_group.handle),
    Route(15, versions(0, 6), describe_groups.handle),
    Route(16, versions(0, 5), list_groups.handle),
    # Version 0 is followed by bare tokens that are no requests; every client of today knows version 1.
    Route(17, versions(1, 1), sasl_handshake.handle),
    Route(API_VERSIONS, versions(0, 4), api_versions.handle_for(lambda: ROUTES)),
    Route(19, versions(2, 7), create_topics.handle),
    Route(20, versions(1, 6), delete_topics.handle),
    Route(21, versions(0, 2), delete_records.handle),
    # Version 6 speaks of transactions that outlive their producer.
    Route(22, versions(0, 5), init_producer_id.handle),
    Route(23, versions(2, 4), offset_for_leader_epoch.handle),
    Route(24, versions(0, 5), add_partitions_to_txn.handle),
    Route(25, versions(0, 4), add_offsets_to_txn.handle),
    Route(26, versions(0, 5), end_txn.handle),
    Route(27, versions(1, 1), write_txn_markers.handle),
    Route(28, versions(0, 5), txn_offset_commit.handle),
    Route(29, versions(1, 3), describe_acls.handle),
    Route(30, versions(1, 3), create_acls.handle),
    Route(31, versions(1, 3), delete_acls.handle),
    Route(32, versions(1, 4), describe_configs.handle),
    Route(33, versions(0, 2), alter_configs.handle),
    Route(34, versions(1, 2), alter_replica_log_dirs.handle),
    Route(35, versions(1, 5), describe_log_dirs.handle),
    Route(36, versions(0, 2), sasl_authenticate.handle),
    Route(37, versions(0, 3), create_partitions.handle),
    Route(42, versions(0, 2), delete_groups.handle),
    Route(43, versions(0, 2), elect_leaders.handle),
    Route(44, versions(0, 1), incremental_alter_configs.handle),
    Route(45, versions(0, 1), alter_partition_reassignments.handle),
    Route(46, versions(0, 0), list_partition_reassignments.handle),
    Route(47, versions(0, 0), offset_delete.handle),
    Route(48, versions(0, 1), describe_client_quotas.handle),
    Route(49, versions(0, 1), alter_client_quotas.handle),
    Route(50, versions(0, 0), describe_user_scram_credentials.handle),
    Route(51, versions(0, 0), alter_user_scram_credentials.handle),
    Route(55, versions(0, 2), describe_quorum.handle),
    Route(60, versions(0, 2), describe_cluster.handle),
    Route(61, versions(0, 0), describe_producers.handle),
    Route(65, versions(0, 0), describe_transactions.handle),
    # Version 2 asks by a regular expression.
    Route(66, versions(0, 1), list_transactions.handle),
    Route(68, versions(0, 1), consumer_group_heartbeat.handle),
    Route(69, versions(0, 1), consumer_group_describe.handle),
    Route(74, versions(0, 1), list_config_resources.handle),
    Route(75, versions(0, 0), describe_topic_partitions.handle),
    Route(76, versions(1, 1), share_group_heartbeat.handle),
    Route(77, versions(1, 1), share_group_describe.handle),
    Route(78, versions(1, 2), share_fetch.handle),
    Route(79, versions(1, 2), share_acknowledge.handle),
    Route(90, versions(0, 1), describe_share_group_offsets.handle),
    Route(91, versions(0, 0), alter_share_group_offsets.handle),
    Route(92, versions(0, 0), delete_share_group_offsets.handle),
)

_BY_KEY = {route.api_key: route for route in ROUTES}


def find_route(api_key: int) -> Route | None:
    return _BY_KEY.get(api_key)


def unsupported_api_versions() -> bytes:
    """The answer to an ApiVersions request in a version that does not exist yet, in the form of version 0."""
    return schema_of(API_VERSIONS, 0).write(api_versions.unsupported(_BY_KEY[API_VERSIONS]))


@cache
def _codec(api_key: int, version: int) -> Codec:
    if api_key == PRODUCE:
        flexible = version >= produce_format.FLEXIBLE_FROM
        return Codec(
            lambda reader: produce_format.read_request(reader, version),
            lambda topics: [produce_format.write_response(topics, version)],
            flexible,
            flexible,
        )
    if api_key == FETCH:
        flexible = version >= fetch_format.FLEXIBLE_FROM
        return Codec(
            lambda reader: fetch_format.read_request(reader, version),
            lambda response: fetch_format.write_response(response, version),
            flexible,
            flexible,
        )
    schema = schema_of(api_key, version)
    if api_key == METADATA:
        return Codec(
            schema.read,
            lambda answer: [metadata_format.write_response(answer, version)],
            schema.flexible_request,
            schema.flexible_response_header,
        )
    return Codec(
        schema.read,
        lambda entity: [schema.write(entity)],
        schema.flexible_request,
        schema.flexible_response_header,
    )
