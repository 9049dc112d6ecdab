"""Bytes of a file as lines. Pure."""

from base64 import b64encode
from typing import NamedTuple

LINE_BYTES_MAX = 1024 * 1024


class Line(NamedTuple):
    start: int
    """Where it begins in the bytes it was cut from."""

    content: bytes
    cut: bool
    """It continues in the next one: no line is longer than LINE_BYTES_MAX."""


def whole(data: bytes, *, final: bool = False) -> int:
    """How many of the bytes are whole lines. A last one without an end counts only if nothing can follow it.

    >>> whole(b"one\\ntw"), whole(b"one\\ntw", final=True), whole(b"on")
    (4, 6, 0)
    """
    if final:
        return len(data)
    end = data.rfind(b"\n") + 1
    return end or len(data) // LINE_BYTES_MAX * LINE_BYTES_MAX


def lines(data: bytes) -> list[Line]:
    """The same bytes make the same lines, whenever they are read.

    >>> lines(b"one\\r\\n\\ntwo")
    [Line(start=0, content=b'one', cut=False), Line(start=5, content=b'', cut=False), Line(start=6, content=b'two', \
cut=False)]
    """
    found: list[Line] = []
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        stop = len(data) if end < 0 else end
        while stop - start > LINE_BYTES_MAX:
            found.append(Line(start, data[start : start + LINE_BYTES_MAX], True))
            start += LINE_BYTES_MAX
        cut = end < 0 and stop - start == LINE_BYTES_MAX
        found.append(Line(start, data[start:stop].removesuffix(b"\r"), cut))
        start = stop + 1 if end >= 0 else stop
    return found


def as_text(content: bytes, encoding: str) -> tuple[bytes, bytes | None]:
    """A line in UTF-8; and, if it was not in its encoding, the line as it was, in base64.

    >>> as_text(b"caf\\xe9", "latin-1"), as_text(b"caf\\xe9", "utf-8")
    ((b'caf\\xc3\\xa9', None), (b'caf\\xef\\xbf\\xbd', b'Y2Fm6Q=='))
    """
    try:
        return content.decode(encoding).encode(), None
    except UnicodeDecodeError:
        return content.decode(encoding, "replace").encode(), b64encode(content)


def fits(encoding: str) -> bool:
    """Whether lines of an encoding end where the byte 10 is.

    >>> fits("latin-1"), fits("utf-16"), fits("nonsense")
    (True, False, False)
    """
    try:
        return "a\n".encode(encoding) == b"a\n"
    except LookupError:
        return False
