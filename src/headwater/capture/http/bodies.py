"""The body of a request to records. Pure.

application/json                      one record, as it was sent
application/x-ndjson (also jsonl)     one record for each line that is not empty
application/cloudevents+json          one event: see cloud_events.py
application/cloudevents-batch+json    several
any type, with headers ce-...         one event whose data is the body

All of a body is understood before any of it is stored: one line that is no JSON refuses the request.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from headwater.capture.http import cloud_events
from headwater.capture.http.refusal import Refusal
from headwater.record import Record

JSON = "application/json"
LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines")
TYPES = (JSON, LINES[0], cloud_events.ONE, cloud_events.SEVERAL)
RECORDS_MAX = 50_000


def records_of(headers: Mapping[str, str], body: bytes, *, key: str = "") -> list[Record]:
    """Names of headers are small. `key` is the property whose value becomes the key of a record. Refusal if it is not
    what it claims to be."""
    kind, charset = content_type(headers.get("content-type", ""))
    if charset not in ("", "utf-8", "utf8", "us-ascii"):
        raise Refusal(415, f"the charset {charset[:40]!r} is not taken; send UTF-8")
    if kind in (cloud_events.ONE, cloud_events.SEVERAL):
        return cloud_events.structured(parsed(body, "the body"), several=kind == cloud_events.SEVERAL)
    if cloud_events.in_headers(headers):
        return [cloud_events.binary(headers, body)]
    if kind == JSON:
        return [_record(body.strip(), "the body", key)]
    if kind in LINES:
        return _lines(body, key)
    raise Refusal(415, f"the content type {kind[:60]!r} is not taken; send one of {', '.join(TYPES)}")


def content_type(said: str) -> tuple[str, str]:
    """The type and the charset.

    >>> content_type('Application/JSON; charset="UTF-8"')
    ('application/json', 'utf-8')
    """
    kind, *parameters = [part.strip().lower() for part in said.split(";")]
    charsets = [one.removeprefix("charset=").strip('"') for one in parameters if one.startswith("charset=")]
    return kind, charsets[0] if charsets else ""


def _lines(body: bytes, key: str) -> list[Record]:
    lines = [(number, line.strip()) for number, line in enumerate(body.split(b"\n"), start=1)]
    found = [_record(line, f"line {number}", key) for number, line in lines if line]
    if not found:
        raise Refusal(400, "the body has no line")
    if len(found) > RECORDS_MAX:
        raise Refusal(413, f"the request has {len(found)} records, and {RECORDS_MAX} may be sent at once")
    return found


def _record(text: bytes, where: str, key: str) -> Record:
    said = parsed(text, where)
    return Record(text, key=_key(said, key, where) if key else None)


def _key(said: Any, name: str, where: str) -> bytes:
    value = said.get(name) if isinstance(said, dict) else None
    match value:
        case str():
            return encoded(value, where)
        case bool() | int() | float():
            return json.dumps(value).encode()
    raise Refusal(400, f"{where} has no text or number {name[:60]!r}, which is to be its key")


def parsed(text: bytes, where: str) -> Any:
    """Parses JSON strictly: UTF-8, no NaN."""
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Refusal(400, f"{where} is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"{where} is not JSON: {str(error)[:100] or 'it is nested too deep'}") from None


def encoded(text: str, where: str) -> bytes:
    """As UTF-8; an escape in JSON can say half a character, which is none."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"{where} has half a character in a text") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
