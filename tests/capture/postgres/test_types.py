"""Every value survives: from the database's text to JSON, and back into the same type."""

import base64
import json
import string
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.capture.postgresql.database import Database
from headwater.capture.postgresql.types import TypeFacts, converter
from tests.servers.postgres_cluster import Cluster, empty_database

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
words = st.one_of(texts, st.sampled_from(['"', "\\", "{,}", "NULL", "null", "", "(a,b)", "a'b", "\n\t", "é€😀"]))
integers = st.integers(-(2**31), 2**31 - 1)
decimals = st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: format(number, "f")).filter(
    lambda number: len(number) < 100
)  # fmt: skip
floats = st.one_of(st.floats(allow_nan=False).map(repr), st.sampled_from(["NaN", "Infinity", "-Infinity", "-0"]))
single = st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
moments = st.one_of(st.datetimes().map(str), st.sampled_from(["infinity", "-infinity"]))
clocks = st.times().map(str)
offsets = st.integers(-15 * 60, 15 * 60).map(lambda minutes: f"{minutes // 60:+03d}:{minutes % 60:02d}")
spans = st.tuples(*[st.integers(-500, 500)] * 4).map(
    lambda parts: "{} months {} days {} hours {}.25 seconds".format(*parts)
)


def quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def listed(value: Any) -> str:
    """An array as PostgreSQL writes it."""
    if isinstance(value, list):
        return "{" + ",".join(map(listed, value)) + "}"
    return "NULL" if value is None else quoted(str(value))


lists = st.lists(st.one_of(st.none(), integers), max_size=4).map(listed)
word_lists = st.lists(st.one_of(st.none(), words), max_size=4).map(listed)
squares = st.lists(st.lists(integers, min_size=2, max_size=2), min_size=1, max_size=3).map(listed)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, words), lambda inner: st.lists(inner, max_size=3), max_leaves=5
).map(json.dumps)
ranges = st.tuples(integers, st.integers(0, 1000)).map(lambda ends: f"[{ends[0]},{min(ends[0] + ends[1], 2**31 - 1)})")
records = st.tuples(st.one_of(st.none(), integers), words).map(
    lambda row: f"({'' if row[0] is None else row[0]},{quoted(row[1])})"
)

VALUES: dict[str, st.SearchStrategy[str]] = {
    "boolean": st.sampled_from(["true", "false"]),
    "smallint": st.integers(-(2**15), 2**15 - 1).map(str),
    "integer": integers.map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "oid": st.integers(0, 2**32 - 1).map(str),
    "real": single,
    "double precision": floats,
    "numeric": st.one_of(decimals, st.sampled_from(["NaN", "Infinity", "-Infinity"])),
    "numeric(20,4)": st.decimals(-(10**15), 10**15, places=4).map(str),
    "money": st.integers(-(10**9), 10**9).map(str),
    "text": words,
    "varchar(30)": words,
    "char(30)": words,
    "name": st.text(string.ascii_letters, max_size=20),
    "bytea": st.binary(max_size=20).map(lambda value: "\\x" + value.hex()),
    "date": st.one_of(st.dates().map(str), st.sampled_from(["infinity", "-infinity"])),
    "timestamp": moments,
    "timestamp(3)": moments,
    "timestamptz": st.one_of(st.tuples(st.datetimes(), offsets).map(lambda both: f"{both[0]}{both[1]}"), moments),
    "time": clocks,
    "timetz": st.tuples(clocks, offsets).map("".join),
    "interval": spans,
    "uuid": st.uuids().map(str),
    "json": documents,
    "jsonb": documents,
    "inet": st.ip_addresses().map(str),
    "cidr": st.ip_addresses(v=4).map(str),
    "macaddr": st.binary(min_size=6, max_size=6).map(lambda value: value.hex(":")),
    "bit(1)": st.sampled_from("01"),
    "bit(5)": st.text("01", min_size=5, max_size=5),
    "varbit": st.text("01", max_size=9),
    "int4range": ranges,
    "int4multirange": ranges.map("{{{}}}".format),
    "point": st.tuples(integers, integers).map(str),
    "tsvector": st.text(string.ascii_lowercase, min_size=1, max_size=9),
    "pg_lsn": st.integers(0, 2**64 - 1).map(lambda address: f"{address >> 32:X}/{address & 0xFFFFFFFF:X}"),
    "mood": st.sampled_from(["happy", "very sad", 'a "mood"', "a,b"]),
    "positive": st.integers(1, 10**6).map(str),
    "words": word_lists,
    "integer[]": lists,
    "integer[][]": squares,
    "text[]": word_lists,
    "mood[]": st.lists(st.sampled_from(["happy", "very sad", 'a "mood"', "a,b"])).map(listed),
    "bytea[]": st.lists(st.binary(max_size=5).map(lambda value: "\\x" + value.hex()), max_size=3).map(listed),
    "timestamptz[]": st.lists(st.datetimes().map(str), max_size=3).map(listed),
    "pair": records,
    "pair[]": st.lists(records, max_size=3).map(listed),
    "box[]": st.lists(st.tuples(integers, integers), max_size=2).map(
        lambda corners: "{" + ";".join(f"({x},{y}),(0,0)" for x, y in corners) + "}"
    ),
}


