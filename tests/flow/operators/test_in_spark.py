"""What Spark makes of the SQL of partials, and of the same aggregates by itself, is what these modules say."""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, result_type, state_schema
from headwater.flow.operators.keyed import aggregate_step, latest_step
from headwater.flow.operators.latest import GONE, Latest
from headwater.flow.state import EMPTY, StateSchema, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.shard import conformed
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.operators.partial_sql import sql_of
from tests.flow.operators.subjects import KEY, TIME, Table
from tests.flow.spark_session import spark_session

ZERO = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a `long`": (pa.int64(), [1, None, 2**62, -5, 7, 7]),
    "short": (pa.int16(), [1, 2, None, 4, -7, 8]),
    "double": (pa.float64(), [0.5, float("nan"), None, -2.5, 1.0, 0.25]),
    "money": (pa.decimal128(12, 2), [Decimal("1.10"), None, Decimal("2.25"), Decimal("-3.00"), Decimal("0.01"), None]),
    "wide": (pa.decimal128(38, 10), [Decimal("1.1"), None, Decimal("2.25"), Decimal("-3.00"), Decimal("0.01"), None]),
    "text": (pa.string(), ["b", "ä", "", None, "a", "b"]),
    "flag": (pa.bool_(), [True, None, False, True, None, None]),
    "when": (TIME, [ZERO, None, ZERO, ZERO + datetime.timedelta(1), None, ZERO]),
    "day": (pa.date32(), [ZERO.date(), None, None, None, ZERO.date(), None]),
    "pair": (pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}] * 2),
    "list": (pa.list_(pa.string()), [["a"], None, [], ["b", None], ["c"], None]),
}
NUMBERS = ["a `long`", "short", "double", "money", "wide"]
ORDERED = [name for name in COLUMNS if name not in ("list",)]
BY_SPARK = {
    "count": "count({x})",
    "sum": "sum({x})",
    "avg": "avg({x})",
    "min": "min({x})",
    "max": "max({x})",
    "collect_set": "array_sort(collect_set({x}))",
    "collect": "transform(array_sort(collect_list(case when {x} is not null then named_struct("
    "'t', at, 'o', _offset, 'x', {x}) end)), e -> e.x)",
    "first": "min_by({x}, named_struct('t', at, 'o', _offset)) filter (where at is not null)",
    "last": "max_by({x}, named_struct('t', at, 'o', _offset)) filter (where at is not null)",
}


def newest_sql(spec: Latest, gone: str) -> str:
    """Spark SQL that reduces a group to its newest row, as a struct with the columns of the state.

    `gone` is the expression that is true for a row which deletes its key.
    """
    order = ", ".join(f"'_order_{name}', {quoted(name)}" for name in spec.order.names)
    values = ", ".join(f"'{name}', {quoted(name)}" for name in spec.values.names)
    whole = ", ".join(part for part in (order, values, f"'{GONE}', {gone}") if part)
    return f"max_by(named_struct({whole}), named_struct({order}))"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def specs() -> tuple[Aggregate, ...]:
    wanted = [("sum", NUMBERS), ("avg", NUMBERS), ("min", ORDERED), ("max", ["double", "text", "pair"])]
    wanted += [("collect_set", ["double", "text", "money", "pair"]), ("count", ["text"])]
    wanted += [(kind, ["text", "list"]) for kind in ("first", "last", "collect")]
    return tuple(
        Aggregate(kind, f"{kind} of {name}", name, COLUMNS[name][0], "at", TIME)
        for kind, names in wanted
        for name in names
    )


def rows(begin: int, end: int) -> pa.Table:
    places = range(begin, end)
    minutes = [5, None, 1, 1, 9, 3]
    fixed = {
        "key": pa.array([place % 2 for place in places], pa.int64()),
        "at": pa.array([minute and ZERO + datetime.timedelta(minutes=minute) for minute in minutes[begin:end]], TIME),
        "_topic": pa.array(["t"] * len(places)),
        "_partition": pa.array([0] * len(places), pa.int32()),
        "_offset": pa.array(list(places), pa.int64()),
    }
    return pa.table(fixed | {name: pa.array(values[begin:end], kind) for name, (kind, values) in COLUMNS.items()})


