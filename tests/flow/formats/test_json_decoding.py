import base64
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import InvalidFormat, InvalidSchema
from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.kernels import columns, json_scan
from headwater.flow.formats.schema import parse_ddl
from tests.flow.formats import json_reference

FLAT = """
    a string, b bigint, c int, d smallint, e tinyint, f double, g float, h boolean, i decimal(12,2), j decimal(38,10),
    k timestamp, l timestamp_ntz, m date, n binary, o decimal(3,3), `p"\\` int
"""
NESTED = """
    a array<bigint>, b array<string>, c struct<x: int, y: struct<z: string>>, d map<string, int>,
    e array<struct<f: array<decimal(5,1)>, g: map<string, array<date>>>>, h string
"""
ORDERS = "id string, user_id long, amount decimal(12,2), currency string, at timestamp"


def binary(values: Sequence[bytes | None]) -> pa.BinaryArray:
    return pa.array(values, type=pa.binary())


def decode(ddl: str, *values: bytes | None, **options: str) -> Decoded:
    decoded = decoder_for("json", parse_ddl(ddl), options).decode(binary(list(values)))
    decoded.columns.validate(full=True)
    assert decoded.columns.schema == parse_ddl(ddl).arrow
    return decoded


def only(ddl: str, value: bytes, **options: str) -> Any:
    """The one column of one good row."""
    decoded = decode(ddl, value, **options)
    assert decoded.reasons == []
    return decoded.columns.column(0)[0].as_py()


def reason(ddl: str, value: bytes | None, **options: str) -> str:
    decoded = decode(ddl, value, **options)
    assert decoded.bad.tolist() == [0]
    assert all(column.null_count == 1 for column in decoded.columns.columns)
    return decoded.reasons[0]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (
            (math.isnan(one) and math.isnan(other))
            or (one == other and math.copysign(1, one * other) == 1)
            or (one == other == 0 and math.copysign(1, one) == math.copysign(1, other))
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def check_against_reference(ddl: str, values: Sequence[bytes | None], unit: str | None = None) -> None:
    schema = parse_ddl(ddl)
    decoded = decode(ddl, *values, **({"timestamp": unit} if unit else {}))
    rows = decoded.columns.to_pylist()
    bad = set(decoded.bad.tolist())
    assert sorted(bad) == decoded.bad.tolist()
    assert len(decoded.reasons) == len(bad)
    for place, value in enumerate(values):
        try:
            wanted = json_reference.decode(value, schema.arrow, unit)
        except json_reference.Bad:
            wanted = None
        except NotImplementedError:
            continue
        assert (wanted is None) == (place in bad), (value, decoded.reasons, wanted)
        if wanted is not None:
            assert same(rows[place], wanted), (value, rows[place], wanted)


# Texts and numbers that are near the border of something.
numbers = st.one_of(
    st.integers(-200, 200).map(str),
    st.integers(-(2**66), 2**66).map(str),
    st.sampled_from([str(sign * 2**bits + off) for bits in (7, 15, 31, 63) for off in (-1, 0, 1) for sign in (1, -1)]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**10), max_value=10**10).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["-0", "-0.0", "0e5", "1e400", "1e-400", "1.7976931348623159e308", "0.5e-3", "9.995", "99.9995"]),
    st.sampled_from(["01", "1.", ".5", "-", "+1", "1e", "1e+", "NaN", "Infinity", "0x10", "1_0", "--1", "1.e5"]),
)
times = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.datetimes().map(lambda moment: moment.isoformat(" ") + "Z"),
    st.tuples(st.datetimes(), st.integers(-1100, 1100)).map(
        lambda pair: f"{pair[0].isoformat()}{'-' if pair[1] < 0 else '+'}{abs(pair[1]) // 60:02}:{abs(pair[1]) % 60:02}"
    ),
    st.from_regex(json_reference.PATTERN, fullmatch=True).filter(str.isascii),
    st.dates().map(str),
    st.sampled_from(["2023-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01T00:00+01:00"]),
    st.sampled_from(["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59-01:00", "2024-01-01T24:00", "2024-13-01"]),
)
texts = st.one_of(
    st.text(max_size=12).map(json.dumps),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=12).map(lambda t: json.dumps(t, ensure_ascii=False)),
    times.map(json.dumps),
    numbers.map(json.dumps),
    st.binary(max_size=7).map(lambda raw: json.dumps(base64.b64encode(raw).decode())),
    st.sampled_from(
        [r'"\ud800"', r'"\udc00x"', r'"\ud83d\ude00"', r'"\ud83d\u0041"', r'"a\/b"', r'"\u00e9\n"', '"=="']
    ),
    st.sampled_from(['"NaN"', '"-Infinity"', '"+INF"', '"YQ=="', '"YR=="', '"YQ="', r'"\u0059Q=="', '"\t"', r'"\x"']),
)
scalars = st.one_of(numbers, texts, st.sampled_from(["true", "false", "null", "nul", "True", ""]))
spaces = st.sampled_from(["", "", "", " ", "\n\t\r "])
keys = st.one_of(st.sampled_from([json.dumps(name) for name in [*"abcdefghijklmnoxyz", 'p"\\']]),
                 st.sampled_from([r'"\u0061"', r'"\u0062"', '"zz"', '""', r'"\ud800"']))  # fmt: skip


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(spaces, keys, spaces, values, spaces).map(lambda m: f"{m[0]}{m[1]}{m[2]}:{m[3]}{m[4]}")
    return st.lists(member, max_size=6).map(lambda members: "{" + ",".join(members) + "}")


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(spaces, values, spaces).map("".join), max_size=4).map(lambda v: "[" + ",".join(v) + "]")


