"""Rows that lie at one offset of the log are distinguished by what is in them, the same way in Spark and in tasks."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.flow.prepare.join_sides import content_hashes
from headwater.flow.proof.plain_query import newest
from headwater.flow.rows.row_steps import PATH
from headwater.flow.rows.tie_breaking import content_hash, path_order

ROWS = [(5, None, 1), (None, 5, 1), (5, 5, 1), (None, None, 1), (5, 6, 1)]


def frame_of(spark: SparkSession, rows: list[Any] = ROWS) -> DataFrame:
    return spark.createDataFrame(rows, f"a long, b long, {PATH} long")


def test_rows_that_differ_in_which_column_is_null_differ(spark: SparkSession) -> None:
    names = ["a", "b", PATH]
    hashes = [row[0] for row in frame_of(spark).select(content_hash(names)).collect()]
    assert len(set(hashes)) == len(ROWS)
    columns = [pa.array([row[place] for row in ROWS], pa.int64()) for place in range(len(names))]
    assert content_hashes(columns, len(ROWS)).tolist() == hashes


def test_a_row_without_nulls_has_the_hash_that_spark_gives_it(spark: SparkSession) -> None:
    whole = frame_of(spark).where("a = 5 and b = 6")
    [(own, plain)] = whole.select(content_hash(["a", "b"]), f.xxhash64("a", "b")).collect()
    assert own == plain


def test_which_of_the_rows_on_one_path_is_the_latest_does_not_depend_on_their_order(spark: SparkSession) -> None:
    """As those that one event meets in a table."""
    found = set()
    for rows in (ROWS, ROWS[::-1], ROWS[2:] + ROWS[:2]):
        placed = frame_of(spark, rows).selectExpr("1 as k", "*", "named_struct('offset', 3) as _at").coalesce(1)
        found.add(tuple(newest(placed, ("k",), "_at", PATH).collect()[0]))
    assert len(found) == 1


def test_maps_do_not_stand_in_the_way(spark: SparkSession) -> None:
    frame = frame_of(spark).selectExpr("*", "map('x', 1) as m")
    assert len({row[0] for row in frame.select(path_order(frame)).collect()}) == len(ROWS)
