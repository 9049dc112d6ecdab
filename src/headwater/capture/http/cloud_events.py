"""CloudEvents 1.0 from HTTP to records, as the binding for Kafka writes them in its binary mode. Pure.

The data is the value; attributes are headers ce_id, ce_source, ...; `datacontenttype` is the header content-type; the
extension `partitionkey` is the key. So it makes no difference to readers in which mode an event was sent. The time of
the record is that of its arrival: `time` is a claim of the sender, and stands in ce_time.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from headwater.capture.http.refusal import Refusal
from headwater.record import Record

ONE, SEVERAL = "application/cloudevents+json", "application/cloudevents-batch+json"
PREFIX = "ce-"
REQUIRED = ("specversion", "id", "source", "type")
NAME = re.compile(r"[a-z0-9]{1,60}")
DATA = ("data", "data_base64")
EVENTS_MAX = 10_000


def in_headers(headers: Mapping[str, str]) -> bool:
    return f"{PREFIX}specversion" in headers or f"{PREFIX}type" in headers


def binary(headers: Mapping[str, str], body: bytes) -> Record:
    said = {name.removeprefix(PREFIX): unquote(value) for name, value in headers.items() if name.startswith(PREFIX)}
    kind = headers.get("content-type", "")
    return _record({**said, **({"datacontenttype": kind} if kind else {})}, body, "the event")


def structured(said: Any, *, several: bool) -> list[Record]:
    if not several:
        return [_event(said, "the event")]
    if not isinstance(said, list) or not said:
        raise Refusal(400, "a batch of events is a list with at least one")
    if len(said) > EVENTS_MAX:
        raise Refusal(413, f"the request has {len(said)} events, and {EVENTS_MAX} may be sent at once")
    return [_event(one, f"event {number}") for number, one in enumerate(said, start=1)]


def _event(said: Any, where: str) -> Record:
    if not isinstance(said, dict):
        raise Refusal(400, f"{where} is not a JSON object")
    attributes = {name: value for name, value in said.items() if name not in DATA and value is not None}
    if "data_base64" in said:
        return _record(attributes, _bytes(said, where), where)
    if said.get("data") is None:
        return _record(attributes, b"", where)
    try:
        data = json.dumps(said["data"], ensure_ascii=False, separators=(",", ":")).encode()
    except (UnicodeEncodeError, RecursionError):
        raise Refusal(400, f"{where} has data that cannot be written as UTF-8") from None
    return _record({"datacontenttype": "application/json", **attributes}, data, where)


def _bytes(said: Mapping[str, Any], where: str) -> bytes:
    if "data" in said:
        raise Refusal(400, f"{where} has both data and data_base64")
    try:
        return base64.b64decode(said["data_base64"], validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Refusal(400, f"{where} has data_base64 that is not base64") from None


def _record(attributes: Mapping[str, Any], data: bytes, where: str) -> Record:
    said = {name: _text(name, value, where) for name, value in attributes.items()}
    for name in REQUIRED:
        if not said.get(name):
            raise Refusal(400, f"{where} has no {name}, which every CloudEvent has")
    if said["specversion"] != b"1.0":
        raise Refusal(400, f"{where} is of specversion {said['specversion'].decode()[:20]!r}, and 1.0 is taken")
    key, kind = said.pop("partitionkey", None), said.pop("datacontenttype", None)
    headers = [(f"ce_{name}", value) for name, value in said.items()]
    return Record(data, key=key, headers=[*headers, *([("content-type", kind)] if kind else [])])


def _text(name: str, value: Any, where: str) -> bytes:
    if not NAME.fullmatch(name):
        raise Refusal(400, f"{where} has an attribute {name[:60]!r}, which is no name of small letters and digits")
    try:
        match value:
            case bool():
                return b"true" if value else b"false"
            case int():
                return str(value).encode()
            case str():
                return value.encode()
    except ValueError:
        raise Refusal(400, f"{where} has an attribute {name} that cannot be written as UTF-8") from None
    raise Refusal(400, f"{where} has an attribute {name} that is no text, whole number or boolean")