fitting = st.fixed_dictionaries({}, optional={
    "a": texts, "b": numbers, "c": numbers, "d": numbers, "e": st.integers(-130, 130).map(str), "f": numbers,
    "g": numbers, "h": st.sampled_from(["true", "false", "null"]), "i": numbers, "j": numbers,
    "k": times.map(json.dumps), "l": times.map(json.dumps), "m": times.map(json.dumps), "n": texts, "o": numbers,
}).map(lambda row: "{" + ",".join(f'"{key}":{value}' for key, value in row.items()) + "}")  # fmt: skip
flat = st.one_of(fitting, objects(scalars)).map(lambda text: text.encode("utf-8", "surrogatepass"))
nested = objects(st.recursive(scalars, lambda inner: st.one_of(objects(inner), arrays(inner)), max_leaves=8)).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


@st.composite
def mutated(draw: st.DrawFn, rows: st.SearchStrategy[bytes]) -> bytes:
    row = bytearray(draw(rows))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(row)))
        how = draw(st.integers(0, 2))
        if how == 0:
            del row[place : place + draw(st.integers(1, 3))]
        elif how == 1:
            row[place:place] = draw(
                st.sampled_from([b",", b"}", b"]", b'"', b"\\", b"\x00", b"\xff", b" ", b"1", b"{"])
            )
        elif row:
            row[min(place, len(row) - 1)] = draw(st.integers(0, 255))
    return bytes(row)


@given(st.lists(flat, max_size=8))
@example([b'{"o":0.9995}', b'{"i":9999999999.995}', b'{"j":0.00000000005}', b'{"f":1e400}', b'{"g":1e39}'])
@example([b'{"g":1.00000029802322387695312500001}', b'{"g":1e-45}', b'{"f":123456789012345678901234567890}'])
def test_flat_columns_are_what_a_plain_reading_gives(rows: list[bytes]) -> None:
    check_against_reference(FLAT, rows)


@given(st.lists(st.one_of(mutated(flat), st.none(), st.binary(max_size=20)), max_size=8))
def test_broken_rows_are_exactly_those_a_plain_reading_refuses(rows: list[bytes | None]) -> None:
    check_against_reference(FLAT, rows)


@given(st.lists(st.one_of(nested, mutated(nested)), max_size=5))
@example([b'{"d":{"x":1,"y":2,"\\u0078":3}}', b'{"d":{}}', b'{"a":[],"b":[null,"x"],"c":{}}'])
@example([b'{"e":[{"f":[1.25,null]},null,{"g":{"a":["2024-02-29"],"a":[]}}]}', b'{"e":[{"f":[100000]}]}'])
def test_nested_columns_are_what_a_plain_reading_gives(rows: list[bytes]) -> None:
    check_against_reference(NESTED, rows)


@given(st.lists(st.one_of(flat, numbers.map(lambda n: f'{{"k":{n},"l":{n}}}'.encode())), max_size=6),
       st.sampled_from(["seconds", "millis", "micros"]))  # fmt: skip
