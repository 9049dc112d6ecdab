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
    │   ├── ConditionalAppendsOnly
    │   ├── Rejected              a command that the state of an aggregate does not allow
    │   ├── InvalidGroup
    │   ├── OffsetMetadataTooLarge
    │   ├── UnsupportedAssignor
    │   ├── InvalidPattern
    │   ├── UnsupportedRequest
    │   ├── LoginRefused
    │   ├── NotAllowed
    │   ├── UnknownQueue
    │   └── UnsafeBind
    ├── ConflictError             a concurrent change came first; read again, then decide
    │   ├── TopicExists
    │   ├── WrongVersion          a stream is not at the version that an append expects
    │   ├── UnexpectedEvent       an event that an append excludes is there
    │   ├── UndecidedStream
    │   ├── EndOffsetMoved
    │   ├── DataDirectoryLocked
    │   ├── PortUnavailable
    │   ├── OutOfOrderSequence
    │   ├── DuplicateSequence
    │   ├── StaleProducerEpoch
    │   ├── ProducerFenced
    │   ├── InvalidProducerMapping
    │   ├── InvalidTransactionState
    │   ├── ConcurrentTransactions
    │   ├── InvalidTransactionTimeout
    │   ├── UnknownTransaction
    │   ├── UnstableOffset
    │   ├── UnknownMember
    │   ├── FencedMember
    │   ├── StaleGeneration
    │   ├── FencedMemberEpoch
    │   ├── StaleMemberEpoch
    │   ├── UnreleasedInstance
    │   ├── RebalanceUnderWay
    │   ├── InconsistentProtocol
    │   ├── MemberIdRequired
    │   ├── InvalidSessionTimeout
    │   ├── GroupNotEmpty
    │   ├── UnknownGroup
    │   ├── GroupFull
    │   ├── NotAcquired
    │   └── SubscribedToTopic
    ├── UnavailableError          try again later, unchanged
    │   ├── TopicFull             (a topic that rejects says so: trying again helps only once space is made)
    │   ├── DiskFull
    │   ├── PartitionOffline
    │   ├── ReadFailed
    │   ├── DamagedFile
    │   ├── TopicOffline
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
    ├── RequestRefused            a node refused an HTTP request; raised by the client, never sent over the Kafka port
    └── FlowError                 of flows and views; never sent over the Kafka port
        ├── FlowPackageMissing    headwater was installed without its extra for flows
        ├── InvalidDeclaration    what an app declares does not fit together
        │   ├── InvalidSchema     a schema that is not Spark DDL, or that its format cannot carry
        │   └── InvalidFormat     a format of values that is unknown, or an option it does not have
        ├── JobRefused            a checkpoint, a view or an output is not this job's
        ├── JobTakenOver          another driver has taken the job
        ├── TopicRecreated        a topic is not the one that a job has read
        ├── LogTruncated          what a job has read of a partition is no longer there
        ├── JvmEnded              Spark's JVM has ended; start again, unchanged
        ├── StateDamaged          a file of an operator's state is not what was written
        ├── StateMissing          a version of state that is not there, or no longer
        ├── StateMismatch         state of another operator, key, schema or number of shards
        ├── StateUnavailable      the file system of the state does not answer; try again later, unchanged
        ├── NumberOverflow        a sum outgrew its type
        ├── UnknownFlow           no flow of this name has run on the data directory
        ├── UnknownView           there is no such view in the store
        ├── InvalidQuery          a query is no SQL, or names a view, column, key or comparison that there is not
        ├── QueryStopped          a query would have taken more time, memory or rows than one may have
        ├── NotComparable         views were asked for at one position, and there is none that both could be at
        ├── UnstorableValue       a value that the store cannot hold
        ├── ViewBehind            a view did not reach the wanted position in time
        └── StoreUnavailable      the database of a view does not answer; try again later, unchanged

