"""Delivers to each kind of target.

Each function returns the outcome, and raises nothing for failures of the receiver.
"""

import smtplib
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from headwater.alerts.journal import RETENTION_MS, Event, as_bytes, as_json, header_id
from headwater.alerts.mail_message import mail
from headwater.alerts.notify import Email, Target, Topic, Webhook
from headwater.clock import Clock
from headwater.errors import HeadwaterError, TopicExists, UnknownTopic
from headwater.log.log import Log
from headwater.log.own_topics import TAKES_ALL
from headwater.record import Record
from headwater.webhooks.sending import DELIVERED, FAILED, REFUSED, Answer, Sender
from headwater.webhooks.signing import signature_headers

Notification = Event
Deliver = Callable[[Notification], Answer]
Publish = Callable[[str, Record], str]
"""Appends a record to a topic, which is made if it is missing; answers where it is."""

Reply = tuple[int, bytes | str]
BROKEN_OFF: Reply = (421, b"broken off")


def delivery_to(target: Target, publish: Publish, clock: Clock) -> Deliver:
    match target:
        case Webhook():
            return by_webhook(target, clock)
        case Email():
            return by_email(target, clock)
        case Topic(topic):
            return by_topic(topic, publish)


def by_webhook(target: Webhook, clock: Clock) -> Deliver:
    sender = Sender(target.url, target.timeout_seconds, target.allow_private)

    def deliver(notification: Notification) -> Answer:
        body, own = as_json(notification), header_id(notification["id"])
        signed = signature_headers(target.secret, own, body, now_ms=clock.now_ms())
        return sender.post(body, {"content-type": "application/json", "idempotency-key": own, **signed})

    return deliver


def by_topic(topic: str, publish: Publish) -> Deliver:
    def deliver(notification: Notification) -> Answer:
        record = Record(as_json(notification), as_bytes(notification["id"]))
        try:
            return Answer(DELIVERED, publish(topic, record))
        except HeadwaterError as error:
            return Answer(FAILED, str(error)[:300])

    return deliver


def publisher(log: Log) -> Publish:
    def publish(topic: str, record: Record) -> str:
        _make_missing(log, topic)
        position = log.append(topic, record)
        return f"{position.topic}/{position.partition} at {position.offset}"

    return publish


def _make_missing(log: Log, topic: str) -> None:
    """A topic of the user's: as it is set up, if it is there."""
    try:
        log.topic(topic)
    except UnknownTopic:
        try:
            log.create_topic(topic, configs={**TAKES_ALL, "retention.ms": str(RETENTION_MS)})
        except TopicExists:
            pass


def by_email(target: Email, clock: Clock) -> Deliver:
    """Delivers by SMTP. The server answers for each recipient; one that must wait gets a mail of its own later."""
    current = Round("", target.to)

    def deliver(notification: Notification) -> Answer:
        nonlocal current
        if current.id != notification["id"]:
            current = Round(notification["id"], target.to)
        try:
            message = mail(target, notification, now_ms=clock.now_ms())
            current = current.after(_sent(target, message, current.left))
        except smtplib.SMTPRecipientsRefused as error:
            # No recipient has it, not even an accepted one: a server may break off in the middle of them.
            current = current.after({**dict.fromkeys(current.left, BROKEN_OFF), **error.recipients})
        except smtplib.SMTPDataError as error:
            current = current.after(dict.fromkeys(current.left, (error.smtp_code, error.smtp_error)))
        except (OSError, smtplib.SMTPException) as error:
            # It has not seen the mail, so nothing is said of it: a login that is refused, for one, can be put right.
            return Answer(FAILED, f"{type(error).__name__}: {error}"[:300], getattr(error, "smtp_code", None))
        except ValueError:
            # What Python says of it repeats a piece of it, and that may be one of a password.
            return Answer(FAILED, "the login, or an address, has a sign in it that cannot be sent to the mail server")
        return current.answer()

    return deliver


class Round(NamedTuple):
    """The recipients that a notification has not reached by mail. A restart begins with all of them."""

    id: str
    left: tuple[str, ...]
    taken: tuple[str, ...] = ()
    refused: Mapping[str, Reply] = MappingProxyType({})
    """Returns the recipients that were refused, and why."""

    def after(self, refused: Mapping[str, Reply]) -> "Round":
        """`refused` are those for whom the server did not take it: from 500 on for good.

        >>> Round("a1", ("ada@x", "bob@x", "eve@x")).after({"bob@x": (450, b"later"), "eve@x": (550, b"who?")}).left
        ('bob@x',)
        """
        taken = (*self.taken, *(one for one in self.left if one not in refused))
        without = {one: reply for one, reply in {**self.refused, **refused}.items() if one not in taken}
        return Round(self.id, tuple(one for one, (code, _) in without.items() if code < 500), taken, without)

    def answer(self) -> Answer:
        if not self.refused:
            return Answer(DELIVERED, "taken by the mail server")
        said = ", ".join(f"{one}: {code} {words!r}" for one, (code, words) in self.refused.items())
        outcome = FAILED if self.left else DELIVERED if self.taken else REFUSED
        return Answer(outcome, f"not taken for {said}"[:300], next(iter(self.refused.values()))[0])


def _sent(target: Email, message: bytes, to: Sequence[str]) -> Mapping[str, Reply]:
    """Answers for whom it was not taken. How the server says good-bye does not matter to those who have it."""
    server = _connected(target)
    try:
        international = [] if message.isascii() else ["SMTPUTF8", "BODY=8BITMIME"]
        refused: Mapping[str, Reply] = server.sendmail(target.sender, to, message, mail_options=international)
        with suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        server.close()
    return refused


def _connected(target: Email) -> smtplib.SMTP:
    secure = ssl.create_default_context()
    if target.security == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            target.host, target.port, timeout=target.timeout_seconds, context=secure
        )
    else:
        server = smtplib.SMTP(target.host, target.port, timeout=target.timeout_seconds)
    try:
        if target.security == "starttls":
            server.starttls(context=secure)
        if target.username:
            server.login(target.username, target.password)
    except BaseException:
        server.close()
        raise
    return server
