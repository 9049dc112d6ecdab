"""Records as lines of text, in both directions (pure).

A JSON line is an object with these fields, all but `value` optional:

    {"key": "ada", "value": "two lamps", "headers": [["trace", "7f"]], "timestamp": 1700000000000, "partition": 0}

Keys, values and header values are text, null, or {"base64": "..."} for bytes that are not text. Any other JSON value
(a number, a list, an object) stands for its own JSON text. A timestamp is milliseconds since 1970; none, or 0, is now.
What `consume --json` prints, `produce --jsonl` reads again.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

Headers = Sequence[tuple[str, bytes | None]]


class Line(NamedTuple):
    """A record on its way from or to a line."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class BadLine(ValueError):
    """The line is not what was announced; the message says why."""


FIELDS = {"key", "value", "headers", "timestamp", "partition"}
# What `consume --json` adds and a record cannot choose.
FIELDS_OF_THE_LOG = {"topic", "offset"}


def from_text(line: bytes, *, key_separator: bytes | None = None) -> Line:
    """
    >>> from_text(b"ada:two lamps\\n", key_separator=b":")
    Line(value=b'two lamps', key=b'ada', headers=(), timestamp_ms=None, partition=None)
    """
    content = line.removesuffix(b"\n").removesuffix(b"\r")
    if key_separator is None:
        return Line(content)
    key, found, value = content.partition(key_separator)
    if not found:
        raise BadLine(f"there is no {key_separator.decode()!r} between key and value")
    return Line(value, key)


def from_json(line: bytes) -> Line:
    """
    >>> from_json(b'{"key": "ada", "value": {"items": 2}}').value
    b'{"items": 2}'
    """
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise BadLine(f"it is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise BadLine("it is not a JSON object")
    if "value" not in fields:
        raise BadLine('it has no "value" (null deletes the key on a compacted topic)')
    if unknown := fields.keys() - FIELDS - FIELDS_OF_THE_LOG:
        raise BadLine(f"it has unknown fields: {', '.join(sorted(unknown))}")
    return Line(
        value=_bytes(fields["value"]),
        key=_bytes(fields.get("key")),
        headers=_headers(fields.get("headers")),
        timestamp_ms=_integer(fields, "timestamp"),
        partition=_integer(fields, "partition"),
    )


def to_text(record: Line, *, with_key: bool) -> bytes:
    """
    >>> to_text(Line(b"two lamps", b"ada"), with_key=True)
    b'ada\\ttwo lamps\\n'
    """
    value = b"null" if record.value is None else record.value
    if not with_key:
        return value + b"\n"
    return (b"null" if record.key is None else record.key) + b"\t" + value + b"\n"


def to_json(record: Line, *, topic: str, offset: int) -> bytes:
    r"""
    >>> to_json(Line(None, b"k", timestamp_ms=5, partition=0), topic="t", offset=7)
    b'{"topic": "t", "partition": 0, "offset": 7, "timestamp": 5, "key": "k", "value": null, "headers": []}\n'
    """
    fields = {
        "topic": topic,
        "partition": record.partition,
        "offset": offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _text(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _bytes(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode("utf-8", "surrogatepass")
        case {"base64": str(text), **others} if not others:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise BadLine(f"base64 cannot be decoded ({error})") from None
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _headers(value: object) -> Headers:
    match value:
        case None:
            return ()
        case dict():
            pairs: list[Any] = list(value.items())
        case list():
            pairs = value
        case _:
            raise BadLine('"headers" is neither an object nor a list of pairs')
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise BadLine('"headers" is not a list of [name, value] pairs')
    return tuple((name, _bytes(content)) for name, content in pairs)


def _integer(fields: dict[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise BadLine(f'"{name}" is not a number of zero or more')