`wire` gives every other leaf a Kafka error code; a test walks this tree to see that none is missing.
"""

from headwater.errors.branches import (
    ConflictError,
    HeadwaterError,
    ProtocolError,
    UnavailableError,
    UsageError,
)
from headwater.errors.captures import (
    CaptureError,
    CaptureExists,
    InvalidCapture,
    SourceGap,
    SourceRefused,
    SourceUnavailable,
    UndecodableChange,
    UnknownCapture,
    UnknownHook,
)
from headwater.errors.flows import (
    FlowError,
    FlowPackageMissing,
    InvalidDeclaration,
    InvalidFormat,
    InvalidQuery,
    InvalidSchema,
    JobRefused,
    JobTakenOver,
    JvmEnded,
    LogTruncated,
    NotComparable,
    NumberOverflow,
    QueryStopped,
    RequestRefused,
    StateDamaged,
    StateMismatch,
    StateMissing,
    StateUnavailable,
    StoreUnavailable,
    TopicRecreated,
    UnknownFlow,
    UnknownView,
    UnstorableValue,
    ViewBehind,
)
from headwater.errors.log import (
    ArchiveUnavailable,
    BatchTooLarge,
    ConcurrentTransactions,
    CorruptBatch,
    DamagedFile,
    DamagedRange,
    DataDirectoryLocked,
    DiskFull,
    DuplicateSequence,
    FencedMember,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidGroup,
    InvalidPartitions,
    InvalidPattern,
    InvalidProducerMapping,
    InvalidRecord,
    InvalidSessionTimeout,
    InvalidSetting,
    InvalidTimestamp,
    InvalidTopicName,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    LogClosed,
    LoginRefused,
    MemberIdRequired,
    NotAcquired,
    NotAllowed,
    OffsetMetadataTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PartitionOffline,
    PortUnavailable,
    ProducerFenced,
    ReadFailed,
    RebalanceUnderWay,
    StaleGeneration,
    StaleMemberEpoch,
    StaleProducerEpoch,
    SubscribedToTopic,
    TopicExists,
    TopicFull,
    TopicOffline,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
    UnknownTransaction,
    UnreleasedInstance,
    UnsafeBind,
    UnstableOffset,
    UnsupportedAssignor,
    UnsupportedFormat,
    UnsupportedRequest,
)
from headwater.errors.schemas import (
    AlreadyDeleted,
    IncompatibleSchema,
    InvalidCompatibility,
    InvalidSchemaText,
    InvalidVersion,
    NoOwnCompatibility,
    NotYetDeleted,
    RegistryUnavailable,
    SchemaError,
    SchemaReferenced,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
)
from headwater.errors.streams import (
    ConditionalAppendsOnly,
    EndOffsetMoved,
    Rejected,
    UndecidedStream,
    UnexpectedEvent,
    WrongVersion,
)

__all__ = [
    "AlreadyDeleted",
    "ArchiveUnavailable",
    "BatchTooLarge",
    "CaptureError",
    "CaptureExists",
    "ConcurrentTransactions",
    "ConditionalAppendsOnly",
    "ConflictError",
    "CorruptBatch",
    "DamagedFile",
    "DamagedRange",
    "DataDirectoryLocked",
    "DiskFull",
    "DuplicateSequence",
    "EndOffsetMoved",
    "FencedMember",
    "FencedMemberEpoch",
    "FlowError",
    "FlowPackageMissing",
    "GroupFull",
    "GroupNotEmpty",
    "HeadwaterError",
    "IncompatibleSchema",
    "InconsistentProtocol",
    "InvalidCapture",
    "InvalidCompatibility",
    "InvalidDeclaration",
    "InvalidFormat",
    "InvalidGroup",
    "InvalidPartitions",
    "InvalidPattern",
    "InvalidProducerMapping",
    "InvalidQuery",
    "InvalidRecord",
    "InvalidSchema",
    "InvalidSchemaText",
    "InvalidSessionTimeout",
    "InvalidSetting",
    "InvalidTimestamp",
    "InvalidTopicName",
    "InvalidTransactionState",
    "InvalidTransactionTimeout",
    "InvalidVersion",
    "JobRefused",
    "JobTakenOver",
    "JvmEnded",
    "LogClosed",
    "LogTruncated",
    "LoginRefused",
    "MemberIdRequired",
    "NoOwnCompatibility",
    "NotAcquired",
    "NotAllowed",
    "NotComparable",
    "NotYetDeleted",
    "NumberOverflow",
    "OffsetMetadataTooLarge",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "PartitionOffline",
    "PortUnavailable",
    "ProducerFenced",
    "ProtocolError",
    "QueryStopped",
    "ReadFailed",
    "RebalanceUnderWay",
    "RegistryUnavailable",
    "Rejected",
    "RequestRefused",
    "SchemaError",
    "SchemaReferenced",
    "SourceGap",
    "SourceRefused",
    "SourceUnavailable",
    "StaleGeneration",
    "StaleMemberEpoch",
    "StaleProducerEpoch",
    "StateDamaged",
    "StateMismatch",
    "StateMissing",
    "StateUnavailable",
    "StoreUnavailable",
    "SubscribedToTopic",
    "TopicExists",
    "TopicFull",
    "TopicOffline",
    "TopicRecreated",
    "UnavailableError",
    "UndecidedStream",
    "UndecodableChange",
    "UnexpectedEvent",
    "UnknownCapture",
    "UnknownFlow",
    "UnknownGroup",
    "UnknownHook",
    "UnknownMember",
    "UnknownPartition",
    "UnknownQueue",
    "UnknownSchema",
    "UnknownSubject",
    "UnknownTopic",
    "UnknownTransaction",
    "UnknownVersion",
    "UnknownView",
    "UnreleasedInstance",
    "UnsafeBind",
    "UnstableOffset",
    "UnstorableValue",
    "UnsupportedAssignor",
    "UnsupportedFormat",
    "UnsupportedRequest",
    "UsageError",
    "ViewBehind",
    "WrongVersion",
]

# A stack trace shows each error under the name that it is imported by.
for _name in __all__:
    globals()[_name].__module__ = __name__
