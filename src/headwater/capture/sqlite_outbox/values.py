"""A value of SQLite as JSON. Pure.

SQLite has five kinds of value, and any column may hold any of them; the value is captured, not what its column was
declared as. Integers and reals are numbers, and a real always shows that it is one (`1.0`). Text is text, a BLOB is
base64. Infinity has no number in JSON and is text, as it is for PostgreSQL.
"""

from base64 import b64encode
from json.encoder import encode_basestring

Value = int | float | str | bytes | None

_ENDLESS = {"inf": b'"Infinity"', "-inf": b'"-Infinity"', "nan": b'"NaN"'}


def fragment(value: Value) -> bytes:
    """
    >>> [fragment(value) for value in (None, 7, 1.0, float("inf"), "a\\nb", b"xyz")]
    [b'null', b'7', b'1.0', b'"Infinity"', b'"a\\\\nb"', b'"eHl6"']
    """
    if value is None:
        return b"null"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        text = repr(value)
        return _ENDLESS.get(text) or text.encode()
    if isinstance(value, bytes):
        return b'"%b"' % b64encode(value)
    return encode_basestring(value).encode()


def text_of(raw: bytes) -> str:
    """Text that is no UTF-8, which SQLite does not forbid, shows U+FFFD for bytes that cannot be read."""
    return raw.decode("utf-8", "replace")
