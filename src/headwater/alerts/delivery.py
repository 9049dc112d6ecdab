"""Delivers notifications to one target, in order, at least once.

A target reads the topic APP.alerts like any consumer: its offset is that of a group, so that what was not delivered
yet shows as lag. The offset moves when something was delivered, refused, or given up after the time that the target
allows; a crash before that sends the same once more, under the same id. Every attempt is noted in APP.deliveries.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from headwater.alerts.definition import alerts_topic, deliveries_topic
from headwater.alerts.episodes import NOTIFIED
from headwater.alerts.journal import Event, as_bytes, as_json, ensure_topic, events, parsed
from headwater.alerts.notify import Target
from headwater.alerts.targets import Deliver, Notification
from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.record import Record, TopicPartition
from headwater.webhooks.backoff import pause_seconds
from headwater.webhooks.sending import DELIVERED, FAILED, Answer

_logger = logging.getLogger(__name__)

GIVEN_UP = "given up"
LOOK_SECONDS = 0.2
TROUBLE_SECONDS = 2.0
GOING_SECONDS = 2.0
# The offsets of a group that commits nothing for days expire; those of one that commits again never do.
RENEW_MS = 3_600_000
HOUR_MS = 3_600_000


def group_of(app: str, target: Target) -> str:
    """
    >>> from headwater.alerts.notify import topic
    >>> group_of("shop", topic("on-call"))
    'shop.alerts.topic-on-call'
    """
    return f"{alerts_topic(app)}.{target.name.replace(' ', '-')}"


@dataclass(frozen=True)
class Delivery:
    """A target, its alerts, and the function that delivers to it."""

    app: str
    target: Target
    alerts: frozenset[str]
    deliver: Deliver


class Deliverer:
    """`begin` says from where on; then `start` and `stop`, or `deliver_all` in a test."""

    def __init__(self, delivery: Delivery, log: Log, clock: Clock) -> None:
        self._delivery, self._log, self._clock = delivery, log, clock
        self._name = delivery.target.name
        self._topic, self._group = alerts_topic(delivery.app), group_of(delivery.app, delivery.target)
        self._partition = TopicPartition(self._topic, 0)
        self._random = Random(self._group)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headwater-alert-delivery", daemon=True)
        self._offset = 0
        self._committed_ms = 0
        self._tried_before = True
        """Whether the next notification may have been tried before, by a process that has ended."""
        self.attempts_failed = 0
        """Failed attempts in a row, for the current notification."""

    def begin(self) -> None:
        """A new target receives later events only, not earlier ones."""
        ensure_topic(self._log, self._topic)
        ensure_topic(self._log, deliveries_topic(self._delivery.app))
        known = self._log.group_offsets.fetch(self._group).get(self._partition)
        partition = self._log.partition(*self._partition)
        self._offset = partition.end_offset if known is None else max(known.offset, partition.start_offset)
        self._commit()

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        """A target that hangs does not delay the node: its late answer is ignored, and the delivery repeated."""
        if self._thread.is_alive():
            self._thread.join(GOING_SECONDS)

    @property
    def is_done(self) -> bool:
        """Returns whether every event recorded so far was delivered to the target."""
        return self._offset >= self._log.partition(*self._partition).end_offset

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause = LOOK_SECONDS
            try:
                self.deliver_all()
                if self._clock.elapsed_ms() - self._committed_ms >= RENEW_MS:
                    self._commit()
            except Exception as error:  # whatever it is: no other thread delivers to this target
                pause = TROUBLE_SECONDS
                if not self._stopping.is_set():  # else the log is closed, as it should be
                    ours = isinstance(error, HeadwaterError)
                    _logger.warning("%s: delivery is retried: %s", self._name, error, exc_info=not ours)
            self._stopping.wait(pause)

    def deliver_all(self) -> None:
        """Delivers all current notifications, unless it is asked to stop."""
        moved = False
        start = max(self._offset, self._log.partition(*self._partition).start_offset)
        for offset, event in events(self._log, self._delivery.app, offset=start):
            notification = event if event is not None and self._concerns(event) else None
            if notification is not None and not self._deliver(notification):
                return
            self._offset, moved = offset + 1, True
            if notification is not None:
                self._commit()
                moved = False
        if moved:
            self._commit()

    def _concerns(self, event: Event) -> bool:
        return event["alert"] in self._delivery.alerts and event["state"] in NOTIFIED

    def _deliver(self, notification: Notification) -> bool:
        """False if it was asked to stop first: then nothing is decided."""
        attempt = self._attempts_noted(notification) if self._tried_before else 0
        self._tried_before = True  # until it is decided
        while not self._stopping.is_set():
            attempt += 1
            began_ms = self._clock.elapsed_ms()
            answer = self._tell(notification)
            pause = pause_seconds(attempt, self._random, answer.retry_after_seconds)
            if answer.outcome == FAILED and self._too_old(notification, pause):
                answer = answer._replace(outcome=GIVEN_UP)
            self._note(notification, answer, attempt, self._clock.elapsed_ms() - began_ms)
            self.attempts_failed = attempt if answer.outcome == FAILED else 0
            if answer.outcome != FAILED:
                self._tried_before = False
                return True
            self._stopping.wait(pause)
        return False

    def _tell(self, notification: Notification) -> Answer:
        try:
            return self._delivery.deliver(notification)
        except Exception as error:
            # An unexpected failure of one notification must not block the later ones for ever.
            _logger.exception("%s: %s cannot be delivered", self._name, notification["id"])
            return Answer(FAILED, f"{type(error).__name__}; the node's log says where")

    def _attempts_noted(self, notification: Notification) -> int:
        """Returns how many attempts were made to deliver this notification; 0 if none."""
        own = {"id": notification["id"], "target": self._name}
        noted = self._log.read(deliveries_topic(self._delivery.app), time_ms=notification["at_ms"])
        said = (parsed(record.value) for record in noted if record.key == as_bytes(own["id"]))
        attempts = (one.get("attempt") for one in said if own.items() <= one.items())
        return max((number for number in attempts if isinstance(number, int)), default=0)

    def _too_old(self, notification: Notification, pause: float) -> bool:
        until_ms: float = notification["at_ms"] + self._delivery.target.retry_hours * HOUR_MS
        return self._clock.now_ms() + 1000 * pause > until_ms

    def _note(self, notification: Notification, answer: Answer, attempt: int, took_ms: int) -> None:
        said: Mapping[str, Any] = {
            "id": notification["id"],
            "alert": notification["alert"],
            "state": notification["state"],
            "target": self._name,
            "outcome": answer.outcome,
            "status": answer.status,
            "said": answer.said,
            "attempt": attempt,
            "took_ms": took_ms,
            "at_ms": self._clock.now_ms(),
        }
        if answer.outcome != DELIVERED:
            _logger.warning("%s: %s %s: %s", said["target"], said["id"], answer.outcome, answer.said)
        record = Record(as_json(said), as_bytes(notification["id"]))
        self._log.append(deliveries_topic(self._delivery.app), record)

    def _commit(self) -> None:
        self._log.group_offsets.commit(self._group, {self._partition: CommittedOffset(self._offset)})
        self._committed_ms = self._clock.elapsed_ms()
