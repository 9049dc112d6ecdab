"""Alerts by mail, taken by a real mail server."""

from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MessageHandler
from aiosmtpd.smtp import AuthResult

from headwater.alerts.notify import Email, email
from headwater.alerts.targets import by_email
from headwater.clock import ManualClock
from headwater.webhooks.sending import DELIVERED, FAILED, REFUSED
from tests.webhooks.target import closed_port

NOTIFICATION = {
    "id": "e1-1", "episode": "e1", "alert": "too_slow", "state": "raised",
    "text": "too_slow raised: url=/ä\nBcc: eve@x", "key": {"url": "/ä"},
}  # fmt: skip


class Mailbox(MessageHandler):
    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Message] = []
        self.refusal = ""
        self.refusals: dict[str, str] = {}
        self.good_bye = "221 bye"
        self.notified: list[tuple[str, ...]] = []

    def handle_message(self, message: Message) -> None:
        self.mails.append(message)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if refusal := self.refusals.get(address, self.refusal):
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.notified.append(tuple(envelope.rcpt_tos))
        return str(await super().handle_DATA(server, session, envelope))

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:
        return self.good_bye


def _refuse_every_login(*arguments: object) -> AuthResult:
    return AuthResult(success=False, handled=False)


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, Email]]:
    box = Mailbox()
    # A login without TLS, and one that always fails.
    controller = Controller(
        box, hostname="127.0.0.1", port=closed_port(), auth_require_tls=False, authenticator=_refuse_every_login
    )
    controller.start()
    to = ["ada@example.org", "bob@example.org"]
    try:
        yield box, email(to, sender="hw@example.org", host="127.0.0.1", port=controller.port, security="none")
    finally:
        controller.stop()


def test_a_mail_has_the_id_and_says_what_happened(mailbox: tuple[Mailbox, Email]) -> None:
    box, target = mailbox
    assert by_email(target, ManualClock())(NOTIFICATION).outcome == DELIVERED
    [mail] = box.mails
    assert (mail["Message-ID"], mail["References"]) == ("<e1-1@example.org>", "<e1@example.org>")
    assert mail["To"] == "ada@example.org, bob@example.org"
    assert "Bcc" not in mail, "a row must not write headers"


def test_a_server_that_cannot_take_it_now_is_asked_again_and_one_that_never_will_is_not(
    mailbox: tuple[Mailbox, Email],
) -> None:
    box, target = mailbox
    box.refusal = "451 not now"
    assert by_email(target, ManualClock())(NOTIFICATION).outcome == FAILED
    box.refusal = "550 nobody of that name"
    assert by_email(target, ManualClock())(NOTIFICATION).outcome == REFUSED


def test_a_server_that_is_not_there_is_tried_again() -> None:
    target = email("a@example.org", sender="b@example.org", host="127.0.0.1", port=closed_port(), security="none")
    assert by_email(target, ManualClock())(NOTIFICATION).outcome == FAILED


@pytest.mark.parametrize("good_bye", ["421 going down", "502 what is that"])
def test_what_was_taken_is_delivered_however_the_server_says_good_bye(
    mailbox: tuple[Mailbox, Email], good_bye: str
) -> None:
    box, target = mailbox
    box.good_bye = good_bye
    assert by_email(target, ManualClock())(NOTIFICATION).outcome == DELIVERED
    assert len(box.mails) == 1


def test_a_deferred_recipient_is_notified_later_and_none_twice(mailbox: tuple[Mailbox, Email]) -> None:
    box, target = mailbox
    deliver = by_email(target, ManualClock())
    box.refusals["bob@example.org"] = "450 greylisted"
    first = deliver(NOTIFICATION)
    assert (first.outcome, first.status) == (FAILED, 450)
    assert "bob@example.org: 450" in first.said
    box.refusals.clear()
    assert deliver(NOTIFICATION).outcome == DELIVERED
    assert deliver({**NOTIFICATION, "id": "e1-2"}).outcome == DELIVERED
    both = ("ada@example.org", "bob@example.org")
    assert box.notified == [("ada@example.org",), ("bob@example.org",), both]


def test_an_unknown_recipient_does_not_keep_the_others_from_being_notified(mailbox: tuple[Mailbox, Email]) -> None:
    box, target = mailbox
    deliver = by_email(target, ManualClock())
    box.refusals = {"ada@example.org": "550 nobody of that name", "bob@example.org": "450 greylisted"}
    assert deliver(NOTIFICATION).outcome == FAILED
    box.refusals["bob@example.org"] = ""
    answer = deliver(NOTIFICATION)
    assert (answer.outcome, box.notified) == (DELIVERED, [("bob@example.org",)])
    assert "not taken for ada@example.org: 550" in answer.said


def test_a_server_that_breaks_off_between_recipients_has_delivered_to_none(mailbox: tuple[Mailbox, Email]) -> None:
    box, target = mailbox
    deliver = by_email(target, ManualClock())
    box.refusals["bob@example.org"] = "421 going down"
    assert deliver(NOTIFICATION).outcome == FAILED
    box.refusals.clear()
    assert deliver(NOTIFICATION).outcome == DELIVERED
    assert box.notified == [("ada@example.org", "bob@example.org")]


def test_a_login_that_is_refused_is_tried_again_as_it_can_be_put_right(mailbox: tuple[Mailbox, Email]) -> None:
    _, target = mailbox
    answer = by_email(replace(target, username="hw", password="wrong"), ManualClock())(NOTIFICATION)
    assert (answer.outcome, answer.status) == (FAILED, 535)


def test_a_password_that_cannot_be_sent_is_a_failure_that_does_not_repeat_it(mailbox: tuple[Mailbox, Email]) -> None:
    _, target = mailbox
    answer = by_email(replace(target, username="hw", password="gr\u00fcn"), ManualClock())(NOTIFICATION)
    assert answer.outcome == FAILED
    assert not [sign for sign in ("\u00fc", "xfc") if sign in answer.said]