def test_numbers_are_timestamps_if_the_unit_is_said(rows: list[bytes], unit: str) -> None:
    check_against_reference(FLAT, rows, unit)


@given(st.lists(nested, min_size=2, max_size=6), st.data())
def test_a_slice_of_values_decodes_like_the_values_alone(rows: list[bytes], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    decoder = decoder_for("json", parse_ddl(NESTED))
    sliced, alone = decoder.decode(binary(rows)[start:]), decoder.decode(binary(rows[start:]))
    assert sliced.columns.equals(alone.columns)
    assert sliced.reasons == alone.reasons


def test_a_row_has_one_place_whether_good_or_bad() -> None:
    decoded = decode(ORDERS, b'{"id":"a","amount":1.5}', b"{", b'{"id":"b","user_id":"x"}', b'{"id":"c"}')
    assert decoded.columns.column(0).to_pylist() == ["a", None, None, "c"]
    assert decoded.columns.column(2).to_pylist() == [Decimal("1.50"), None, None, None]
    assert decoded.bad.tolist() == [1, 2]
    assert decoded.bad.dtype == np.int64


def test_nothing_decodes_to_nothing() -> None:
    assert decode(ORDERS).columns.num_rows == 0
    assert decode(NESTED).columns.num_rows == 0


def test_of_a_name_that_occurs_twice_the_last_counts() -> None:
    assert only("a int", b'{"a":1,"a":2}') == 2
    assert only("a int", b'{"a":"x","a":2}') == 2
    assert only("a map<string,int>", b'{"a":{"x":1,"y":2,"x":3}}') == [("y", 2), ("x", 3)]


def test_names_are_compared_exactly_and_others_skipped() -> None:
    assert only("a int", b'{"A":1,"b":{"a":[2,{}]},"":0}') is None
    assert only("a int", b'{"\\u0061":5}') == 5


def test_a_name_with_a_quote_in_it_stands_escaped_or_not_at_all() -> None:
    ddl = """o int, `p"\\` int"""
    assert decode(ddl, rb'{"o":1,"p\"\\":5}').columns.column(1).to_pylist() == [5]
    assert reason(ddl, rb'{"o":1,"p"\":5}') == 'not JSON: a ":" was expected, at byte 10: \\":5}'


def test_a_text_column_takes_whatever_stands_there_as_its_text() -> None:
    rows = [b'{"a":1.50}', b'{"a":true}', b'{"a":{"b": [1, 2]}}', b'{"a":[ ]}', b'{"a":"\\u00e9\\ud83d\\ude00"}']
    assert decode("a string", *rows).columns.column(0).to_pylist() == ["1.50", "true", '{"b": [1, 2]}', "[ ]", "é😀"]


def test_decimals_are_rounded_half_up_as_spark_does() -> None:
    assert only("a decimal(5,2)", b'{"a":1.005}') == Decimal("1.01")
    assert only("a decimal(5,2)", b'{"a":-1.005}') == Decimal("-1.01")
    assert only("a decimal(5,2)", b'{"a":"999.994"}') == Decimal("999.99")
    assert reason("a decimal(5,2)", b'{"a":999.995}') == "a: 999.995 does not fit a decimal(5,2)"


def test_nesting_ends_at_a_thousand() -> None:
    deep = b'{"b":' + b"[" * 999 + b"]" * 999 + b"}"
    assert only("a int", deep) is None
    deeper = b'{"b":' + b"[" * 1000 + b"]" * 1000 + b"}"
    assert "it is nested deeper than 1000" in reason("a int", deeper)


@pytest.mark.parametrize(
    ("ddl", "value", "sentence"),
    [
        ("a int", None, "the value is null: read the topic as a table if that means a deletion"),
        ("a int", b"", "the value is empty, where a JSON object was expected"),
        ("a int", b"[1]", "not a JSON object: it begins with [1]"),
        ("a int", b'{"a":1', 'not JSON: the text ends too early, after {"a":1'),
        ("a int", b'{"a":1} x', "not JSON: something follows the object, at byte 8: x"),
        ("a int", b'{"a":1,}', "not JSON: a name in quotes was expected, at byte 7: }"),
        ("a int", b'{"a" 1}', 'not JSON: a ":" was expected, at byte 5: 1}'),
        ("a int", b'{"a":01}', "not JSON: a number is not written as JSON wants it, at byte 5: 01}"),
        ("a int", b'{"a":NaN}', "not JSON: a value was expected, at byte 5: NaN}"),
        ("a int", b'{"b":"\xff"}', 'not JSON: the bytes are not UTF-8, at byte 6: �"}'),
        ("a int", b'{"b":"\n"}', "not JSON: a control character stands in a text without being escaped, at byte 6"),
        ("a int", b'{"b":"\\x"}', "not JSON: the letters behind a backslash have no meaning, at byte 6"),
        ("a int", b'{"b":[1 2]}', 'not JSON: a "," or a closing bracket was expected, at byte 8: 2]}'),
        ("a int", b'{"a":"abc"}', 'a: "abc" is not an int'),
        ("a int", b'{"a":1.5}', "a: 1.5 is not an int"),
        ("a tinyint", b'{"a":300}', "a: 300 does not fit a tinyint"),
        ("amount decimal(12,2)", b'{"amount":"abc"}', 'amount: "abc" is not a decimal(12,2)'),
        ("a string", b'{"a":"\\ud800"}', 'a: "\\ud800" holds half a surrogate pair, which is no text'),
        ("a boolean", b'{"a":"true"}', 'a: "true" is not a boolean'),
        ("a binary", b'{"a":"?"}', 'a: "?" is not base64'),
        ("a date", b'{"a":"2023-02-29"}', 'a: "2023-02-29" is not a date'),
        ("a timestamp", b'{"a":1700000000}', "a: 1700000000 is a number: set the option timestamp to seconds, millis"),
        ("a int NOT NULL", b"{}", "a: missing, and the schema says NOT NULL"),
        ("a int NOT NULL", b'{"a":null}', "a: null, and the schema says NOT NULL"),
        ("a struct<b: int NOT NULL>", b'{"a":{}}', "a.b: missing, and the schema says NOT NULL"),
        ("a array<int>", b'{"a":[1,"x"]}', 'a[1]: "x" is not an int'),
        ("a array<int>", b'{"a":7}', "a: 7 is not an array<int>"),
        ("a map<string,array<int>>", b'{"a":{"k":[],"l":[1,2.5]}}', 'a["l"][1]: 2.5 is not an int'),
        ("a struct<b: array<struct<c: int>>>", b'{"a":{"b":[{},{"c":true}]}}', "a.b[1].c: true is not an int"),
    ],
)
def test_a_bad_row_has_a_reason_for_a_person(ddl: str, value: bytes | None, sentence: str) -> None:
    assert reason(ddl, value).startswith(sentence)


def test_a_number_beyond_all_time_says_so() -> None:
    message = reason("a timestamp", b'{"a":99999999999999}', timestamp="seconds")
    assert message == "a: 99999999999999 seconds are no time between the years 1 and 9999"


def test_a_long_value_is_shortened_in_its_reason() -> None:
    assert len(reason("a int", b'{"a":"' + b"x" * 10_000 + b'"}')) < 120


def test_mistakes_in_schema_and_options_are_told_before_any_row() -> None:
    with pytest.raises(InvalidFormat, match=r'format json has no option "timestap". Did you mean timestamp\?'):
        decoder_for("json", parse_ddl("a int"), {"timestap": "millis"})
    with pytest.raises(InvalidFormat, match=r'timestamp of format json cannot be "milis". Did you mean millis\?'):
        decoder_for("json", parse_ddl("a int"), {"timestamp": "milis"})
    with pytest.raises(InvalidSchema, match=r"keys in JSON are texts. Make it map<string, int>"):
        decoder_for("json", parse_ddl("a array<map<int, int>>"))


def test_each_compiled_function_exists_once() -> None:
    # A second version, for arrays that differ in being writable, would double the time of the first start.
    for rows in ([], [b'{"a":"\\u0031","c":{"x":1},"d":{"k":2},"e":[{"f":["1"]}]}'], [None]):
        decode(NESTED, *rows)
        decode(FLAT, *rows)
    assert len(json_scan._scan_objects.signatures) == 1
    assert len(json_scan._scan_elements.signatures) == 1
    assert len(columns._drop_repeated.signatures) == 1
