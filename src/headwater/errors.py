"""Every error headwater raises on purpose, in one tree.

The branches answer the caller's only question: may I try again?

    HeadwaterError
    ├── UsageError                the call is wrong; trying again cannot help
    │   ├── UnknownTopic
    │   ├── UnknownPartition
    │   ├── InvalidTopicName
    │   ├── InvalidPartitions
    │   ├── InvalidSetting
    │   ├── OffsetOutOfRange
    │   ├── InvalidRecord
    │   ├── CorruptBatch
    │   ├── UnsupportedFormat
    │   ├── BatchTooLarge
    │   ├── InvalidTimestamp
    │   ├── InvalidGroup
    │   ├── OffsetMetadataTooLarge
    │   └── UnsafeBind
    ├── ConflictError             someone else was first; look again, then decide
    │   ├── TopicExists
    │   ├── DataDirectoryLocked
    │   ├── OutOfOrderSequence
    │   ├── DuplicateSequence
    │   ├── StaleProducerEpoch
    │   ├── UnknownMember
    │   ├── FencedMember
    │   ├── StaleGeneration
    │   ├── RebalanceUnderWay
    │   ├── InconsistentProtocol
    │   ├── MemberIdRequired
    │   ├── InvalidSessionTimeout
    │   ├── GroupNotEmpty
    │   ├── UnknownGroup
    │   ├── GroupFull
    │   └── SubscribedToTopic
    ├── UnavailableError          try again later, unchanged
    │   ├── TopicFull             (a topic that rejects says so: trying again helps only once space is made)
    │   ├── DiskFull
    │   ├── PartitionOffline
    │   ├── ReadFailed
    │   ├── DamagedFile
    │   ├── DamagedRange
    │   ├── ArchiveUnavailable
    │   └── LogClosed
    ├── ProtocolError             the bytes of a request are not what they claim to be
    ├── SchemaError               of the schema registry; never sent over the Kafka port
    │   ├── UnknownSubject
    │   ├── UnknownVersion
    │   ├── UnknownSchema
    │   ├── AlreadyDeleted        a subject or version that is deleted for readers, but still kept
    │   ├── NotYetDeleted         only what is deleted for readers can be deleted for good
    │   ├── NoOwnCompatibility    the subject has no level of its own; the registry's counts
    │   ├── InvalidSchemaText     what was sent is not a schema of its kind
    │   ├── InvalidVersion
    │   ├── InvalidCompatibility
    │   ├── SchemaReferenced      other schemas are built on it
    │   ├── IncompatibleSchema    the compatibility rule of its subject forbids it
    │   └── RegistryUnavailable   it does not answer; try again later, unchanged
    ├── CaptureError              of captures; never sent over the Kafka port
    │   ├── InvalidCapture        what was asked of a capture does not fit together
    │   ├── UnknownCapture
    │   ├── UnknownHook
    │   ├── CaptureExists
    │   ├── SourceRefused         the database lacks something; the hint is the statement that gives it
    │   ├── SourceUnavailable     the database does not answer; try again later, unchanged
    │   ├── SourceGap             changes may have been lost: a new snapshot is needed, and must be asked for
    │   └── UndecodableChange     the database sent bytes that are not what they claim to be
    ├── RequestRefused            a node said no over HTTP; told by the client, never sent over the Kafka port
    └── FlowError                 of flows and views; never sent over the Kafka port
        ├── InvalidDeclaration    what an app declares does not fit together
        │   ├── InvalidSchema     a schema that is not Spark DDL, or that its format cannot carry
        │   └── InvalidFormat     a format of values that is unknown, or an option it does not have
        ├── JobRefused            a checkpoint, a view or an output is not this job's
        ├── JvmEnded              Spark's JVM is gone; start again, unchanged
        ├── StateDamaged          a file of an operator's state is not what was written
        ├── StateMissing          a version of state that is not there, or no longer
        ├── StateMismatch         state of another operator, key, schema or number of shards
        ├── StateUnavailable      the file system of the state does not answer; try again later, unchanged
        ├── NumberOverflow        a sum outgrew its type
        ├── UnknownFlow           no flow of this name has run on the data directory
        ├── UnknownView           there is no such view in the store
        ├── InvalidQuery          a look-up names a column, key or comparison that a view does not have
        ├── UnstorableValue       a value that the store cannot hold
        ├── ViewBehind            a view did not reach the wanted position in time
        └── StoreUnavailable      the database of a view does not answer; try again later, unchanged

`wire` gives every other leaf a Kafka error code; a test walks this tree to see that none is missing.
"""


