"""ElectLeaders: the only node leads every partition already."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.topics import FAILURES, code_for, find_partition

PREFERRED, UNCLEAN = 0, 1


async def handle(request: Any, context: Context) -> Fields:
    known = getattr(request, "election_type", PREFERRED) in (PREFERRED, UNCLEAN)
    # Asked for all partitions, Kafka answers with those that have got another leader.
    asked = request.topic_partitions or ()
    results = tuple(
        Fields(topic=one.topic, partition_result=tuple(_result(one.topic, n, context) for n in one.partitions))
        for one in asked
    )
    return Fields(
        throttle_time=UNTHROTTLED,
        error_code=ErrorCode.none if known else ErrorCode.invalid_request,
        replica_election_results=results if known else (),
    )


def _result(topic: str, number: int, context: Context) -> Fields:
    code, message = ErrorCode.election_not_needed, "the node leads this partition already"
    try:
        find_partition(context.log, topic, number)
    except FAILURES as error:
        code, message = code_for(error, topic), str(error)
    return Fields(partition_id=number, error_code=code, error_message=message)
