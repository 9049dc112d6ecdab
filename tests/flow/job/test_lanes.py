"""Rows that tasks make of a source's columns are those that Spark makes of them, column by column, with their hashes.

One job of Spark for each kind of join, over some hundred rows: of any values, with nulls, and with deletions.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.declare.graph import Job, plan
from headwater.flow.declare.nodes import CHANGELOGS, AsOfJoin, IntervalJoin, Join, Source, TableJoin
from headwater.flow.joins.direct_reading import event_builders, table_builders
from headwater.flow.joins.direct_tables import ReadTable, both_sides, joined_schema
from headwater.flow.joins.join_blocks import with_hashes
from headwater.flow.joins.join_inputs import joined_as_of, joined_streams, joined_tables
from headwater.flow.joins.join_rows import flat
from headwater.flow.joins.row_builders import RowBuilder, StepCounts
from headwater.flow.joins.stream_join_task import StreamJoinOperator
from headwater.flow.joins.table_join_task import BESIDE, SIDE, TableJoinOperator, side_rows
from headwater.flow.operate.job_operators import AnyOperator
from headwater.flow.operate.reports import Operator
from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.joins.events import GIVEN, OFFSET
from headwater.flow.operators.latest import Latest
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.resolution import resolve
from headwater.flow.prepare.newest_rows import newest_of
from headwater.flow.rows.counters import Uncounted
from headwater.flow.rows.sources import frames_of
from headwater.flow.source.ranges import Columns
from headwater.flow.state.shard import conformed

ROWS = 240
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = "t string, l long, i int, d date, at timestamp"


def interval() -> Any:
    app = hw.App("web", shards=4)
    left = app.stream("one", f"{KINDS}, v double", time="at", lateness="1 hour")
    right = app.stream("two", f"{KINDS}, w boolean", lateness="1 hour")
    on = (left.t == right.t) & (left.l == right.l) & (left.d == right.d) & (left.at == right.at)
    app.topic("told")(lambda: left.join(right, on=on, within="1 hour", how="full", prefix="r_"))
    return app


def by_one_column() -> Any:
    app = hw.App("web", shards=4)
    left = app.stream("one", KINDS, time="at", lateness="1 hour")
    right = app.stream("two", KINDS, time="at", lateness="1 hour")
    app.topic("told")(lambda: left.join(right, on="t", within="1 hour", how="full", prefix="r_"))
    return app


def as_of(*key: str, **more: Any) -> Any:
    app = hw.App("web", shards=4)
    events = app.stream("one", KINDS, time="at", lateness="1 hour")
    table = app.table("two", f"{KINDS}, since timestamp, until timestamp", key=list(key), versions="1 hour", **more)
    app.topic("told")(lambda: events.join(table, on=list(key), as_of="at", how="left", prefix="r_"))
    return app


def as_of_validity() -> Any:
    return as_of("t", valid_from="since", valid_to="until", version_id="version")


def as_of_records() -> Any:
    return as_of("i", "t")


def tables() -> Any:
    app = hw.App("web", shards=4)
    left = app.table("one", f"{KINDS}, v double", key="l", version_id="version")
    right = app.table("two", f"{KINDS}, w boolean", key=["i", "t"])
    app.view(key=["l", "r_i", "r_t"], name="all")(
        lambda: left.join(right, on=(left.d == right.d) & (left.at == right.at), how="full", prefix="r_")
    )
    return app


class Prepared:
    """An app's only join, some rows of both its sources, and what Spark has of them."""

    def __init__(self, spark: SparkSession, app: Callable[[], Any], seed: int) -> None:
        self.job: Job
        (self.job,) = plan(app(), explain)
        (self.node,) = [node for node in self.job.operators if isinstance(node, Join)]
        self.inputs = [source for one in self.node.inputs for source in self.job.sources if source is one]
        (resolved,) = resolve(spark, self.job).values()
        self.operators: dict[Any, AnyOperator] = dict(resolved.operators)
        random = Random(seed)
        self.columns = {source: columns_of(source, random) for source in self.job.sources}
        self.frames: dict[Source, DataFrame] = frames_of(self.job, together(spark, list(self.columns.values())))

    def rows(self, lane: RowBuilder, source: Source) -> pa.RecordBatch:
        """As a lane makes them, of some rows after the other."""
        columns, third = self.columns[source], ROWS // 3
        parts = [{name: one.slice(place, third) for name, one in columns.items()} for place in range(0, ROWS, third)]
        return pa.concat_batches([lane.rows(part, StepCounts()) for part in parts])


def columns_of(source: Source, random: Random) -> Columns:
    """As they are read (source/ranges.py)."""
    keyed = isinstance(source, CHANGELOGS)
    gone = [keyed and random.random() < 0.3 for _ in range(ROWS)]
    columns = {
        field.name: pa.array([None if deleted else value_of(field.type, random) for deleted in gone], field.type)
        for field in source.schema.fields
    }
    columns["_partition"] = pa.array([place % 3 for place in range(ROWS)], pa.int32())
    columns["_offset"] = pa.array([place * 7 for place in range(ROWS)], pa.int64())
    times = [BEGIN + timedelta(milliseconds=random.randrange(10**10)) for _ in range(ROWS)]
    columns["_timestamp"] = pa.array(times, pa.timestamp("us", "UTC"))
    if keyed:
        columns |= {"_key": pa.array([key_of(random) for _ in range(ROWS)]), "_tombstone": pa.array(gone)}
    return columns


