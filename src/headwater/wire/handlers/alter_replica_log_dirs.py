"""AlterReplicaLogDirs: there is one directory, and every partition is in it."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.topics import FAILURES, code_for, find_partition


async def handle(request: Any, context: Context) -> Fields:
    here = str(context.log.path.absolute())
    results = tuple(
        Fields(
            topic_name=topic.name,
            partitions=tuple(
                Fields(partition_index=number, error_code=_code(topic.name, number, directory.path == here, context))
                for number in topic.partitions
            ),
        )
        for directory in request.dirs
        for topic in directory.topics
    )
    return Fields(throttle_time=UNTHROTTLED, results=results)


def _code(topic: str, number: int, known: bool, context: Context) -> ErrorCode:
    if not known:
        return ErrorCode.log_dir_not_found
    try:
        find_partition(context.log, topic, number)
    except FAILURES as error:
        return code_for(error, topic)
    return ErrorCode.none
