"""What a broker's error code means for a flow: one of our errors, with a sentence. Pure."""

from headwater.errors import (
    BatchTooLarge,
    ConflictError,
    CorruptBatch,
    DuplicateSequence,
    HeadwaterError,
    InvalidGroup,
    InvalidPartitions,
    InvalidRecord,
    InvalidSetting,
    InvalidTimestamp,
    InvalidTopicName,
    OutOfOrderSequence,
    StaleProducerEpoch,
    TopicExists,
    UnavailableError,
    UnknownTopic,
    UsageError,
)

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
DUPLICATE_SEQUENCE = 46

LOOK_AGAIN = frozenset({3, 5, 6, 14, 15, 16, 74, 75})
"""Leadership or coordination is moving, or a topic is so new that not every broker knows it: look at the metadata,
which says if there is no such topic, then repeat the request."""

PASSING = frozenset({7, 13, 19, 20, 56, 72, 78})
"""What a cluster gets over by itself while brokers come and go. One broker alone has no other to hand over to."""

_UNAVAILABLE = {
    5: "it has no leader at the moment",
    6: "this broker does not lead it",
    7: "the request took too long",
    13: "the connection between brokers failed",
    14: "the group's offsets are still being loaded",
    15: "the group has no coordinator at the moment",
    16: "this broker does not coordinate the group",
    19: "too few replicas are in sync",
    20: "too few replicas are in sync; what was written may yet appear",
    56: "the broker cannot use its disk",
    72: "its leader does not listen where we can reach it",
    78: "a new leader does not know yet how far it goes",
}
_CONFLICTS = {
    22: "its group has moved on",
    25: "the group does not know this member",
    27: "the group is sharing out its partitions",
    82: "another member has taken its place",
}
_REFUSED = {
    17: "its name is not allowed",
    29: "access to the topic is denied",
    30: "access to the group is denied",
    31: "access to the cluster is denied",
    35: "the broker does not speak this version of the protocol",
    42: "the broker does not understand the request",
    44: "the topic is full and rejects more (headwater.full.policy), or a rule of the broker forbids it",
    43: "the topic's format is too old",
    76: "its compression is not supported",
}


def error_for(code: int, *, what: str, topic: str = "", message: str | None = None) -> HeadwaterError:
    """The error to raise; `what` names what was asked for, as in 'Fetch of "orders/0"'.

    >>> str(error_for(29, what='Fetch of "orders/0"'))
    'Fetch of "orders/0" was refused: access to the topic is denied'
    """
    said = message or ""
    match code:
        case 2 | 87:
            if code == 2:
                return CorruptBatch(f"{what} was refused: {said or 'a batch is damaged'}")
            why = said or "a record lacks what the topic wants of each, such as a key where it is compacted"
            return InvalidRecord(f"{what} was refused: {why}")
        case 3:
            return UnknownTopic(topic)
        case 10:
            return _sentence(
                BatchTooLarge, f"{what} was refused: a batch is larger than the topic takes",
                _alter(topic, "max.message.bytes=BYTES"),
            )  # fmt: skip
        case 17:
            return InvalidTopicName(topic, said or "the broker refuses it")
        case 24:
            return InvalidGroup(topic, said or "the broker refuses it")
        case 32:
            return _sentence(
                InvalidTimestamp, f"{what} was refused: a timestamp is too far from the broker's clock",
                _alter(topic, "message.timestamp.after.max.ms=MS (or before.max.ms)"),
            )  # fmt: skip
        case 36:
            return TopicExists(topic)
        case 37:
            return _sentence(InvalidPartitions, f"{what} was refused: {said or 'the number of partitions is invalid'}")
        case 40:
            return _sentence(InvalidSetting, f"{what} was refused: {said or 'a setting is invalid'}")
        case 45 | 59:
            return OutOfOrderSequence(f"{what} was refused: a batch before this one is missing")
        case 46:
            return DuplicateSequence(f"{what} was refused: this batch was stored long ago")
        case 47 | 90:
            return StaleProducerEpoch(f"{what} was refused: a newer producer has taken over")
    return _by_branch(code, what, said)


def _by_branch(code: int, what: str, said: str) -> HeadwaterError:
    if code in _UNAVAILABLE:
        return UnavailableError(f"{what} is not possible now: {said or _UNAVAILABLE[code]}")
    if code in _CONFLICTS:
        return ConflictError(f"{what} was refused: {said or _CONFLICTS[code]}")
    why = said or _REFUSED.get(code, f"the broker answered with error {code}")
    return UsageError(f"{what} was refused: {why}")


def _sentence(kind: type[HeadwaterError], text: str, hint: str = "") -> HeadwaterError:
    """An error whose facts only the broker knows: the sentence is all there is."""
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    error.hint = hint
    return error


def _alter(topic: str, setting: str) -> str:
    return f"Let the topic take it: headwater topic alter {topic} --config {setting}." if topic else ""
