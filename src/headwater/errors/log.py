"""Errors of the log, of producers and consumers, and of groups."""

from collections.abc import Iterable

from headwater.errors.branches import ConflictError, UnavailableError, UsageError


class UnknownTopic(UsageError):
    def __init__(self, topic: str) -> None:
        super().__init__(f'there is no topic "{topic}"')
        self.topic = topic
        self.hint = f'Create it with "headwater topic create {topic}", or list what exists with "headwater topic list".'


class UnknownPartition(UsageError):
    def __init__(self, topic: str, partition: int, *, count: int) -> None:
        super().__init__(f'topic "{topic}" has no partition {partition}')
        self.topic, self.partition, self.count = topic, partition, count
        self.hint = f"Its partitions are 0 to {count - 1}."


class InvalidTopicName(UsageError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name[:80]!r} cannot name a topic: {why}")
        self.hint = "Use 1 to 249 letters, digits, dots, underscores and hyphens, other than . and .. alone."


class InvalidPartitions(UsageError):
    def __init__(self, topic: str, wanted: int, why: str) -> None:
        super().__init__(f'topic "{topic}" cannot have {wanted} partitions: {why}')


class InvalidSetting(UsageError):
    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"setting {name} cannot be {value!r}: {why}")
        self.name, self.value = name, value


class OffsetOutOfRange(UsageError):
    """The offset was deleted by retention, or lies beyond the end."""

    def __init__(self, topic: str, partition: int, offset: int, *, first: int, end: int) -> None:
        super().__init__(f'offset {offset} of "{topic}/{partition}" is outside {first}..{end}')
        self.offset, self.first, self.end = offset, first, end
        self.hint = "Seek to the first offset, or raise the topic's retention."


class InvalidRecord(UsageError):
    """A batch that is intact but says something it may not."""


class CorruptBatch(UsageError):
    """The checksum or the lengths inside a batch do not fit its bytes."""


class UnsupportedFormat(UsageError):
    """A batch in a format older than version 2, or a compression we do not know."""


class BatchTooLarge(UsageError):
    def __init__(
        self, topic: str, size: int, *, limit: int, setting: str = "max.message.bytes", said: str = ""
    ) -> None:
        said = said or "is larger"
        super().__init__(f'a batch of {size} bytes {said} than the {limit} bytes that topic "{topic}" takes')
        self.size, self.limit = size, limit
        self.hint = f"Send smaller batches, or raise {setting or 'max.message.bytes'}."


class InvalidTimestamp(UsageError):
    def __init__(self, topic: str, timestamp_ms: int, why: str) -> None:
        super().__init__(f'timestamp {timestamp_ms} is not accepted by topic "{topic}": {why}')
        self.timestamp_ms = timestamp_ms
        self.hint = "Timestamps are milliseconds since 1970; see message.timestamp.after.max.ms."


class InvalidGroup(UsageError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name[:80]!r} cannot name a group: {why}")


class OffsetMetadataTooLarge(UsageError):
    def __init__(self, size: int, *, limit: int) -> None:
        super().__init__(f"{size} bytes of metadata are more than the {limit} that may go with a committed offset")
        self.size, self.limit = size, limit


class UnsafeBind(UsageError):
    def __init__(self, address: str) -> None:
        super().__init__(
            f"refusing to listen on {address}, which other machines can reach, without login and encryption"
        )
        self.hint = (
            "Listen on 127.0.0.1, or say --login and --certificate, "
            "or --insecure-public-bind if the network itself is trusted."
        )


