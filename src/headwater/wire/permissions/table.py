"""Which permissions each API needs: the one table. A test holds that every API that is served has its row.

    FREE          every client may, also before the login
    Whole         one refusal for the whole request
    Each          each element that may not be touched is taken out, and refused in the answer
    anything else is a function of special.py: what Kafka asks there does not fit the two above

Where several are given, all must hold; the first that does not is the answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.access.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.wire.context import Context
from headwater.wire.permissions import special

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTION = ResourceType.TRANSACTIONAL_ID

CODES = {
    TOPIC: ErrorCode.topic_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    TRANSACTION: ErrorCode.transactional_id_authorization_failed,
}

Handle = Callable[[Any, Context], Awaitable[Any]]
Special = Callable[[Any, Context, Handle], Awaitable[Any]]


class Whole(NamedTuple):
    operation: Operation
    resource_type: ResourceType
    field: str = ""
    """Of the request, with the name of the resource; "" is the cluster."""
    alternative: Operation | None = None
    """Another operation that is as good."""

    def name(self, request: Any) -> str | None:
        """None: the request names none, and needs nothing."""
        return getattr(request, self.field) if self.field else CLUSTER_NAME


class Each(NamedTuple):
    operation: Operation
    resource_type: ResourceType
    array: str
    """Of the request."""
    answers: str
    """The array of the response with the answers to them."""
    name: str = "name"
    """The field of an element with the name of the resource; in an array of texts, the field of the answer."""


class Rule(NamedTuple):
    whole: tuple[Whole, ...] = ()
    each: Each | None = None
    special: Special | None = None


FREE = Rule()
read, write, create, delete = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
alter, describe = Operation.ALTER, Operation.DESCRIBE

MEMBER = Rule((Whole(read, GROUP, "group_id"),))

RULES: Mapping[str, Rule] = {
    "produce": Rule(special=special.produce),
    "fetch": Rule(special=special.fetch),
    "list_offsets": Rule(each=Each(describe, TOPIC, "topics", "topics")),
    "metadata": Rule(special=special.metadata),
    "offset_commit": Rule(MEMBER.whole, Each(read, TOPIC, "topics", "topics")),
    "offset_fetch": Rule(special=special.offset_fetch),
    "find_coordinator": Rule(special=special.find_coordinator),
    "join_group": MEMBER,
    "heartbeat": MEMBER,
    "leave_group": MEMBER,
    "sync_group": MEMBER,
    "describe_groups": Rule(special=special.describe_groups,
                            each=Each(describe, GROUP, "groups", "groups", "group_id")),
    "list_groups": Rule(special=special.list_groups),
    "sasl_handshake": FREE,
    "api_versions": FREE,
    "create_topics": Rule(special=special.create_topics),
    "delete_topics": Rule(special=special.delete_topics),
    "delete_records": Rule(each=Each(delete, TOPIC, "topics", "topics")),
    "init_producer_id": Rule(special=special.init_producer_id),
    "offset_for_leader_epoch": Rule(each=Each(describe, TOPIC, "topics", "topics", "topic")),
    "add_partitions_to_txn": Rule(special=special.add_partitions_to_txn),
    "add_offsets_to_txn": Rule((Whole(write, TRANSACTION, "transactional_id"), Whole(read, GROUP, "group_id"))),
    "end_txn": Rule((Whole(write, TRANSACTION, "transactional_id"),)),
    # Brokers write markers, and administrators, who abort a transaction that hangs.
    "write_txn_markers": Rule((Whole(Operation.CLUSTER_ACTION, CLUSTER, alternative=alter),)),
    "txn_offset_commit": Rule((Whole(write, TRANSACTION, "transactional_id"), Whole(read, GROUP, "group_id")),
                              Each(read, TOPIC, "topics", "topics")),
    "describe_acls": Rule((Whole(describe, CLUSTER),)),
    "create_acls": Rule((Whole(alter, CLUSTER),)),
    "delete_acls": Rule((Whole(alter, CLUSTER),)),
    "describe_configs": Rule(special=special.describe_configs),
    "alter_configs": Rule(special=special.alter_configs),
    "describe_log_dirs": Rule((Whole(describe, CLUSTER),)),
    "sasl_authenticate": FREE,
    "create_partitions": Rule(each=Each(alter, TOPIC, "topics", "results")),
    "delete_groups": Rule(each=Each(delete, GROUP, "groups_names", "results", "group_id")),
    "incremental_alter_configs": Rule(special=special.alter_configs),
    "offset_delete": Rule((Whole(delete, GROUP, "group_id"),), Each(read, TOPIC, "topics", "topics")),
    "describe_client_quotas": Rule((Whole(Operation.DESCRIBE_CONFIGS, CLUSTER),)),
    "alter_client_quotas": Rule((Whole(Operation.ALTER_CONFIGS, CLUSTER),)),
    "describe_user_scram_credentials": Rule((Whole(describe, CLUSTER),)),
    "alter_user_scram_credentials": Rule(special=special.alter_user_scram_credentials),
    "describe_cluster": Rule(special=special.describe_cluster),
    "describe_producers": Rule(each=Each(read, TOPIC, "topics", "topics")),
    "describe_transactions": Rule(special=special.describe_transactions,
                                  each=Each(describe, TRANSACTION, "transactional_ids", "transaction_states",
                                            "transactional_id")),
    "consumer_group_heartbeat": Rule(MEMBER.whole, special=special.consumer_group_heartbeat),
    "consumer_group_describe": Rule(special=special.consumer_group_describe,
                                    each=Each(describe, GROUP, "group_ids", "groups", "group_id")),
    "alter_replica_log_dirs": Rule(special=special.alter_replica_log_dirs),
    "elect_leaders": Rule(special=special.elect_leaders),
    "alter_partition_reassignments": Rule((Whole(alter, CLUSTER),)),
    "list_partition_reassignments": Rule((Whole(describe, CLUSTER),)),
    "describe_quorum": Rule((Whole(describe, CLUSTER),)),
    "list_config_resources": Rule((Whole(Operation.DESCRIBE_CONFIGS, CLUSTER),)),
    "describe_topic_partitions": Rule(each=Each(describe, TOPIC, "topics", "topics")),
    "list_transactions": Rule(special=special.list_transactions),
    "share_group_heartbeat": Rule(MEMBER.whole, special=special.consumer_group_heartbeat),
    "share_group_describe": Rule(special=special.share_group_describe,
                                 each=Each(describe, GROUP, "group_ids", "groups", "group_id")),
    # The handlers ask for each topic: those of a session are not in the request.
    "share_fetch": MEMBER,
    "share_acknowledge": MEMBER,
    "describe_share_group_offsets": Rule(special=special.describe_share_group_offsets,
                                         each=Each(describe, GROUP, "groups", "groups", "group_id")),
    "alter_share_group_offsets": Rule(MEMBER.whole, Each(read, TOPIC, "topics", "responses", "topic_name")),
    "delete_share_group_offsets": Rule((Whole(delete, GROUP, "group_id"),),
                                       Each(read, TOPIC, "topics", "responses", "topic_name")),
}  # fmt: skip