def value_of(kind: pa.DataType, random: Random) -> Any:
    if random.random() < 0.2:
        return None
    if pa.types.is_string(kind):
        return random.choice(["", "a", "ä€😀", "a much longer text, of more than thirty-two bytes"])
    if pa.types.is_integer(kind):
        return random.choice([0, 7, -1, 2**31 - 1, random.randrange(-40, 40), random.randrange(1000)])
    if pa.types.is_date(kind):
        return date(1969, 12, 30) + timedelta(days=random.randrange(4))
    if pa.types.is_timestamp(kind):
        return BEGIN + timedelta(microseconds=random.choice([0, 1, -(10**16), 10**12 + 999_999]))
    return random.random() < 0.5 if pa.types.is_boolean(kind) else random.choice([0.5, float("nan")])


def key_of(random: Random) -> bytes | None:
    return random.choice([None, b"7", b"a", b'{"t":"a","i":7,"l":8}', b'{"t":"b"}', b"{", "ä".encode(), b"\xff"])


def together(spark: SparkSession, sources: list[Columns]) -> DataFrame:
    """One frame of all sources, as Spark reads it."""
    parts = []
    for number, columns in enumerate(sources):
        own = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        parts.append(pa.table({"_stream": pa.array([number] * ROWS, pa.int32()), f"s{number}": own}))
    return spark.createDataFrame(pa.concat_tables(parts, promote_options="default"))


def same_rows(ours: pa.RecordBatch, theirs: pa.RecordBatch, by: list[str]) -> None:
    """Column by column, whatever their order."""
    assert ours.schema.names == theirs.schema.names
    assert ours.num_rows == theirs.num_rows > ROWS // 10
    order = [(name, "ascending") for name in by]
    ours, theirs = (rows.take(pc.sort_indices(rows, order)) for rows in (ours, theirs))
    for name in ours.schema.names:
        assert as_bytes(ours.column(name)) == as_bytes(theirs.column(name)), name


def as_bytes(column: pa.Array) -> list[Any]:
    """Text may be none, and yet has to be the same; a value that is no number is equal to itself."""
    values = column.cast(pa.binary()) if pa.types.is_string(column.type) else column
    return [repr(value) for value in values.to_pylist()]


@pytest.mark.parametrize("app", [interval, by_one_column, as_of_validity, as_of_records])
def test_events_and_versions_are_what_spark_makes_of_them(spark: SparkSession, app: Callable[[], Any]) -> None:
    prepared = Prepared(spark, app, 5)
    node, (left, right) = prepared.node, [prepared.frames[source] for source in prepared.inputs]
    operator = prepared.operators[node]
    assert isinstance(operator, StreamJoinOperator)
    counters = (Uncounted(), Uncounted())
    if isinstance(node, IntervalJoin):
        made = joined_streams(node, left, right, "join", (None, None), counters)
    else:
        assert isinstance(node, AsOfJoin)
        made = joined_as_of(node, left, right, "join", (None, None), counters)
    (rows,) = flat(made.rows(4)).toArrow().combine_chunks().to_batches()
    rows = with_hashes(rows)
    lanes = event_builders(prepared.job, node, operator, {})
    for which, (source, events) in enumerate(zip(prepared.inputs, operator.sides, strict=True)):
        theirs = side_rows(rows, which, operator.beside if which else GIVEN)
        assert theirs is not None
        lane = lanes[prepared.job.sources.index(source)]
        assert lane.which == which
        ours = prepared.rows(lane, source)
        same_rows(ours, conformed(theirs, events.incoming), [OFFSET])


def read_tables(prepared: Prepared) -> list[ReadTable]:
    join = prepared.operators[prepared.node]
    assert isinstance(join, TableJoinOperator)
    found = []
    for source, side in zip(prepared.inputs, (join.work.left, join.work.right), strict=True):
        operator = prepared.operators[source]
        assert isinstance(operator, Operator)
        found.append(ReadTable(operator, "", side, keeps=True))
    return found


def test_both_sides_of_changes_are_what_spark_makes_of_them(spark: SparkSession) -> None:
    prepared = Prepared(spark, tables, 7)
    node, read = prepared.node, read_tables(prepared)
    assert isinstance(node, TableJoin)
    lanes = table_builders(prepared.job, node, read)
    ours, frames = [], []
    for source, table in zip(prepared.inputs, read, strict=True):
        lane = lanes[prepared.job.sources.index(source)]
        assert isinstance(table.operator.work, Latest)
        rows = newest_of(table.operator.work, table.operator.key, prepared.rows(lane, source))
        was, is_ = both_sides(table, made_of(table.operator, rows))
        ours.append(pa.concat_batches([was, is_]))
        both = [
            spark.createDataFrame(plain(part, table)).withColumn(SIDE, f.lit(side))
            for side, part in enumerate((was, is_))
        ]
        frames.append(reduce(DataFrame.unionByName, both))
    joined = joined_tables(node, frames[0], frames[1], "join", shards=4).rows(4)
    (rows,) = flat(joined).toArrow().combine_chunks().to_batches()
    for which, table in enumerate(read):
        theirs = side_rows(rows, which, BESIDE)
        assert theirs is not None
        same_rows(ours[which], conformed(theirs, joined_schema(table.side)), ["_row", "_after"])


def made_of(operator: Operator, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Changes: of the first half of the rows to the other values of the second, the rest are new or gone."""
    keys, values = rows.select(operator.key.names), rows.select(operator.values.names)
    count = rows.num_rows
    existed, exists = ([place % 3 != other for place in range(count)] for other in (0, 1))
    turned = values.take(pa.array([(place + 1) % count for place in range(count)]))
    return merge_changes(keys, np.array(existed), turned, np.array(exists), values)


def plain(part: pa.RecordBatch, table: ReadTable) -> pa.Table:
    return pa.Table.from_batches([part.select(table.side.columns.names)])