class HeadwaterError(Exception):
    """Base of every error we raise on purpose; `hint` says the way out."""

    hint: str = ""

    def __str__(self) -> str:
        return f"{self.args[0]}. {self.hint}" if self.hint else str(self.args[0])


class UsageError(HeadwaterError):
    """The call is wrong; trying again cannot help."""


class ConflictError(HeadwaterError):
    """Someone else was first; look again, then decide."""


class UnavailableError(HeadwaterError):
    """Try again later, unchanged."""


class ProtocolError(HeadwaterError):
    """The bytes of a request are not what they claim to be; the connection is closed."""


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
    def __init__(self, topic: str, size: int, *, limit: int) -> None:
        super().__init__(f'a batch of {size} bytes is larger than the {limit} bytes that topic "{topic}" takes')
        self.size, self.limit = size, limit
        self.hint = "Send smaller batches, or raise max.message.bytes."


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
        self.hint = "Listen on 127.0.0.1, or say --insecure-public-bind if the network itself is trusted."


class TopicExists(ConflictError):
    def __init__(self, topic: str) -> None:
        super().__init__(f'topic "{topic}" exists already')
        self.topic = topic


class DataDirectoryLocked(ConflictError):
    def __init__(self, path: str, owner: str) -> None:
        super().__init__(f"data directory {path} is in use by {owner}")
        self.hint = "Stop that process, talk to it over its Kafka port, or choose another --data directory."


class OutOfOrderSequence(ConflictError):
    """A gap in an idempotent producer's numbering: a batch before this one is missing."""


class DuplicateSequence(ConflictError):
    """A batch that was stored so long ago that its offset is no longer remembered."""


class StaleProducerEpoch(ConflictError):
    """A newer instance of this producer has taken over."""


class UnknownMember(ConflictError):
    """The group does not know this member: it must join again."""


class FencedMember(ConflictError):
    """A newer instance with the same static id has taken this member's place."""


class StaleGeneration(ConflictError):
    """The group has moved on since this member last joined."""


class RebalanceUnderWay(ConflictError):
    """The group is sharing out its partitions anew: join again."""


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


class TopicFull(UnavailableError):
    """The partition has reached retention.bytes and its policy keeps old records."""

    def __init__(self, topic: str, partition: int, *, limit: int, blocking: bool) -> None:
        super().__init__(f'"{topic}/{partition}" is full: it holds the {limit} bytes that retention.bytes allows')
        self.blocking = blocking
        self.hint = "Raise retention.bytes, delete records, or set headwater.full.policy to drop-oldest."


class DiskFull(UnavailableError):
    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f'no space left on the disk for "{topic}/{partition}"; nothing of this batch was stored')
        self.hint = "Free some space; producers may then go on without a restart."


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
        super().__init__(f"{path} cannot be read: {why}")
        self.path = path
        self.hint = "Restore that file from a backup, or mend it by hand; nothing was changed."


class DamagedRange(UnavailableError):
    """These offsets lie in a quarantined batch; the ones behind it are readable."""

    def __init__(self, topic: str, partition: int, *, first: int, end: int) -> None:
        super().__init__(f'offsets {first} to {end - 1} of "{topic}/{partition}" are damaged and quarantined')
        self.first, self.end = first, end
        self.hint = f'Go on reading at {end}; "headwater log check" reports the damage.'


class ArchiveUnavailable(UnavailableError):
    """Records that are only in the archive cannot be read, and none can be moved there."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"the archive does not serve {where}: {cause}")
        self.hint = "Look after the archive; records that are still on the local disk are not concerned."


class LogClosed(UnavailableError):
    def __init__(self) -> None:
        super().__init__("the log has been closed")


class SchemaError(HeadwaterError):
    """Something about schemas in the registry; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownSubject(SchemaError):
    def __init__(self, subject: str) -> None:
        super().__init__(f'the registry has no subject "{subject}"')
        self.subject = subject
        self.hint = 'List what it has with "headwater schema list".'


