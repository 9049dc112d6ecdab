"""The key of a deletion, read from the key of its record, is the one that Spark reads there: of any bytes."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.declare.topology.nodes import SourceTable
from headwater.flow.rows.deletion_keys import can_be_read, with_keys
from headwater.flow.rows.sources import _with_deletions

TEXTS: list[bytes | None] = [
    None, b"", b" ", b'""', b'"', b"k7", b'"k7"', b'""k7""', b'k"7', b" k7 ", b"7", b'"7"', b'" 7 "', b" 7 ", b"\t7\n",
    b"+7", b"-7", b"--7", b"+ 7", b"07", b"-0", b"7.5", b"7.", b"7e2", b"7L", b"0x7", b"true", b"null", b"nul", b"NaN",
    b"1_000", b"\xd9\xa7", b"\xc2\xa07", b"\x007", b"\x0b7", b"7\x7f", b"7\x00",
    b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775808", b"-9223372036854775809", b"123456789012345678901234567890",
    b'{"id":7}', b' {"id" : 7 } ', b'{"id":"7"}', b'{"id":"k7"}', b'{"id":null}', b'{"id":7.0}', b'{"id":7.5}',
    b'{"id":true}', b'{"id":[7]}', b'{"id":{"a":7}}', b'{"id":2147483648}', b'{"id":9223372036854775808}',
    b'{"id":""}', b'{"id":" 7 "}', b'{"ID":7}', b'{"id":7,"id":8}', b'{"id":7,"n":8}', b'{"id":7,"n":"8"}',
    b'{"id":"a","n":8}', b'{"n":8,"id":"a"}', b'{"n":8}', b'{"id":"a","n":null}', b'{"id":"a","n":8.5}', b'{"id":"a"}',
    b'{"id":"a","n":"b"}', b'{"id":7,"n":"b"}', b'{"more":[1,{"id":9}],"id":"a","n":1}',
    b"\xff", b'"k\xff"', b" \xc3", b'{"id":"\xff"}', b'{"id":7}\xff', b"7\xff",
    b"{}", b"[]", b'[{"id":7}]', b"{", b'{"id":', b'{"id":7', b'{"id":7}}', b'{"id":7} x', b"{id:7}",
    "{\"id\":\"ä€😀\"}".encode(), "ä€😀".encode(), b'{"id":"\\u00e4\\ud83d\\ude00"}', b'{"id":"\\"7\\""}',
]  # fmt: skip
OTHERWISE = [b'{"id":7e1,"n":1}', b"{'id':7,'n':1}"]
"""A fraction in text, and an object in quotes of another kind."""
KINDS = ["id string", "id int", "id long", "id string, n long", "id long, n string", "id int, n int"]


def table_of(ddl: str) -> SourceTable:
    app = hw.App("shop")
    key = [part.split()[0] for part in ddl.split(", ")]
    node = app.table("rows", f"{ddl}, v long", key=key).node
    assert isinstance(node, SourceTable)
    return node


def rows_of(table: SourceTable, texts: list[bytes | None]) -> pa.Table:
    """Each key by itself, and beside columns of which one, or none, is there."""
    kinds = {name: table.schema.field(name).type for name in table.key}
    places = range(len(texts))
    own = {name: [None for _ in places] for name in table.key}
    sets = [own]
    for name in table.key:
        there: list[object] = ["here" if pa.types.is_string(kinds[name]) else 5 for _ in places]
        sets.append({**own, name: there})  # type: ignore[dict-item]
    count = len(texts) * len(sets)
    columns = {name: pa.array([one for each in sets for one in each[name]], kinds[name]) for name in table.key}
    columns["_key"] = pa.array(texts * len(sets), pa.binary())
    columns["_tombstone"] = pa.array([True] * count)
    columns["_offset"] = pa.array(range(count), pa.int64())
    return pa.table(columns)


def differences(spark: SparkSession, ddl: str, texts: list[bytes | None]) -> Iterator[tuple[object, ...]]:
    """Rows, what was there of their keys before, what we make of them, and what Spark does."""
    table = table_of(ddl)
    rows = rows_of(table, texts)
    kinds = {name: table.schema.field(name).type for name in table.key}
    # As bytes: those that are no text are handed on as they are, and Arrow's text cannot have them.
    wanted = [f.col(name).cast("binary") if pa.types.is_string(kind) else f.col(name) for name, kind in kinds.items()]
    found = _with_deletions(table, spark.createDataFrame(rows)).orderBy("_offset").select(*wanted).toArrow()
    made = with_keys({name: rows[name].combine_chunks() for name in rows.column_names}, table.key)
    ours = [made[name].cast(pa.binary()) if pa.types.is_string(kinds[name]) else made[name] for name in table.key]
    theirs = [found[name] for name in table.key]
    before = [rows[name] for name in table.key]
    for place, text in enumerate(rows["_key"].to_pylist()):
        was, one, other = (tuple(column[place].as_py() for column in columns) for columns in (before, ours, theirs))
        if one != other:
            yield text, was, one, other


@pytest.mark.parametrize("ddl", KINDS)
def test_keys_of_deletions_are_those_that_spark_reads(spark: SparkSession, ddl: str) -> None:
    assert list(differences(spark, ddl, TEXTS)) == []


def test_a_fraction_in_text_stays_as_it_stands_and_objects_in_single_quotes_are_none(spark: SparkSession) -> None:
    """The two that Spark reads otherwise. A row with such a fraction in its value is called as it stands there."""
    found = list(differences(spark, "id string, n long", [*OTHERWISE]))
    alone = {(text, ours, theirs) for text, was, ours, theirs in found if was == (None, None)}
    assert alone == {(OTHERWISE[0], (b"7e1", 1), (b"70.0", 1)), (OTHERWISE[1], (None, None), (b"7", 1))}


def test_a_key_that_is_there_stays() -> None:
    columns = {"id": pa.array([3], pa.int64()), "_key": pa.array([b"7"]), "_offset": pa.array([0], pa.int64())}
    assert with_keys(columns, ("id",))["id"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("kind", "can"),
    [(pa.string(), True), (pa.int32(), True), (pa.int64(), True), (pa.int16(), False), (pa.date32(), False)],
)
def test_keys_of_other_kinds_are_left_to_spark(kind: pa.DataType, can: bool) -> None:
    assert can_be_read(kind) is can
