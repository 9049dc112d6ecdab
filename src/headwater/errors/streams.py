"""Errors of conditional appends and of aggregates."""

from headwater.errors.branches import ConflictError, UsageError


class ConditionalAppendsOnly(UsageError):
    """The topic takes appends with a condition only; a plain producer could break what was checked."""

    def __init__(self, topic: str) -> None:
        super().__init__(f'topic "{topic}" takes only events that are appended with a condition')
        self.topic = topic
        self.hint = "Append with headwater.events or POST /events, or set its headwater.append.policy to any."


class WrongVersion(ConflictError):
    """A stream is not at the version that the append expects. Nothing was stored."""

    def __init__(self, stream: str, *, expected: object, actual: int) -> None:
        super().__init__(f'stream "{stream[:200]}" is at version {actual}, and {expected} was expected')
        self.stream, self.expected, self.actual = stream, expected, actual
        self.hint = "Read the stream again, and decide on what it says now."


class UnexpectedEvent(ConflictError):
    """An event that the condition of an append excludes is stored already. Nothing was stored."""

    def __init__(self, topic: str, *, offset: int, after: int) -> None:
        super().__init__(f'an event that the append excludes is at offset {offset} of "{topic}", after {after}')
        self.offset, self.after = offset, after
        self.hint = "Read the events that the query matches again, and decide on what they say now."


class UndecidedStream(ConflictError):
    """Events of the stream are in a transaction that has not ended, so that its version is not known."""

    def __init__(self, stream: str) -> None:
        super().__init__(f'stream "{stream[:200]}" has events in a transaction that has not ended')
        self.stream = stream
        self.hint = "Try again when it has ended; the node aborts it when its time is up."


class EndOffsetMoved(ConflictError):
    """The partition does not end where the append has to begin. Nothing was stored."""

    def __init__(self, topic: str, partition: int, *, expected: int, actual: int) -> None:
        super().__init__(f'"{topic}/{partition}" ends at offset {actual}, and the append was to begin at {expected}')
        self.expected, self.actual = expected, actual


class Rejected(UsageError):
    """A command that the state of an aggregate does not allow. Raised by the command itself; nothing was stored."""
