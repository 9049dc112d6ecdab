"""TxnOffsetCommit: offsets of a group that are committed if, and when, a producer's transaction is."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, InvalidTransactionState
from headwater.log.groups.member import Claim
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.transactions.transaction import NEWER_CLIENTS, ProducerIdentity
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.group_writer import Refused
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.transaction_codes import transaction_code

ABORTABLE_KNOWN_FROM = 4
NEWER_CLIENTS_FROM = 5


async def handle(request: Any, context: Context) -> Fields:
    offsets = {
        TopicPartition(topic.name, one.partition_index): CommittedOffset(
            one.committed_offset, getattr(one, "committed_leader_epoch", -1), one.committed_metadata or ""
        )
        for topic in request.topics
        for one in topic.partitions
    }
    refused: Refused = {}
    try:
        refused = await _commit(request, context, offsets)
    except HeadwaterError as error:
        refused = dict.fromkeys(offsets, error)
    topics = tuple(
        Fields(
            name=topic.name,
            partitions=tuple(
                Fields(
                    partition_index=one.partition_index,
                    error_code=_code(refused.get(TopicPartition(topic.name, one.partition_index)), context.api_version),
                )
                for one in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return Fields(throttle_time=UNTHROTTLED, topics=topics)


def _code(error: HeadwaterError | None, version: int) -> ErrorCode:
    if isinstance(error, InvalidTransactionState) and version >= ABORTABLE_KNOWN_FROM:
        return ErrorCode.transaction_abortable
    return transaction_code(error, fenced_known=False)


async def _commit(request: Any, context: Context, offsets: dict[TopicPartition, CommittedOffset]) -> Refused:
    claim = Claim(
        getattr(request, "member_id", ""), getattr(request, "generation_id", -1),
        getattr(request, "group_instance_id", None),
    )  # fmt: skip
    context.groups.check_transaction(request.group_id, claim)
    refused: Refused = await context.run(context.log.group_offsets.secure, offsets)
    accepted = {where: offset for where, offset in offsets.items() if where not in refused}
    await context.run(
        context.log.transactions.commit_offsets, request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch), request.group_id, accepted,
        version=NEWER_CLIENTS if context.api_version >= NEWER_CLIENTS_FROM else 0,
    )  # fmt: skip
    return refused
