"""Opening a queue in the process that owns the log: what can be said of it, as settings."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, Unpack

from headwater.durations import duration
from headwater.errors import InvalidSetting, UnknownQueue
from headwater.log.queues.consumer import QueueConsumer
from headwater.log.queues.queues import Queue
from headwater.log.queues.settings import EARLIEST
from headwater.settings import milliseconds

if TYPE_CHECKING:
    from headwater.log.log import Log

Duration = timedelta | str

DEFAULTS = {"share.auto.offset.reset": EARLIEST, "headwater.queue.headers": "true"}
"""Of a queue that is opened in process. A share group begins with what is written after its first member has come."""

DEAD = ".dead"


class QueueArguments(TypedDict, total=False):
    lock: Duration
    """How long a message is a consumer's alone."""
    attempts: int
    """Deliveries of a message before it is put aside."""
    dead_letters: str
    """The topic for those; by default the queue's name and ".dead", "" is none."""
    order: str
    """ "key": of messages with one key, only the oldest unfinished one is delivered."""
    backoff: Duration
    """The delay after a failed attempt; it doubles with each."""
    ttl: Duration
    """How old a message may be at its first delivery."""
    start: str
    """Of a new queue: earliest, latest, or by_duration:PT1H."""
    settings: Mapping[str, str]
    """Others, by their name in the table of settings."""


def open_queue(
    log: "Log", name: str, topics: Sequence[str] = (), **said: Unpack[QueueArguments]
) -> QueueConsumer:  # fmt: skip
    """A consumer of a queue, which is made if there is none; what is not said stays as it is.

    Without `topics` it works on those that it has worked on, or on the one of its own name.
    """
    try:
        queue: Queue | None = log.queues.get(name)
    except UnknownQueue:
        queue = None
    changes = _configs(said)
    chosen = list(topics) or (queue.topics() if queue else []) or [name]
    for topic in chosen:
        log.topic(topic)  # UnknownTopic before anything is made
    if queue is None:
        queue = log.queues.ensure(name, {**DEFAULTS, "errors.deadletterqueue.topic.name": name + DEAD, **changes})
    elif changes:
        queue.configure({**queue.configs, **changes})
    return QueueConsumer(log, queue, chosen)


def _configs(said: QueueArguments) -> dict[str, str]:
    configs = {
        "share.record.lock.duration.ms": _milliseconds("lock", said.get("lock")),
        "share.delivery.count.limit": str(said["attempts"]) if "attempts" in said else None,
        "errors.deadletterqueue.topic.name": said.get("dead_letters"),
        "headwater.queue.order": said.get("order"),
        "headwater.queue.backoff.ms": _milliseconds("backoff", said.get("backoff")),
        "headwater.queue.message.ttl.ms": _milliseconds("ttl", said.get("ttl")),
        "share.auto.offset.reset": said.get("start"),
    }
    return {name: value for name, value in configs.items() if value is not None} | dict(said.get("settings", {}))


def _milliseconds(what: str, given: Duration | None) -> str | None:
    if given is None:
        return None
    try:
        return str(milliseconds(duration(given) if isinstance(given, str) else given))
    except ValueError:
        raise InvalidSetting(what, given, 'write for example "30 s" or "5 minutes"') from None
