"""CloudEvents: the same record in whichever mode an event was sent."""

import json
from typing import Any

import pytest

from headwater.capture.http.bodies import records_of
from headwater.capture.http.refusal import Refusal

EVENT: dict[str, Any] = {
    "specversion": "1.0", "id": "7", "source": "/shop", "type": "order.made", "time": "2026-01-01T00:00:00Z",
    "partitionkey": "ada", "datacontenttype": "application/json", "data": {"amount": 5, "für": "ö"},
}  # fmt: skip
HEADERS = [("ce_id", b"7"), ("ce_source", b"/shop"), ("ce_specversion", b"1.0"), ("ce_time", b"2026-01-01T00:00:00Z"),
           ("ce_type", b"order.made"), ("content-type", b"application/json")]  # fmt: skip
ONE = {"content-type": "application/cloudevents+json; charset=utf-8"}
SEVERAL = {"content-type": "application/cloudevents-batch+json"}
DATA = '{"amount":5,"für":"ö"}'.encode()


def test_an_event_is_the_same_record_in_every_mode() -> None:
    attributes = {f"ce-{name}": value for name, value in EVENT.items() if name not in ("data", "datacontenttype")}
    (structured,) = records_of(ONE, json.dumps(EVENT).encode())
    (binary,) = records_of({"content-type": "application/json", **attributes}, DATA)
    (batched, _) = records_of(SEVERAL, json.dumps([EVENT, EVENT]).encode())
    for record in (structured, binary, batched):
        assert (record.key, record.value, sorted(record.headers)) == (b"ada", DATA, HEADERS)


def test_bytes_travel_in_base64() -> None:
    event = {name: value for name, value in EVENT.items() if name != "data"} | {"data_base64": "/wA="}
    (record,) = records_of(ONE, json.dumps(event).encode())
    assert record.value == b"\xff\x00"


def test_headers_are_decoded_as_the_binding_says() -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-subject": "Z%C3%BCrich"}
    (record,) = records_of(headers, b"any bytes \xff")
    assert record.value == b"any bytes \xff"
    assert ("ce_subject", "Zürich".encode()) in record.headers


def test_an_event_without_data_is_an_empty_value_and_deletes_nothing() -> None:
    (record,) = records_of(ONE, json.dumps({**EVENT, "data": None}).encode())
    assert record.value == b""


REFUSED: list[tuple[dict[str, str], Any, str]] = [
    (ONE, [], "the event is not a JSON object"),
    (ONE, {**EVENT, "id": ""}, "has no id"),
    (ONE, {name: value for name, value in EVENT.items() if name != "source"}, "has no source"),
    (ONE, {**EVENT, "specversion": "0.3"}, "of specversion '0.3'"),
    (ONE, {**EVENT, "data_base64": "/wA="}, "both data and data_base64"),
    (ONE, {**EVENT, "Bad-Name": "x"}, "an attribute 'Bad-Name'"),
    (ONE, {**EVENT, "nested": {}}, "an attribute nested that is no text"),
    (ONE, {**EVENT, "half": "\ud800"}, "cannot be written as UTF-8"),
    (ONE, {**EVENT, "data": "\ud800"}, "cannot be written as UTF-8"),
    (SEVERAL, EVENT, "a batch of events is a list"),
    (SEVERAL, [], "a list with at least one"),
    (SEVERAL, [EVENT, {**EVENT, "type": None}], "event 2 has no type"),
]


@pytest.mark.parametrize("headers, said, sentence", REFUSED)
def test_what_is_no_event_is_refused(headers: dict[str, str], said: Any, sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence.replace("'", ".")) as refused:
        records_of(headers, json.dumps(said).encode())
    assert refused.value.status == 400
