"""Alerts by mail, taken by a real mail server."""

from collections.abc import Iterator
from email.message import Message
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MessageHandler

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

    def handle_message(self, message: Message) -> None:
        self.mails.append(message)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refusal:
            return self.refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, Email]]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=closed_port())
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
