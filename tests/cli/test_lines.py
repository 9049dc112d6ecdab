import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headwater.cli.lines import BadLine, Line, from_json, from_text, to_json, to_text

contents = some.none() | some.binary(max_size=40) | some.text(max_size=20).map(str.encode)


@given(
    value=contents,
    key=contents,
    headers=some.lists(some.tuples(some.text(max_size=10), contents), max_size=3),
    timestamp_ms=some.integers(0, 2**53),
    partition=some.integers(0, 10_000),
)
def test_what_consume_prints_produce_can_read(
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp_ms: int,
    partition: int,
) -> None:
    record = Line(value, key, tuple(headers), timestamp_ms, partition)
    assert from_json(to_json(record, topic="orders", offset=7)) == record


@given(some.binary(max_size=40).filter(lambda content: b"\n" not in content and not content.endswith(b"\r")))
def test_a_line_of_text_is_the_value_byte_for_byte(value: bytes) -> None:
    assert from_text(to_text(Line(value), with_key=False)).value == value


def test_a_line_end_of_windows_is_no_part_of_the_value() -> None:
    assert from_text(b"two lamps\r\n").value == b"two lamps"


def test_only_the_first_separator_ends_the_key() -> None:
    assert from_text(b"ada::a:b\n", key_separator=b"::") == Line(b"a:b", b"ada")


def test_a_line_without_the_separator_is_refused() -> None:
    with pytest.raises(BadLine, match="no ':' between key and value"):
        from_text(b"two lamps\n", key_separator=b":")


def test_an_empty_key_and_an_empty_value_are_not_missing_ones() -> None:
    assert from_text(b":\n", key_separator=b":") == Line(b"", b"")
    assert from_json(b'{"key": "", "value": ""}') == Line(b"", b"")
    assert from_json(b'{"value": null}') == Line(None, None)


def test_json_that_is_not_text_stands_for_itself() -> None:
    assert json.loads(from_json(b'{"value": {"cents": [1, 2.5, null]}}').value or b"") == {"cents": [1, 2.5, None]}


def test_headers_may_be_an_object() -> None:
    assert from_json(b'{"value": "v", "headers": {"trace": "7f"}}').headers == (("trace", b"7f"),)


def test_a_missing_value_is_shown_as_null() -> None:
    assert to_text(Line(None, None), with_key=True) == b"null\tnull\n"


@pytest.mark.parametrize(
    "line, why",
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"key": "k"}', 'no "value"'),
        (b'{"value": "v", "vlaue": 1}', "unknown fields: vlaue"),
        (b'{"value": {"base64": "?"}}', "base64 cannot be decoded"),
        (b'{"value": "v", "partition": "0"}', '"partition" is not a number'),
        (b'{"value": "v", "timestamp": -1}', '"timestamp" is not a number'),
        (b'{"value": "v", "headers": 1}', '"headers" is neither'),
        (b'{"value": "v", "headers": [["a"]]}', "not a list of"),
    ],
)
def test_a_json_line_that_is_no_record_says_why(line: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        from_json(line)
