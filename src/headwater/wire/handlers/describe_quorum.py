"""DescribeQuorum: the node is its own controller, and the only voter.

Its metadata is in the files of topics, not in a log of its own, so offsets are 0.
"""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import Fields

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
EPOCH = 1
UNKNOWN = -1


async def handle(request: Any, context: Context) -> Fields:
    topics = tuple(
        Fields(
            topic_name=topic.topic_name,
            partitions=tuple(_partition(topic.topic_name, one.partition_index, context) for one in topic.partitions),
        )
        for topic in request.topics
    )
    node = context.node
    listener = Fields(name="CONTROLLER", host=node.host, port=node.port)
    return Fields(
        error_code=ErrorCode.none, error_message=None, topics=topics,
        nodes=(Fields(node_id=node.id, listeners=(listener,)),),
    )  # fmt: skip


def _partition(topic: str, number: int, context: Context) -> Fields:
    known = (topic, number) == (METADATA_TOPIC, METADATA_PARTITION)
    now_ms = context.log.clock.now_ms()
    voter = Fields(
        replica_id=context.node.id, replica_directory_id=None, log_end_offset=0, last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )  # fmt: skip
    return Fields(
        partition_index=number,
        error_code=ErrorCode.none if known else ErrorCode.unknown_topic_or_partition,
        error_message=None,
        leader_id=context.node.id if known else 0,
        leader_epoch=EPOCH if known else 0,
        high_watermark=0,
        current_voters=(voter,) if known else (),
        observers=(),
    )
