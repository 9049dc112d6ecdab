"""How each kind of target is told. Each answers what came of it, and raises nothing for what the other side does."""

import json
import smtplib
import ssl
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

from headwater.alerts.journal import ensure_topic
from headwater.alerts.notify import Email, Target, Topic, Webhook
from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.record import Record
from headwater.webhooks.sending import DELIVERED, FAILED, REFUSED, Answer, Sender
from headwater.webhooks.signing import signature_headers

Notification = Mapping[str, Any]
"""As journal.told makes it."""
Tell = Callable[[Notification], Answer]

SUBJECT_MAX = 180


def teller(target: Target, log: Log, clock: Clock) -> Tell:
    match target:
        case Webhook():
            return by_webhook(target, clock)
        case Email():
            return by_email(target, clock)
        case Topic(topic):
            return by_topic(topic, log)


def by_webhook(target: Webhook, clock: Clock) -> Tell:
    sender = Sender(target.url, target.timeout_seconds, target.allow_private)

    def tell(notification: Notification) -> Answer:
        body = json.dumps(notification, ensure_ascii=False).encode()
        signed = signature_headers(target.secret, notification["id"], body, now_ms=clock.now_ms())
        return sender.post(body, {"content-type": "application/json", "idempotency-key": notification["id"], **signed})

    return tell


def by_topic(topic: str, log: Log) -> Tell:
    def tell(notification: Notification) -> Answer:
        record = Record(json.dumps(notification, ensure_ascii=False).encode(), notification["id"].encode())
        try:
            ensure_topic(log, topic)
            position = log.append(topic, record)
        except HeadwaterError as error:
            return Answer(FAILED, str(error)[:300])
        return Answer(DELIVERED, f"{position.topic}/{position.partition} at {position.offset}")

    return tell


def by_email(target: Email, clock: Clock) -> Tell:
    def tell(notification: Notification) -> Answer:
        message = mail(target, notification, now_ms=clock.now_ms())
        try:
            with _connected(target) as server:
                refused = server.send_message(message)
        except smtplib.SMTPResponseException as error:
            # 4xx: not now; 5xx: never.
            said = f"the mail server answers {error.smtp_code} {error.smtp_error!r}"[:300]
            return Answer(REFUSED if 500 <= error.smtp_code < 600 else FAILED, said, error.smtp_code)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            return Answer(
                REFUSED if all(code >= 500 for code in codes) else FAILED, f"nobody is known there: {error}"[:300]
            )
        except (OSError, smtplib.SMTPException) as error:
            return Answer(FAILED, f"{type(error).__name__}: {error}"[:300])
        return Answer(DELIVERED, f"not to {', '.join(refused)}"[:300] if refused else "taken by the mail server")

    return tell


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


def mail(target: Email, notification: Notification, *, now_ms: int) -> EmailMessage:
    """A mail program shows what belongs together under one another: all of an episode refer to it."""
    message = EmailMessage()
    domain = target.sender.rpartition("@")[2]
    # A header is one line, whatever stands in a row.
    message["Subject"] = " ".join(f"[{notification['state']}] {notification['text']}".split())[:SUBJECT_MAX]
    message["From"], message["To"] = target.sender, ", ".join(target.to)
    message["Date"] = formatdate(now_ms / 1000)
    message["Message-ID"] = f"<{notification['id']}@{domain}>"
    message["References"] = f"<{notification['episode']}@{domain}>"
    message["X-Headwater-Id"] = notification["id"]
    message.set_content(f"{notification['text']}\n\n{json.dumps(dict(notification), indent=2, ensure_ascii=False)}\n")
    return message
