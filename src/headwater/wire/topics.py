"""Topics and partitions as requests name them: by name, or in newer versions by id."""

from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, InvalidTopicName, UnknownTopic
from headwater.log.topic import INTERNAL
from headwater.wire.protocol.error_codes import error_code

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.partition import Partition

RESERVED_TOPICS = INTERNAL
"""Kept by the server itself; clients may read them, not change them."""


def find_partition(log: "Log", topic: str | UUID, partition: int) -> "Partition":
    """UnknownTopic, UnknownPartition."""
    name = log.topic_by_id(topic).name if isinstance(topic, UUID) else topic
    return log.partition(name, partition)


def refuse_reserved(topic: str) -> None:
    """InvalidTopicName if clients may not change this topic."""
    if topic in RESERVED_TOPICS:
        raise InvalidTopicName(topic, "the server keeps it for itself")


FAILURES = (HeadwaterError, OSError)
"""Errors of a topic: our own, and those of a disk that cannot be read."""


def code_for(error: HeadwaterError | OSError, topic: str | UUID) -> ErrorCode:
    """The error's code. A topic unknown by its id has a code of its own, on which clients look up the id again."""
    if isinstance(error, OSError):
        return ErrorCode.kafka_storage_error
    if isinstance(topic, UUID) and isinstance(error, UnknownTopic):
        return ErrorCode.unknown_topic_id
    return error_code(error)


def epoch_error(partition: "Partition", current_leader_epoch: int) -> ErrorCode:
    """What is wrong with the leader epoch that a client knows; -1 is one that does not say."""
    if current_leader_epoch in (-1, partition.leader_epoch):
        return ErrorCode.none
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch


def name_of(log: "Log", topic: str | UUID | None) -> str | None:
    """The name of a topic, however it is named; None for an id that no topic has."""
    if not isinstance(topic, UUID):
        return topic
    try:
        return log.topic_by_id(topic).name
    except UnknownTopic:
        return None
