"""The targets of an alert: `hw.notify.webhook(...)`, `hw.notify.email(...)`, `hw.notify.topic(...)`. Plain data.

A target is known by its name, which identifies it and contains no secret.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headwater.errors import InvalidDeclaration, UsageError
from headwater.webhooks.sending import check_url
from headwater.webhooks.signing import secret_bytes

HOURS_MAX = 24 * 7
TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
MAIL_ADDRESS = re.compile(r"[^@\s<>()\[\],;:\"\\\x00-\x20\x7f-\x9f]{1,100}@[^@\s<>(),;=?\"\\\x00-\x20\x7f-\x9f]{1,200}")
MAIL_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
ENCODED_WORD = "=?"
"""A mail program would decode what begins so, and show another address."""


@dataclass(frozen=True)
class Webhook:
    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    allow_private: bool = False
    timeout_seconds: float = 10.0
    retry_hours: float = 24.0

    @property
    def name(self) -> str:
        return f"webhook {urlsplit(self.url).hostname} {_digest(self.url)}"


@dataclass(frozen=True)
class Email:
    to: tuple[str, ...]
    sender: str
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)
    security: str = "starttls"
    timeout_seconds: float = 20.0
    retry_hours: float = 24.0

    @property
    def name(self) -> str:
        return f"email {self.to[0]} {_digest(self.host, str(self.port), self.sender, *self.to)}"


@dataclass(frozen=True)
class Topic:
    topic: str
    retry_hours: float = 24.0

    @property
    def name(self) -> str:
        return f"topic {self.topic}"


Target = Webhook | Email | Topic
KINDS: dict[str, type[Webhook | Email | Topic]] = {"webhook": Webhook, "email": Email, "topic": Topic}
SECURITIES = ("starttls", "tls", "none")


def webhook(
    url: str,
    *,
    secret: str = "",
    allow_private: bool = False,
    timeout_seconds: float = 10.0,
    retry_hours: float = 24.0,
) -> Webhook:
    """A POST of JSON, signed with `secret` as Standard Webhooks says, its id in webhook-id.

    A target that fails is tried again, for `retry_hours` at most. Addresses inside a network are refused, unless
    `allow_private`.

    >>> webhook("https://hooks.example/T0/x1", secret="s3cret").name.rpartition(" ")[0]
    'webhook hooks.example'
    """
    try:
        check_url(url)
        secret_bytes(secret)
    except UsageError as error:
        raise InvalidDeclaration(str(error)) from None
    _check_times(timeout_seconds, retry_hours)
    return Webhook(url, secret, allow_private, timeout_seconds, retry_hours)


def email(
    to: str | Sequence[str],
    *,
    sender: str,
    host: str,
    port: int = 587,
    username: str = "",
    password: str = "",
    security: str = "starttls",
    timeout_seconds: float = 20.0,
    retry_hours: float = 24.0,
) -> Email:
    """A mail by SMTP, its id in Message-ID. `security`: starttls, tls (from the first byte on), or none.

    >>> email("ada@example.org", sender="alerts@example.org", host="mail.example.org").to
    ('ada@example.org',)
    """
    recipients = (to,) if isinstance(to, str) else tuple(to)
    for one in (*recipients, sender):
        if not MAIL_ADDRESS.fullmatch(one) or ENCODED_WORD in one or not one.isprintable():
            raise InvalidDeclaration(f"{one[:80]!r} is no mail address", "Write only the address: ada@example.org.")
    if not recipients:
        raise InvalidDeclaration("a mail needs a recipient", 'Write email("ada@example.org", ...).')
    if not MAIL_HOST.fullmatch(host):
        # It may be a whole URL, with a password: it is not repeated.
        raise InvalidDeclaration("host= is no name of a mail server", 'Write only its name: host="mail.example.org".')
    if security not in SECURITIES:
        raise InvalidDeclaration(f"security={security!r} is not known", f"Say one of {', '.join(SECURITIES)}.")
    if password and security == "none":
        raise InvalidDeclaration("a password would be sent to the mail server for all to read", "Use starttls or tls.")
    if not f"{username}{password}".isascii():
        raise InvalidDeclaration("a login at a mail server is sent in ASCII, and this one has other signs in it")
    _check_times(timeout_seconds, retry_hours)
    return Email(recipients, sender, host, port, username, password, security, timeout_seconds, retry_hours)


def topic(topic: str) -> Topic:
    """A record in a topic, its key the id of the notification.

    >>> topic("on-call").name
    'topic on-call'
    """
    if not TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise InvalidDeclaration(f"{topic[:80]!r} cannot name a topic", "Use letters, digits, dots and dashes.")
    return Topic(topic)


def to_json(target: Target) -> dict[str, Any]:
    kind = next(kind for kind, known in KINDS.items() if isinstance(target, known))
    return {"kind": kind, **asdict(target)}


def from_json(said: Mapping[str, Any]) -> Target:
    words = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items() if name != "kind"}
    kind: Any = KINDS[said["kind"]]
    made: Target = kind(**words)
    return made


def _check_times(timeout_seconds: float, retry_hours: float) -> None:
    if not 0 < timeout_seconds <= 120:
        raise InvalidDeclaration(f"timeout_seconds={timeout_seconds:g} is not between 0 and 120")
    if not 0 <= retry_hours <= HOURS_MAX:
        raise InvalidDeclaration(f"retry_hours={retry_hours:g} is not between 0 and {HOURS_MAX}")


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]
