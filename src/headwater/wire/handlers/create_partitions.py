"""CreatePartitions: let topics grow."""

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, InvalidPartitions
from headwater.log.log import PARTITIONS_MAX, Log
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.values import NO_THROTTLE
from headwater.wire.topics import refuse_reserved


async def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    results = [
        await context.run(_grow, wanted, context.log, context.node.id, validate_only=request.validate_only)
        for wanted in request.topics
    ]
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _grow(wanted: CreatePartitionsTopic, log: Log, node_id: int, *, validate_only: bool) -> CreatePartitionsTopicResult:
    try:
        message = _check(wanted, log, node_id)
        if message is not None:
            return _result(wanted, ErrorCode.invalid_replica_assignment, message)
        if not validate_only:
            log.add_partitions(wanted.name, wanted.count)
    except HeadwaterError as error:
        return _result(wanted, error_code(error), str(error))
    return _result(wanted, ErrorCode.none, None)


def _check(wanted: CreatePartitionsTopic, log: Log, node_id: int) -> str | None:
    """What is wrong with the placement, if anything is; raises what is wrong with the rest."""
    topic = log.topic(wanted.name)
    refuse_reserved(wanted.name)
    if not topic.partitions < wanted.count <= PARTITIONS_MAX:
        raise InvalidPartitions(
            wanted.name, wanted.count, f"it has {topic.partitions}, and can only grow, to {PARTITIONS_MAX} at most"
        )
    if wanted.assignments is None:
        return None
    if len(wanted.assignments) != wanted.count - topic.partitions:
        return f"{wanted.count - topic.partitions} new partitions need as many assignments"
    if any(tuple(assignment.broker_ids) != (node_id,) for assignment in wanted.assignments):
        return f"every partition must be on node {node_id}: there is no other"
    return None


def _result(wanted: CreatePartitionsTopic, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=wanted.name, error_code=code, error_message=message)
