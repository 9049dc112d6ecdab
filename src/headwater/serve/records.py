"""Records as JSON. Pure: bytes become text where they are text, and base64 where they are not."""

import base64
from collections.abc import Callable
from typing import Any

from headwater.errors import DamagedRange
from headwater.record import Record, whole_length

VALUE_BYTES_MAX = 4 * 1024**2
CONTROL = bytes(range(32))
HEADERS_MAX = 100
"""Of one record; a record may have millions."""

Decode = Callable[[bytes], str | None]
"""A value in the wire format of a schema registry as JSON text; None if it is not one, or cannot be read."""

CONTENT: dict[str, Any] = {
    "type": ["object", "null"],
    "description": "bytes: as `text` if they are UTF-8, as `base64` if not; `json` where a schema says what they mean",
    "required": ["bytes"],
    "properties": {
        "text": {"type": "string"},
        "base64": {"type": "string"},
        "json": {"type": "string"},
        "bytes": {"type": "integer"},
        "cut": {"type": "boolean", "description": "true: only its beginning is shown"},
    },
}
RECORD: dict[str, Any] = {
    "type": "object",
    "required": ["partition", "offset", "timestamp_ms", "key", "value", "headers"],
    "properties": {
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "timestamp_ms": {"type": "integer"},
        "key": CONTENT,
        "value": CONTENT,
        "headers": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": CONTENT}},
        },
    },
}


def shown_damage(damage: DamagedRange) -> dict[str, Any]:
    """Offsets that are passed over, so that their neighbours are shown."""
    return {"first": damage.first, "end": damage.end, "reason": damage.why or "damaged and quarantined"}


def size_of(record: Record, bytes_max: int) -> int:
    """About how long a record is in JSON, where a control character takes six bytes.

    >>> size_of(Record(bytes(100)), 50) - size_of(Record(b"a" * 100), 50)
    250
    """
    parts = [record.key, record.value, *(value for _, value in record.headers[:HEADERS_MAX])]
    shown = [part[:bytes_max] for part in parts if part]
    escaped = sum(len(part) - len(part.translate(None, CONTROL)) for part in shown)
    return 200 + sum(map(len, shown)) + 5 * escaped + 80 * len(parts[2:])


def record_json(record: Record, partition: int, *, bytes_max: int, decode: Decode | None = None) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": content(record.key, bytes_max=bytes_max, decode=decode),
        "value": content(record.value, bytes_max=bytes_max, decode=decode),
        "headers": [
            {"name": name, "value": content(value, bytes_max=bytes_max)} for name, value in record.headers[:HEADERS_MAX]
        ],
    }


def content(data: bytes | None, *, bytes_max: int, decode: Decode | None = None) -> dict[str, Any] | None:
    """
    >>> content(b"hello", bytes_max=3), content(bytes([255, 0]), bytes_max=9), content(None, bytes_max=9)
    ({'bytes': 5, 'cut': True, 'text': 'hel'}, {'bytes': 2, 'base64': '/wA='}, None)
    """
    if data is None:
        return None
    length = whole_length(data)
    said: dict[str, Any] = {"bytes": length}
    shown = bytes(data[:bytes_max])
    if len(shown) < length:
        said["cut"] = True
    elif decode is not None and (meant := decode(shown)) is not None:
        said["json"] = meant
    text = _text(shown, cut=len(shown) < length)
    return {**said, "base64": base64.b64encode(shown).decode()} if text is None else {**said, "text": text}


def _text(data: bytes, *, cut: bool) -> str | None:
    """A character that was cut in two is left out; any other mistake means that this is no text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if cut and error.start >= len(data) - 3 and error.reason == "unexpected end of data":
            return data[: error.start].decode("utf-8")
        return None