class UnknownVersion(SchemaError):
    def __init__(self, subject: str, version: int) -> None:
        super().__init__(f'subject "{subject}" has no version {version}')
        self.subject, self.version = subject, version
        self.hint = f'See what it has with "headwater schema show {subject}".'


class UnknownSchema(SchemaError):
    """The registry has no such schema: not this id, or not under this subject."""


class AlreadyDeleted(SchemaError):
    """A subject or version that is deleted for readers already."""

    def __init__(self, subject: str, version: int | None = None) -> None:
        what = f'subject "{subject}"' if version is None else f'version {version} of subject "{subject}"'
        super().__init__(f"{what} was deleted before")
        self.subject, self.version = subject, version
        self.hint = "Say permanent=true to delete it for good."


class NotYetDeleted(SchemaError):
    """Only what readers no longer see can be deleted for good."""

    def __init__(self, subject: str, version: int | None = None) -> None:
        what = f'subject "{subject}"' if version is None else f'version {version} of subject "{subject}"'
        super().__init__(f"{what} cannot be deleted for good: it has not been deleted")
        self.subject, self.version = subject, version
        self.hint = "Delete it first without permanent=true; then nobody can have begun to use it meanwhile."


class NoOwnCompatibility(SchemaError):
    def __init__(self, subject: str) -> None:
        super().__init__(f'subject "{subject}" has no compatibility level of its own')
        self.hint = "The level of the registry counts for it: ask for /config, or say defaultToGlobal=true."


class InvalidSchemaText(SchemaError):
    """What was sent is not a schema of the kind it is said to be; the message says where."""


class InvalidVersion(SchemaError):
    def __init__(self, said: str) -> None:
        super().__init__(f"{said[:40]!r} is not a version", "Use a number from 1 on, or latest.")


class InvalidCompatibility(SchemaError):
    """A compatibility level, or a mode, that there is not."""


class SchemaReferenced(SchemaError):
    def __init__(self, subject: str, version: int, by: list[int]) -> None:
        super().__init__(f'version {version} of subject "{subject}" is referenced by schema {", ".join(map(str, by))}')
        self.hint = "Delete those first."


class IncompatibleSchema(SchemaError):
    """`reasons` say each change that the rule forbids, and where."""

    def __init__(self, subject: str, *, level: str, version: int, reasons: list[str]) -> None:
        said = "; ".join(reasons[:3]) + ("; and more" if len(reasons) > 3 else "")
        super().__init__(f'the schema is not {level} compatible with version {version} of subject "{subject}": {said}')
        self.reasons = reasons
        self.hint = "Change it, or the subject's compatibility level."


class RegistryUnavailable(SchemaError):
    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"the schema registry at {where} does not answer: {cause}")
        self.hint = "Look after it; the same call may be made again, unchanged."


class CaptureError(HeadwaterError):
    """Something about captures; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidCapture(CaptureError):
    """What was asked of a capture does not fit together."""


class UnknownCapture(CaptureError):
    def __init__(self, name: str, known: list[str]) -> None:
        listed = f"There are: {', '.join(known)}." if known else 'Make one with "headwater capture add".'
        super().__init__(f'there is no capture "{name}"', listed)
        self.name = name


class UnknownHook(CaptureError):
    def __init__(self, name: str, known: list[str]) -> None:
        listed = f"There are: {', '.join(known)}." if known else 'Make one with "headwater hook add".'
        super().__init__(f'there is no hook "{name[:100]}"', listed)
        self.name = name


class CaptureExists(CaptureError):
    def __init__(self, name: str) -> None:
        super().__init__(f'capture "{name}" exists already, with other tables or another database')
        self.name = name
        self.hint = f'Remove it with "headwater capture remove {name}", or choose another name.'


class SourceRefused(CaptureError):
    """The database lacks something a capture needs; the hint is what to do, or the exact statement."""


class SourceUnavailable(CaptureError):
    """The database does not answer, or ended the connection; the capture goes on where it was once it does."""


class SourceGap(CaptureError):
    """Changes may have been lost between what the log has and what the database still tells."""


class UndecodableChange(CaptureError):
    """Bytes of a change stream that are not what they claim to be."""


class RequestRefused(HeadwaterError):
    """What a node answered to a request of `hw.connect`: `status`, the `name` of the error, and its sentence."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.status, self.name = status, name


