"""Errors of flows and views, and of requests to a node."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headwater.errors.branches import HeadwaterError


class RequestRefused(HeadwaterError):
    """A node refused a request of `hw.connect`: `status`, the `name` of the error, and its sentence."""

    def __init__(self, status: int, name: str, message: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.name = status, name
        self.facts = dict(facts or {})
        """What else the answer says, for programs."""


class FlowError(HeadwaterError):
    """Something about flows and views; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


FLOW_PACKAGES = frozenset({"datasketches", "pandas", "py4j", "pyspark", "sqlglot"})
"""Packages that come with the extra `headwater[flow]`."""


class FlowPackageMissing(FlowError):
    """Flows are wanted, and headwater was installed without the extra that brings Spark."""

    @classmethod
    def of(cls, error: BaseException) -> "FlowPackageMissing | None":
        """The sentence for a failed import that the extra would have made succeed; None for any other error."""
        package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if package not in FLOW_PACKAGES:
            return None
        return cls(
            f"flows need the package {package}, which is not installed",
            'Install it with: pip install "headwater[flow]"',
        )


class InvalidDeclaration(FlowError):
    """The declarations of an app do not fit together; the message names the element and its source line."""

    also: tuple["InvalidDeclaration", ...] = ()
    """Other mistakes that were found together with it."""


class InvalidSchema(InvalidDeclaration):
    """A schema that is not Spark DDL, or one that the format of its topic cannot carry."""


class InvalidFormat(InvalidDeclaration):
    """A format of values that there is not, or an option that it does not have or cannot take."""


class JobRefused(FlowError):
    """A checkpoint, a view or an output does not belong to this job, or no longer fits it."""


class JobTakenOver(FlowError):
    """Another driver has taken the job: whatever this one still writes is refused."""

    def __init__(self, job: str, owner: str, at_ms: int) -> None:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        super().__init__(f"job {job} was taken over by {owner} at {at}; this process stops")
        self.job, self.owner, self.at_ms = job, owner, at_ms


ANOTHER_LOG = "Remove the job's folder (flows/APP/JOB in the data directory): it starts over with what the topic holds."


class TopicRecreated(FlowError):
    def __init__(self, topic: str) -> None:
        super().__init__(
            f'topic "{topic}" was deleted and made again: its offsets are not those that were read', ANOTHER_LOG
        )
        self.topic = topic


class LogTruncated(FlowError):
    """A leader that lacked records was elected."""

    def __init__(self, topic: str, partition: int, *, read: int, end: int) -> None:
        super().__init__(
            f'"{topic}/{partition}" was cut off at offset {end} by a change of its leader, and was read up to {read}: '
            f"{read - end:,} offsets that were processed are no more, or hold other records now",
            ANOTHER_LOG,
        )
        self.read, self.end = read, end


class JvmEnded(FlowError):
    def __init__(self) -> None:
        super().__init__("the JVM in which Spark runs has ended", "Start again: every job resumes where it was.")


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
    """A query is no SQL, or names a view, a column, a key or a comparison that there is not."""


class QueryStopped(FlowError):
    """A query would have taken more time, memory or rows than one may have; the same query is stopped again."""


class NotComparable(FlowError):
    """Views were asked for at one position, and there is none that both could be at."""


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
        self.path, self.cause = path, cause
        self.hint = "Look after that file system; the batch may be run again, unchanged."


class NumberOverflow(FlowError):
    def __init__(self, aggregate: str, kind: str) -> None:
        super().__init__(f"{aggregate} has outgrown {kind}")
        self.hint = "Cast the column to a wider type, such as decimal(38, 0) or double, before it is summed."