def reduced(spark: Any, batch: pa.Table, sql: dict[str, str]) -> pa.RecordBatch:
    from pyspark.sql import functions as f

    grouped = spark.createDataFrame(batch).groupBy("key").agg(*(f.expr(text).alias(name) for name, text in sql.items()))
    whole = grouped.withColumn("_hash", f.xxhash64("key")).toArrow().combine_chunks()
    return pa.RecordBatch.from_arrays(
        [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in whole.columns],
        names=whole.column_names,
    )


def new_store(values: pa.Schema) -> StateStore:
    return StateStore(DiskFiles(SimulatedDisk(), "state"), StateSchema(KEY, values), shards=1)


def test_partials_and_results_are_those_of_spark(spark: Any) -> None:
    wanted = specs()
    sql = {name: sql for spec in wanted for name, sql in sql_of(spec).items()}
    store, table = new_store(state_schema(wanted)), Table()
    for version, (begin, end) in enumerate([(0, 3), (3, 6)]):
        incoming = reduced(spark, rows(begin, end), sql)
        kinds = {name: incoming.schema.field(name).type for name in sql}
        odd = {part.name: kinds[part.name] for spec in wanted for part in partials(spec)
               if plain(kinds[part.name]) != plain(part.type)}  # fmt: skip
        assert odd == {}
        done = aggregate_step(store.shard(store.begin(version - 1 if version else EMPTY), 0), wanted, incoming)
        store.commit(version, version - 1, filter(None, [done.run]))
        table.apply(done.changes)
    theirs = reduced(
        spark, rows(0, 6), {spec.name: BY_SPARK[spec.kind].format(x=quoted(spec.column or "")) for spec in wanted}
    )
    results = pa.schema([pa.field(spec.name, result_type(spec)) for spec in wanted])
    assert {n: plain(theirs.schema.field(n).type) for n in results.names} == {f.name: plain(f.type) for f in results}
    expected = {row.pop("key"): row for row in conformed(theirs, pa.schema([*KEY, *results])).to_pylist()}
    for key, values in expected.items():
        for name, value in values.items():
            assert repr(table.rows[key][name]) == repr(value), (key, name)


def plain(kind: pa.DataType) -> str:
    """A type without the names of list elements and nullability, which Spark says differently."""
    return str(kind).replace("element: ", "").replace("item: ", "").replace(" not null", "")


def test_the_newest_row_of_a_group_is_that_of_spark(spark: Any) -> None:
    values = pa.schema([("text", pa.string()), ("list", COLUMNS["list"][0])])
    latest = Latest(pa.schema([("at", TIME), ("_offset", pa.int64())]), values)
    store, table = new_store(latest.state), Table()
    for version, (begin, end) in enumerate([(0, 3), (3, 6)]):
        whole = reduced(spark, rows(begin, end), {"newest": newest_sql(latest, "text is null")})
        fields = whole.column("newest").flatten()
        names = [whole.column("newest").type.field(place).name for place in range(len(fields))]
        incoming = pa.RecordBatch.from_arrays(
            [whole.column("_hash"), whole.column("key"), *fields], names=["_hash", "key", *names]
        )
        done = latest_step(store.shard(store.begin(version - 1), 0), latest, incoming)
        store.commit(version, version - 1, filter(None, [done.run]))
        table.apply(done.changes)
    # By time: of key 0 offset 4 is the newest; of key 1 offset 5 is, for offset 1 has no time and offset 3 was earlier.
    assert table.rows == {0: {"text": "a", "list": ["c"]}, 1: {"text": "b", "list": None}}
