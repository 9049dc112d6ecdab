"""A mail as bytes. Pure.

From: SENDER                                  names are ours; a value is one line of printable characters
Subject: =?utf-8?b?...?=                      text of rows is never written as it is unless it is plain ASCII
Content-Transfer-Encoding: base64
                                              one empty line, the first one
BASE64                                        so no line of a body can be read as a header, a boundary or a lone dot

Written by hand, because Python's own header objects decode encoded words (`=?utf-8?q?=0d=0a...?=`) in what they are
given, and then write the line ends that were hidden in them. Here text goes in one direction only: into base64.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from typing import Any

from headwater.alerts.journal import as_bytes, header_id
from headwater.alerts.notify import Email

SUBJECT_MAX = 180
ENCODED_BYTES_MAX = 45
"""Of text in one encoded word, whose 75 characters RFC 2047 allows."""

BODY_LINE_BYTES = 57
PLAIN = re.compile(r"[ -~]*")
ENCODED_WORD = "=?"
PLAIN_BYTES_MAX = 66
"""Of a subject that is written as it is: a line of 78 with its name."""


def mail(target: Email, notification: Mapping[str, Any], *, now_ms: int) -> bytes:
    """A mail program shows what belongs together under one another: all of an episode refer to it."""
    domain = target.sender.rpartition("@")[2]
    own, episode = header_id(notification["id"]), header_id(notification["episode"])
    headers = {
        "Subject": encoded(one_line(f"[{notification['state']}] {notification['text']}")[:SUBJECT_MAX]),
        "From": target.sender,
        "To": (", " if len(target.to) < 3 else ",\r\n ").join(target.to),
        "Date": formatdate(now_ms / 1000),
        "Message-ID": f"<{own}@{domain}>",
        "References": f"<{episode}@{domain}>",
        "X-Headwater-Id": own,
        "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "base64",
    }
    content = f"{notification['text']}\n\n{json.dumps(dict(notification), indent=2, ensure_ascii=False)}\n"
    body = base64.b64encode(as_bytes(content)).decode()
    step = 4 * BODY_LINE_BYTES // 3
    lines = (*(f"{name}: {value}" for name, value in headers.items()), "")
    return "\r\n".join((*lines, *(body[at : at + step] for at in range(0, len(body), step)), "")).encode()


def one_line(text: str) -> str:
    """Without line ends and tabs, and a mark for characters that no mail program shows.

    >>> one_line("slow:\\r\\nBcc: eve@x \\x1b[2J")
    'slow: Bcc: eve@x \\ufffd[2J'
    """
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(text.split()))


def encoded(text: str) -> str:
    """A header's value that a reader shows as `text`: as it is where nothing in it can be misread, else in base64.

    >>> encoded("[raised] slow"), encoded("=?utf-8?q?=0d=0aBcc:x?=")
    ('[raised] slow', '=?utf-8?b?PT91dGYtOD9xPz0wZD0wYUJjYzp4Pz0=?=')
    """
    if PLAIN.fullmatch(text) and ENCODED_WORD not in text and len(text) <= PLAIN_BYTES_MAX:
        return text
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(piece).decode()}?=" for piece in _pieces(text))


def _pieces(text: str) -> Iterator[bytes]:
    """No character is split over two words: each has to be readable alone."""
    piece = b""
    for sign in text:
        more = as_bytes(sign)
        if len(piece) + len(more) > ENCODED_BYTES_MAX:
            yield piece
            piece = b""
        piece += more
    yield piece