class FlowError(HeadwaterError):
    """Something about flows and views; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidDeclaration(FlowError):
    """What an app declares does not fit together; the message names the element and its place."""


class InvalidSchema(InvalidDeclaration):
    """A schema that is not Spark DDL, or one that the format of its topic cannot carry."""


class InvalidFormat(InvalidDeclaration):
    """A format of values that there is not, or an option that it does not have or cannot take."""


class JobRefused(FlowError):
    """A checkpoint, a view or an output does not belong to this job, or no longer fits it."""


class JvmEnded(FlowError):
    def __init__(self) -> None:
        super().__init__("the JVM in which Spark runs has ended", "Start again: every job goes on where it was.")


class UnknownFlow(FlowError):
    def __init__(self, flow: str, known: list[str]) -> None:
        listed = f"There are: {', '.join(known[:50])}." if known else 'None has run yet: "headwater run APP.py".'
        super().__init__(f'there is no flow "{flow[:200]}"', listed)
        self.flow, self.known = flow, known


class UnknownView(FlowError):
    def __init__(self, view: str, where: str, known: list[str]) -> None:
        listed = f"Known here: {', '.join(known)}." if known else "There are no views yet; run the app first."
        super().__init__(f'there is no view "{view}" in {where}', listed)
        self.view, self.known = view, known


class InvalidQuery(FlowError):
    """A look-up names a column, a key or a comparison that the view does not have."""


class UnstorableValue(FlowError):
    """The store of a view or table cannot hold this value or type."""


class ViewBehind(FlowError):
    def __init__(self, view: str, *, wanted: str, has: str, waited: float) -> None:
        super().__init__(f'view "{view}" has not reached {wanted} within {waited:g} s: it has {has}')
        self.view, self.wanted, self.has = view, wanted, has
        self.hint = 'See whether its job runs and how far it lags with "headwater top", or wait longer.'


class StoreUnavailable(FlowError):
    """The database of a view does not answer. What was begun is either in as a whole or not at all: call again."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where} does not answer: {cause}")
        self.hint = "Look after that database; the same call may be made again, unchanged."


class StateDamaged(FlowError):
    """A file of an operator's state is not what was written."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"state file {path} is damaged: {why}")
        self.path = path
        self.hint = "Restore that file from a backup, or rebuild the view from the log; nothing was changed."


class StateMissing(FlowError):
    def __init__(self, folder: str, version: int, present: list[int]) -> None:
        super().__init__(f"state {folder} has no version {version}")
        self.version, self.present = version, present
        there = f"It has {', '.join(map(str, present))}" if present else "It has none"
        self.hint = f"{there}: the checkpoint and the state are not of the same age; rebuild the view from the log."


class StateMismatch(FlowError):
    """State that is there, but of another operator, key, schema or number of shards than was asked for."""

    def __init__(self, folder: str, what: str, *, kept: object, wanted: object, hint: str = "") -> None:
        super().__init__(f"state {folder} was kept with {what} {kept}, and now {wanted} is wanted")
        self.hint = hint or "Rebuild the view from the log, or go back to what it was."


class StateUnavailable(FlowError):
    """The file system of the state does not answer; nothing is committed that is not durable."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"state file {path} cannot be reached: {cause}")
        self.path = path
        self.hint = "Look after that file system; the batch may be run again, unchanged."


class NumberOverflow(FlowError):
    def __init__(self, aggregate: str, kind: str) -> None:
        super().__init__(f"{aggregate} has outgrown {kind}")
        self.hint = "Cast the column to a wider type, such as decimal(38, 0) or double, before it is summed."