class LoginRefused(UsageError):
    """A Kafka port does not let this program in."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"{address} refuses the login: {why}")
        self.hint = "HEADWATER_KAFKA_USER and HEADWATER_KAFKA_PASSWORD_FILE say who logs in."


class NotAllowed(UsageError):
    """A principal may not do this."""

    def __init__(self, principal: str, operation: str, resource: str) -> None:
        super().__init__(f"{principal} may not {operation} {resource}")
        self.hint = '"headwater acl add" allows it.'


class TopicExists(ConflictError):
    def __init__(self, topic: str) -> None:
        super().__init__(f'topic "{topic}" exists already')
        self.topic = topic


class DataDirectoryLocked(ConflictError):
    def __init__(self, path: str, owner: str) -> None:
        super().__init__(f"data directory {path} is in use by {owner}")
        self.hint = "Stop that process, talk to it over its Kafka port, or choose another --data directory."


class PortUnavailable(ConflictError):
    def __init__(self, port: str, where: str, *, option: str, cause: str) -> None:
        super().__init__(f"the {port} port cannot be opened at {where}: {cause}")
        self.hint = f"Stop the program that has it, or choose another with {option} HOST:PORT; port 0 is any free one."


class OutOfOrderSequence(ConflictError):
    """A gap in an idempotent producer's numbering: a batch before this one is missing."""


class DuplicateSequence(ConflictError):
    """A batch that was stored so long ago that its offset is no longer remembered."""


class StaleProducerEpoch(ConflictError):
    """A newer instance of this producer has taken over."""


class ProducerFenced(ConflictError):
    """A newer producer has taken over the transactional id, or its transaction was aborted for taking too long."""

    def __init__(self, transactional_id: str, *, epoch: int, newest: int) -> None:
        super().__init__(f'transaction "{transactional_id}" is at epoch {newest}; epoch {epoch} is over')
        self.hint = "Register the transactional id again, and leave it to one producer at a time."


class InvalidProducerMapping(ConflictError):
    """The producer id is not that of the transactional id."""

    def __init__(self, transactional_id: str, producer_id: int) -> None:
        super().__init__(f'producer {producer_id} is not known under the transactional id "{transactional_id}"')
        self.hint = "Register the transactional id first."


class InvalidTransactionState(ConflictError):
    """What was asked of a transaction cannot follow what happened to it."""


class ConcurrentTransactions(ConflictError):
    """The transaction before is still being ended: ask again in a moment."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f'the transaction before of "{transactional_id}" is still being ended')


class InvalidTransactionTimeout(ConflictError):
    def __init__(self, timeout_ms: int, *, limit_ms: int) -> None:
        super().__init__(f"a transaction cannot take {timeout_ms} ms; choose between 1 and {limit_ms}")


class UnknownTransaction(ConflictError):
    def __init__(self, transactional_id: str) -> None:
        super().__init__(f'there is no transactional id "{transactional_id}"')


class UnstableOffset(ConflictError):
    """An open transaction is about to commit this offset: ask again when it has ended."""


class UnknownMember(ConflictError):
    """The group does not know this member: it must join again."""


class FencedMember(ConflictError):
    """A newer instance with the same static id has replaced this member."""


class StaleGeneration(ConflictError):
    """The group has moved on since this member last joined."""


class FencedMemberEpoch(ConflictError):
    """The member's epoch is not the one that the group knows: it must give up its partitions and join again."""


class StaleMemberEpoch(ConflictError):
    """The member has received a newer epoch since: ask again with that."""


class UnreleasedInstance(ConflictError):
    """Another member uses this instance id, and has not left."""


class UnsupportedAssignor(UsageError):
    def __init__(self, assignor: str, *, known: Iterable[str]) -> None:
        super().__init__(f'there is no assignor "{assignor}": known are {", ".join(sorted(known))}')


class UnsupportedRequest(UsageError):
    """The request is of an older version than what it asks for needs."""


class InvalidPattern(UsageError):
    """A pattern of topics is no regular expression."""


class RebalanceUnderWay(ConflictError):
    """The group is rebalancing: join again."""


class InconsistentProtocol(ConflictError):
    """The member speaks no assignment protocol that the whole group has in common."""


class MemberIdRequired(ConflictError):
    """The member must join again with the id it was just given."""

    def __init__(self, member_id: str) -> None:
        super().__init__("join again with the member id in this answer")
        self.member_id = member_id


class InvalidSessionTimeout(ConflictError):
    """The session timeout lies outside what the group coordinator allows."""