@pytest.fixture(scope="module")
def asking(cluster: Cluster) -> Iterator[tuple[Database, dict[int, TypeFacts]]]:
    database = Database(empty_database(cluster, "types"))
    for statement in (
        "CREATE TYPE mood AS ENUM ('happy', 'very sad', 'a \"mood\"', 'a,b')",
        "CREATE DOMAIN positive AS numeric(10) CHECK (VALUE > 0)",
        "CREATE DOMAIN words AS text[]",
        "CREATE TYPE pair AS (number int, label text)",
    ):
        database.connection.execute(statement)
    yield database, database.types()
    database.close()


def back(type: str, value: Any) -> str | None:
    """From JSON to what PostgreSQL reads: what a consumer has to know of a type."""
    match value:
        case None:
            return None
        case bool() if type.startswith("bit"):
            return "1" if value else "0"
        case bool():
            return str(value).lower()
        case list():
            delimiter = ";" if type.startswith("box") else ","
            inner = [back(type.removesuffix("[]"), one) for one in value]
            bare = any(isinstance(one, list) for one in value) or type.startswith("box")
            return "{" + delimiter.join("NULL" if one is None else one if bare else quoted(one) for one in inner) + "}"
        case dict():
            return "(" + ",".join("" if one is None else quoted(str(one)) for one in value.values()) + ")"
        case str() if type.startswith("bytea"):
            return "\\x" + base64.b64decode(value).hex()
    return str(value)


@pytest.mark.parametrize("type", VALUES)
def test_a_value_is_the_same_after_its_way_through_json(
    asking: tuple[Database, dict[int, TypeFacts]], type: str
) -> None:
    @settings(max_examples=40)
    @given(VALUES[type])
    def check(literal: str) -> None:
        fragment, emitted = through_json(*asking, type, literal)
        value = json.loads(fragment, parse_float=str, parse_int=str)
        # Some types cannot be compared with one another, but as the texts that they are.
        same = "::text" if type in ("json", "point") or type.startswith("box") else ""
        equal = f"SELECT %s::{type}{same} IS NOT DISTINCT FROM %s::{type}{same}"
        assert asking[0].one(equal, back(type, value), emitted.decode()), fragment

    check()


def through_json(database: Database, catalog: dict[int, TypeFacts], type: str, literal: str) -> tuple[bytes, bytes]:
    """The JSON of a value, and what travels for it: what the type's output function writes, which a cast may not."""
    row = f"SELECT %s::{type}, pg_typeof(%s::{type})::oid"
    result = database.connection.execute(row, (literal, literal)).pgresult
    assert result is not None
    emitted, oid = result.get_value(0, 0) or b"", int(result.get_value(0, 1) or 0)
    return converter(oid, result.fmod(0), catalog)(emitted), emitted


@pytest.mark.parametrize("type", ["json", "jsonb"])
def test_documents_stay_the_text_they_are(asking: tuple[Database, dict[int, TypeFacts]], type: str) -> None:
    _, catalog = asking
    oid = next(oid for oid, facts in catalog.items() if facts.name == type)
    assert converter(oid, -1, catalog)(b'{"a":  1.10}') == b'"{\\"a\\":  1.10}"'


def test_an_unknown_type_is_the_text_that_the_database_shows() -> None:
    assert converter(1, -1, {})(b'any "thing"') == b'"any \\"thing\\""'
