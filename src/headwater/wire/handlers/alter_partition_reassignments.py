"""AlterPartitionReassignments: every partition is on the only node, and stays there."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.topics import FAILURES, code_for, find_partition


async def handle(request: Any, context: Context) -> Fields:
    responses = tuple(
        Fields(name=topic.name, partitions=tuple(_partition(topic.name, one, context) for one in topic.partitions))
        for topic in request.topics
    )
    return Fields(
        throttle_time=UNTHROTTLED, allow_replication_factor_change=getattr(
            request, "allow_replication_factor_change", True
        ),
        error_code=ErrorCode.none, error_message=None, responses=responses,
    )  # fmt: skip


def _partition(topic: str, asked: Any, context: Context) -> Fields:
    code, message = ErrorCode.none, None
    node = context.node.id
    try:
        find_partition(context.log, topic, asked.partition_index)
    except FAILURES as error:
        code, message = code_for(error, topic), str(error)
    else:
        if asked.replicas is None:
            code, message = ErrorCode.no_reassignment_in_progress, "the partition is not being moved"
        elif tuple(asked.replicas) != (node,):
            code = ErrorCode.invalid_replica_assignment
            message = f"the replicas {list(asked.replicas)} cannot be: there is only node {node}"
    return Fields(partition_index=asked.partition_index, error_code=code, error_message=message)