class GroupNotEmpty(ConflictError):
    def __init__(self, group: str) -> None:
        super().__init__(f'group "{group}" still has members')
        self.hint = "Stop its consumers first."


class UnknownGroup(ConflictError):
    def __init__(self, group: str) -> None:
        super().__init__(f'there is no group "{group}"')
        self.hint = 'List what exists with "headwater group list".'


class GroupFull(ConflictError):
    """The group has as many members as it may have."""


class SubscribedToTopic(ConflictError):
    """Offsets of a topic that the group is reading cannot be deleted."""


class UnknownQueue(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(f'there is no queue "{name}"')
        self.name = name
        self.hint = 'A queue is made by its first consumer; "headwater queue list" shows those that exist.'


class NotAcquired(ConflictError):
    """A consumer decides about messages that it does not hold, or holds no more."""

    def __init__(self, first: int, last: int) -> None:
        said = f"message {first} is" if first == last else f"messages {first} to {last} are"
        super().__init__(f"{said} not held by this consumer")
        self.first, self.last = first, last
        self.hint = "The lock has ended, or it was acknowledged before: it may be with another consumer by now."


class TopicFull(UnavailableError):
    """The partition has reached retention.bytes and its policy keeps old records."""

    def __init__(self, topic: str, partition: int, *, limit: int, blocking: bool) -> None:
        super().__init__(f'"{topic}/{partition}" is full: it holds the {limit} bytes that retention.bytes allows')
        self.blocking = blocking
        self.hint = "Raise retention.bytes, delete records, or set headwater.full.policy to drop-oldest."


class DiskFull(UnavailableError):
    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f'no space left on the disk for "{topic}/{partition}"; nothing of this batch was stored')
        self.hint = "Free some space; producers can then continue without a restart."


class PartitionOffline(UnavailableError):
    """The disk failed this partition. Nothing more is acknowledged until a restart has re-read it."""

    def __init__(self, topic: str, partition: int, cause: str) -> None:
        super().__init__(f'"{topic}/{partition}" is offline: {cause}')
        self.hint = "Check the disk, then restart: only what is really on disk counts."


class ReadFailed(UnavailableError):
    """The disk gave an error instead of bytes."""

    def __init__(self, topic: str, partition: int, cause: str) -> None:
        super().__init__(f'"{topic}/{partition}" could not be read: {cause}')
        self.hint = "Check the disk; what was written stays where it is."


class DamagedFile(UnavailableError):
    """A small file the log cannot do without is not what was written."""

    def __init__(self, path: str, why: str) -> None:
        self.summary = f"{path} cannot be read: {why}"
        super().__init__(self.summary)
        self.path, self.why = path, why
        self.hint = "Restore that file from a backup and start again; nothing was changed."


class TopicOffline(UnavailableError):
    """A file that the topic cannot do without is damaged or missing. Other topics are not concerned."""

    def __init__(self, topic: str, cause: str) -> None:
        super().__init__(f'topic "{topic}" is offline: {cause}')
        self.topic, self.cause = topic, cause
        self.hint = (
            "Look after that file, or restore it from a backup, and restart the node; nothing was changed. "
            f'To give its records up: "headwater topic delete {topic}".'
        )


class DamagedRange(UnavailableError):
    """These offsets lie in a quarantined batch, or one that cannot be unpacked; those after it are readable."""

    def __init__(self, topic: str, partition: int, *, first: int, end: int, why: str = "") -> None:
        said = f"cannot be read: {why}" if why else "are damaged and quarantined"
        super().__init__(f'offsets {first} to {end - 1} of "{topic}/{partition}" {said}')
        self.first, self.end, self.why = first, end, why
        self.hint = f"Continue reading at {end}" + ("." if why else '; "headwater log check" reports the damage.')


class ArchiveUnavailable(UnavailableError):
    """Records that are only in the archive cannot be read, and none can be moved there."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"the archive does not serve {where}: {cause}")
        self.hint = "Look after the archive; records that are still on the local disk are not concerned."


class LogClosed(UnavailableError):
    def __init__(self) -> None:
        super().__init__("the log has been closed")
