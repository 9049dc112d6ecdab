"""A mail has the headers that headwater writes and no others, whatever stands in a row."""

import base64
import email
import email.policy
import os
import quopri
from email.header import decode_header, make_header
from random import Random

import pytest

from headwater.alerts.mail_message import SUBJECT_MAX, mail, one_line
from headwater.alerts.notify import Email
from headwater.alerts.notify import email as email_target

TARGET = email_target(["ada@example.org", "bob@example.org"], sender="hw@example.org", host="mail.example.org")
HEADERS = [
    "Subject", "From", "To", "Date", "Message-ID", "References", "X-Headwater-Id",
    "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
]  # fmt: skip
CASES = int(os.environ.get("HEADWATER_MAIL_CASES", "2000"))

HOSTILE = [
    "\r\n", "\n", "\r", "\r\n\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x00", "\x1b[2J", "\t", " ",
    "Bcc: eve@example.org", "Content-Type: multipart/mixed; boundary=x", "--x", "--x--", ".", "\r\n.\r\n", "From ",
    "ä", "日本語", "\U0001f600", "\ud800", "\udcff", "\u202e", "=", "?=", "=?", "=?utf-8?b?", "?", "_", "=0D=0A",
    "x" * 90, "<a@b>", '"', "\\", "(", ")", ",", ";", ":",
]  # fmt: skip


def encoded_word(random: Random, text: str) -> str:
    """Hidden in an encoded word, as a hostile row would hide it; the charset and its case vary."""
    charset = random.choice(["utf-8", "UTF-8", "us-ascii", "iso-8859-1", "utf-16", "utf-7", "unknown-8bit"])
    known = charset if charset in ("utf-16", "utf-7") else "utf-8"
    data = text.encode(known, "replace")
    if random.random() < 0.5:
        return f"=?{charset}?{random.choice('qQ')}?{quopri.encodestring(data, True, True).decode('latin-1')}?="
    return f"=?{charset}?{random.choice('bB')}?{base64.b64encode(data).decode()}?="


def hostile_text(random: Random) -> str:
    pieces = []
    for _ in range(random.randint(1, 6)):
        plain = "".join(random.choice(HOSTILE) for _ in range(random.randint(1, 5)))
        pieces.append(encoded_word(random, plain) if random.random() < 0.5 else plain)
    text = random.choice(["", " "]).join(pieces)
    return encoded_word(random, text) if random.random() < 0.2 else text


def notification(random: Random) -> dict[str, object]:
    ids = [f"{random.randint(0, 99)}-1", hostile_text(random)]
    text = hostile_text(random)
    return {
        "id": random.choice(ids), "episode": random.choice(ids), "alert": "slow",
        "state": random.choice(["raised", hostile_text(random)]), "text": text, "key": {"url": text},
    }  # fmt: skip


def raw_names(sent: bytes) -> list[str]:
    """As a server that knows nothing of MIME splits it."""
    head, gap, _ = sent.partition(b"\r\n\r\n")
    assert gap
    lines = head.split(b"\r\n")
    return [line.partition(b":")[0].decode() for line in lines if not line.startswith(b" ")]


def check(target: Email, said: dict[str, object]) -> None:
    sent = mail(target, said, now_ms=1_700_000_000_000)
    assert sent.isascii()
    assert b"\r" not in sent.replace(b"\r\n", b""), said
    assert b"\n" not in sent.replace(b"\r\n", b""), said
    assert all(byte >= 32 for byte in sent.replace(b"\r\n", b"")), said
    assert max(map(len, sent.split(b"\r\n"))) <= 250
    assert b"\r\n." not in sent
    assert raw_names(sent) == HEADERS, said
    subject = one_line(f"[{said['state']}] {said['text']}")[:SUBJECT_MAX]
    modern = email.message_from_bytes(sent, policy=email.policy.default)
    assert modern.keys() == HEADERS, said
    assert not modern.defects
    assert not modern.is_multipart()
    assert modern["Subject"] == subject, said
    old = email.message_from_bytes(sent, policy=email.policy.compat32)
    assert old.keys() == HEADERS, said
    assert old["To"] == ", ".join(target.to)
    assert str(make_header(decode_header(old["Subject"]))) == subject, said
    body = old.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert body.startswith(str(said["text"]).encode("utf-8", "backslashreplace") + b"\n\n{"), said


def test_thousands_of_hostile_rows_write_no_header_and_stay_in_the_body() -> None:
    random = Random(14)
    for _ in range(CASES):
        check(TARGET, notification(random))


@pytest.mark.parametrize("text", ["=?utf-8?q?=0d=0aBcc:_eve@x.org=0d=0a=0d=0ahello?=", "a\r\nBcc: eve@x\r\n\r\nb"])
def test_a_hidden_line_end_stays_hidden(text: str) -> None:
    check(TARGET, {"id": "e1-1", "episode": "e1", "state": "raised", "alert": "slow", "text": text, "key": {}})


def test_an_address_in_another_alphabet_is_written_in_utf8() -> None:
    target = email_target("jürgen@example.org", sender="hw@example.org", host="mail.example.org")
    sent = mail(target, {"id": "1", "episode": "1", "state": "raised", "text": "x"}, now_ms=0)
    assert "To: jürgen@example.org\r\n".encode() in sent
