"""Bodies of requests to records."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.http.bodies import records_of
from headwater.capture.http.refusal import Refusal

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(VALUES)
def test_json_is_one_record_as_it_was_sent(value: Any) -> None:
    sent = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    (record,) = records_of({"content-type": "Application/JSON; charset=UTF-8"}, b" \n" + sent + b"\n")
    assert (record.value, record.key) == (sent, None)


@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from([b"\n", b"\r\n", b"\n\n \n"]))
def test_each_line_is_a_record(values: list[Any], separator: bytes) -> None:
    lines = [json.dumps(value).encode() for value in values]
    assert [record.value for record in records_of(LINES, separator.join(lines))] == lines


def test_a_property_can_be_the_key() -> None:
    body = b'{"id": "a", "n": 1}\n{"id": 7, "n": 2}\n{"id": true}'
    assert [record.key for record in records_of(LINES, body, key="id")] == [b"a", b"7", b"true"]


REFUSED: list[tuple[dict[str, str], bytes, str, int, str]] = [
    (JSON, b"", "", 400, "the body is not JSON"),
    (JSON, b"{", "", 400, "the body is not JSON"),
    (JSON, b"NaN", "", 400, "NaN is no number"),
    (JSON, b'{"a": Infinity}', "", 400, "Infinity is no number"),
    (JSON, b"\xff", "", 400, "the body is not UTF-8"),
    (JSON, '{"a": 1}'.encode("utf-16"), "", 400, "the body is not UTF-8"),
    (JSON, b"[" * 200_000, "", 400, "the body is not JSON"),
    (JSON, b"1" * 5000, "", 400, "the body is not JSON"),
    (JSON, b"1 2", "", 400, "the body is not JSON"),
    (JSON, b'{"id": null}', "id", 400, "has no text or number 'id'"),
    (JSON, b"[1]", "id", 400, "has no text or number 'id'"),
    (JSON, b'{"id": "\\ud800"}', "id", 400, "half a character"),
    (LINES, b'{"a": 1}\n{"a": \n{"a": 3}', "", 400, "line 2 is not JSON"),
    (LINES, b" \n\n", "", 400, "the body has no line"),
    (LINES, b"1\n" * 50_001, "", 413, "50000 may be sent at once"),
    ({}, b"{}", "", 415, "the content type '' is not taken; send one of application/json"),
    ({"content-type": "text/plain"}, b"{}", "", 415, "'text/plain' is not taken"),
    ({"content-type": "application/json; charset=latin1"}, b"{}", "", 415, "the charset 'latin1'"),
]


@pytest.mark.parametrize("headers, body, key, status, sentence", REFUSED)
def test_what_is_not_what_it_claims_to_be_is_refused(
    headers: dict[str, str], body: bytes, key: str, status: int, sentence: str
) -> None:
    with pytest.raises(Refusal) as refused:
        records_of(headers, body, key=key)
    assert refused.value.status == status
    assert sentence in str(refused.value)
